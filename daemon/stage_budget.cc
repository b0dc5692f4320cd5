#include "daemon/stage_budget.h"

#include <sys/statvfs.h>

#include <algorithm>

#include "common/log.h"
#include "common/units.h"
#include "compression/api/codec.h"
#include "compression/api/segment_count.h"
#include "dataset/sampler.h"
#include "storage/delta/delta_size.h"

namespace shoal::daemon {
namespace {

// What the run's codecs keep of a sample.
Result<storage::DeltaImages> ImagesOf(const pipeline::RunnerConfig& config) {
  const compression::SampleShape shape{config.row_tokens, config.hidden};
  SHOAL_ASSIGN_OR_RETURN(const auto forward,
                         compression::MakeCodec(config.forward_codec, config.hidden));
  SHOAL_ASSIGN_OR_RETURN(const auto backward,
                         compression::MakeCodec(config.backward_codec, config.hidden));
  const auto bytes = [&](const compression::MessageCodec& codec) {
    return compression::KeptBytes(codec, shape, config.micro_batch_rows, config.segment_bytes_min);
  };
  std::uint64_t m = 0;
  for (const auto& codec : {forward, backward}) m += codec->keeps_m() ? bytes(*codec) : 0;
  return storage::DeltaImages{.m = m,
                              .residual = backward->keeps_residual() ? bytes(*backward) : 0};
}

}  // namespace

Result<StageBudget> BudgetOf(const pipeline::RunnerConfig& config,
                             const control::v1::RunConfig& run, const DaemonConfig& daemon) {
  SHOAL_ASSIGN_OR_RETURN(const storage::DeltaImages sample, ImagesOf(config));
  StageBudget budget;
  // As if all of the plan's pipelines counted, with the most: which home it has is the scheduler's.
  const std::uint64_t own_samples =
      dataset::SamplesOfPipeline(run.train_rows(), run.micro_batches(), 0, config.pipelines);
  const auto size = storage::ComputeDeltaSize(sample, run.train_rows(), own_samples, config.stages);
  const std::uint64_t boundaries = (config.stage > 0) + (config.stage + 1 < config.stages);
  const std::uint64_t quota = daemon.delta_store_bytes;
  const bool tight = daemon.store_space == "tight";
  budget.delta_sample_bytes = sample.m;
  budget.residual_sample_bytes = sample.residual;
  budget.delta_store_bytes =
      boundaries * size.boundary_bytes + (config.stage > 0 ? size.residual_bytes : 0);
  budget.delta_disk_bytes = storage::DeltaDiskBytesMax(
      tight ? storage::StoreSpace::kTight : storage::StoreSpace::kDefault,
      quota == 0 ? budget.delta_store_bytes : std::min(budget.delta_store_bytes, quota));
  struct statvfs info {};
  if (::statvfs(daemon.directory.c_str(), &info) == 0) {
    budget.disk_free_bytes = std::uint64_t{info.f_bavail} * info.f_frsize;
  }
  if (size.all_bytes == 0) return budget;
  SHOAL_LOG(kInfo, "daemon", "stage.m", {"per_sample", FormatBytes(sample.m)},
            {"per_boundary", FormatBytes(size.boundary_bytes)},
            {"residual_per_sample", FormatBytes(sample.residual)},
            {"residual_at_upper_end", FormatBytes(size.residual_bytes)},
            {"in_all", FormatBytes(budget.delta_store_bytes)},
            {"files_up_to", FormatBytes(budget.delta_disk_bytes)},
            {"quota", quota == 0 ? "none" : FormatBytes(quota)},
            {"disk_free", FormatBytes(budget.disk_free_bytes)});
  return budget;
}

}  // namespace shoal::daemon
