#include "scheduler/server/stage_needs.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "common/units.h"
#include "model/families/stage_memory.h"
#include "replica/methods/replica_method.h"

namespace shoal::scheduler {
namespace {

std::string Pad(const std::string& text, std::size_t width) {
  return text + std::string(text.size() < width ? width - text.size() : 1, ' ');
}

std::string CutsText(const std::vector<std::uint32_t>& first_layers) {
  std::string text = "cuts = [";
  for (std::size_t stage = 1; stage + 1 < first_layers.size(); ++stage) {
    text += (stage > 1 ? ", " : "") + std::to_string(first_layers[stage]);
  }
  return text + "]";
}

}  // namespace

std::uint64_t LargestUnit(const model::ModelSpec& model, bool ends) {
  const bool table = ends && (model.Trains(model.embedding.tokens.weight) ||
                              model.Trains(model.head.output.weight));
  const auto width = static_cast<std::uint64_t>(model.embedding.width(model.hidden));
  const std::uint64_t widest = std::max(width, std::uint64_t{model.hidden});
  return std::max(model.TrainedParametersOf(0, 1, false, false),
                  table ? model.vocabulary * widest : 0);
}

struct StageMemory::State {
  RunConfig config;
  model::ModelSpec model;
  std::vector<std::uint64_t> base_bytes;
  replica::ReplicaMethod method;

  // Of a stage in 1F1B: those that its successors have not sent back yet.
  std::uint64_t InFlight(std::uint32_t stage, std::uint32_t stages) const {
    const std::uint64_t of_pipeline =
        (config.micro_batches + config.pipelines - 1) / config.pipelines;
    const std::uint64_t most = config.in_flight_max > 0 ? config.in_flight_max : of_pipeline;
    return std::min({of_pipeline, most, std::uint64_t{stages - stage}});
  }
};

StageMemory::StageMemory(std::unique_ptr<State> state) : state_(std::move(state)) {}
StageMemory::~StageMemory() = default;
StageMemory::StageMemory(StageMemory&&) noexcept = default;

Result<StageMemory> StageMemory::Make(RunConfig config, const model::ModelSpec& model,
                                      std::vector<std::uint64_t> base_bytes) {
  SHOAL_CHECK(base_bytes.empty() || base_bytes.size() == model.PartNames().size());
  auto state = std::make_unique<State>();
  SHOAL_ASSIGN_OR_RETURN(state->method, replica::ParseReplicaMethod(config.replica_method));
  state->config = std::move(config);
  state->model = model;
  state->base_bytes = std::move(base_bytes);
  return StageMemory(std::move(state));
}

StageNeeds StageMemory::Of(std::uint32_t first, std::uint32_t last, std::uint32_t stage,
                           std::uint32_t stages) const {
  const RunConfig& config = state_->config;
  const model::ModelSpec& model = state_->model;
  const bool embedding = first == 0, head = last == model.layers();
  StageNeeds need;
  if (!state_->base_bytes.empty()) {
    // The embedding's part comes before the layers', the head's behind them; what all stages share
    // before all.
    const std::uint32_t shared = model.relative ? 1 : 0;
    if (model.relative) need.base += state_->base_bytes.front();
    for (std::uint32_t part = first + (embedding ? 0 : 1); part < last + (head ? 2 : 1); ++part) {
      need.base += state_->base_bytes[shared + part];
    }
  }
  // compute = "auto": each item as on the peer where it takes more. A GPU has a bf16 copy of the
  // weights, a CPU wider activations.
  need.trained = state_->method.StateBytes(model.TrainedParametersOf(first, last, embedding, head),
                                           config.pipelines, config.compute != "fp32",
                                           LargestUnit(model, embedding || head));
  for (const bool bf16 : {false, true}) {
    if (config.compute == (bf16 ? "fp32" : "bf16")) continue;
    need.micro_batch =
        std::max(need.micro_batch,
                 model::KeptBytes(model, {first, last, bf16, config.dropout > 0, config.recompute},
                                  {config.micro_batch_rows, config.row_tokens}));
  }
  need.in_flight = state_->InFlight(stage, stages);
  return need;
}

std::vector<StageNeeds> StageMemory::OfCuts(const std::vector<std::uint32_t>& first_layers) const {
  std::vector<StageNeeds> needs;
  const auto stages = static_cast<std::uint32_t>(first_layers.size() - 1);
  for (std::uint32_t stage = 0; stage < stages; ++stage) {
    needs.push_back(Of(first_layers[stage], first_layers[stage + 1], stage, stages));
  }
  return needs;
}

// Each stage takes as many layers as it can, and leaves one for each stage behind it: a stage that
// took fewer would leave more to the others.
std::optional<std::vector<std::uint32_t>> StageMemory::CutsWithin(std::uint64_t most,
                                                                  std::uint32_t stages) const {
  const std::uint32_t layers = state_->model.layers();
  if (stages == 0 || stages > layers) return {};
  std::vector<std::uint32_t> cuts = {0};
  for (std::uint32_t stage = 0; stage < stages; ++stage) {
    const std::uint32_t first = cuts.back(), farthest = layers - (stages - 1 - stage);
    std::uint32_t last = stage + 1 == stages ? layers : first + 1;
    if (last <= first || Of(first, last, stage, stages).all() > most) return {};
    while (last < farthest && Of(first, last + 1, stage, stages).all() <= most) ++last;
    cuts.push_back(last);
  }
  return cuts;
}

std::string DescribeStageMemory(const RunConfig& config, const StageMemory& memory,
                                std::uint64_t memory_bytes) {
  const std::vector<StageNeeds> needs = memory.OfCuts(config.stage_first_layers);
  const bool base =
      std::ranges::any_of(needs, [](const StageNeeds& need) { return need.base > 0; });
  std::string text = Pad("stage", 7) + Pad("layers", 9) + (base ? Pad("base", 12) : "") +
                     Pad("trained", 12) + Pad("micro-batches", 18) + "memory of a peer\n";
  bool fits = true;
  for (std::size_t stage = 0; stage < needs.size(); ++stage) {
    const StageNeeds& need = needs[stage];
    const std::uint32_t first = config.stage_first_layers[stage];
    const std::uint32_t last = config.stage_first_layers[stage + 1] - 1;
    const bool too_much = memory_bytes > 0 && need.all() > memory_bytes;
    fits = fits && !too_much;
    text += Pad(std::to_string(stage), 7) +
            Pad(std::to_string(first) + (last > first ? "-" + std::to_string(last) : ""), 9) +
            (base ? Pad(FormatBytes(need.base), 12) : "") + Pad(FormatBytes(need.trained), 12) +
            Pad(std::to_string(need.in_flight) + " x " + FormatBytes(need.micro_batch), 18) +
            FormatBytes(need.all()) + (too_much ? ", more than a peer has" : "") + "\n";
  }
  if (fits) return text;
  const std::string limit = FormatBytes(memory_bytes);
  const std::uint32_t layers = config.stage_first_layers.back();
  for (std::uint32_t stages = config.stages; stages <= layers; ++stages) {
    const auto cuts = memory.CutsWithin(memory_bytes, stages);
    if (!cuts) continue;
    return text + "with " + std::to_string(stages) + " stages and " + CutsText(*cuts) +
           " each fits in " + limit + "\n";
  }
  return text + "no cut into stages fits in " + limit +
         ": take recompute = true, fewer rows in a micro-batch, adapters, or a base of fewer "
         "bits\n";
}

}  // namespace shoal::scheduler
