#include "model/decoder.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "model/micro_batch_check.h"
#include "model/network.h"
#include "model/torch_guard.h"

namespace shoal::model {
namespace {

class NetworkDecoder final : public Decoder {
 public:
  NetworkDecoder(const ModelSpec& spec, const Network& network) : spec_(spec), network_(network) {}

  Status NextLogits(std::span<const std::int32_t> ids, std::span<float> logits) override {
    ids = ids.last(std::min<std::size_t>(ids.size(), spec_.positions));
    SHOAL_RETURN_IF_ERROR(Check(ids, logits.size()));
    // The last token is computed in any case: its logits are not kept.
    const auto end =
        ids.begin() + static_cast<std::ptrdiff_t>(std::min(known_.size(), ids.size() - 1));
    const auto past = static_cast<std::size_t>(
        std::mismatch(ids.begin(), end, known_.begin()).first - ids.begin());
    known_.clear();
    SHOAL_RETURN_IF_ERROR(Guard(
        "decoding",
        [&] {
          if (row_ == nullptr) row_ = network_.BeginRow();
          network_.ContinueRow(row_.get(), static_cast<std::int64_t>(past), ids.subspan(past),
                               logits);
          return Status::Ok();
        },
        [] { return MemoryUse{.trains = false}; }));
    known_.assign(ids.begin(), ids.end());
    computed_ = ids.size() - past;
    return Status::Ok();
  }

  std::size_t computed() const override { return computed_; }

 private:
  Status Check(std::span<const std::int32_t> ids, std::size_t logits) const {
    SHOAL_RETURN_IF_ERROR(CheckSize("logits", logits, spec_.vocabulary));
    MicroBatch row;
    row.rows = 1;
    row.tokens = static_cast<std::uint32_t>(ids.size());
    row.samples = {SampleId{0}};
    row.token_ids = ids;
    return CheckMicroBatch(spec_, {true, true}, row, false);
  }

  const ModelSpec& spec_;
  const Network& network_;
  std::shared_ptr<Network::Row> row_;
  std::vector<std::int32_t> known_;  // whose keys and values the row has
  std::size_t computed_ = 0;
};

}  // namespace

Result<std::unique_ptr<Decoder>> NewDecoder(const StageModel& stage) {
  const StageRange whole = {0, stage.spec().layers()};
  const auto* computing = dynamic_cast<const HasNetwork*>(&stage);
  if (computing == nullptr || stage.options().range != whole ||
      stage.options().held == ZeroMode::kZero3) {
    return FailedPrecondition("only a stage of the whole model, with all of its weights, decodes");
  }
  if (stage.spec().classes() > 0) return FailedPrecondition("a classifier has no next token");
  return std::unique_ptr<Decoder>(
      std::make_unique<NetworkDecoder>(stage.spec(), computing->network()));
}

}  // namespace shoal::model
