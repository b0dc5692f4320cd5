#include "compression/device/device_stats.h"

#include <vector>

#include "compression/codecs/coding_sample.h"

namespace shoal::compression {
namespace {

constexpr std::string_view kSumsSlot = "sums";

// What the lanes of one block found, in their order.
CodingStats OfBlock(std::span<const LaneSums> lanes, bool based) {
  CodingStats block;
  for (const LaneSums& sums : lanes) {
    block.values += sums.values;
    block.errors += sums.errors;
    block.deltas += sums.deltas;
  }
  if (based) block.based = block.values;
  return block;
}

}  // namespace

Status CountOnDevice(const DeviceContext& context, int bits, std::size_t block,
                     std::span<const DeviceSample> samples, CodingStats* stats) {
  const std::size_t all = (context.shape.values() + block - 1) / block;
  const std::size_t blocks = (all + kStatsShare - 1) / kStatsShare;
  const std::size_t lanes = blocks * kStatsLanes;
  std::vector<LaneSums> sums(samples.size() * lanes);
  SHOAL_ASSIGN_OR_RETURN(std::byte* const at,
                         context.scratch->Reserve(kSumsSlot, sums.size() * sizeof(LaneSums)));
  SHOAL_RETURN_IF_ERROR(SendSamples(context, samples));
  auto job = JobOf<StatsJob>(context, samples.size());
  job.bits = static_cast<std::uint8_t>(bits);
  job.hidden = context.shape.hidden;
  job.block = static_cast<std::uint32_t>(block);
  job.share = static_cast<std::uint32_t>(kStatsShare);
  job.blocks = static_cast<std::uint32_t>(blocks);
  job.sums = reinterpret_cast<LaneSums*>(at);
  context.queue->Run(job);
  context.queue->ToHost(sums.data(), at, sums.size() * sizeof(LaneSums));
  SHOAL_RETURN_IF_ERROR(context.queue->Wait());
  for (std::size_t i = 0; i < samples.size(); ++i) {
    CodingStats sample;
    for (std::size_t b = 0; b < blocks; ++b) {
      const auto of_block = std::span(sums).subspan(i * lanes + b * kStatsLanes, kStatsLanes);
      sample.Add(OfBlock(of_block, samples[i].m != nullptr));
    }
    stats->Add(sample);
  }
  return Status::Ok();
}

}  // namespace shoal::compression
