#include "scheduler/server/stage_needs.h"

#include <algorithm>

#include "common/units.h"
#include "model/families/stage_memory.h"
#include "replica/methods/replica_method.h"

namespace shoal::scheduler {
namespace {

// Of a stage in 1F1B: those that its successors have not sent back yet.
std::uint64_t InFlight(const RunConfig& config, std::uint32_t stage) {
  const std::uint64_t of_pipeline =
      (config.micro_batches + config.pipelines - 1) / config.pipelines;
  const std::uint64_t most = config.in_flight_max > 0 ? config.in_flight_max : of_pipeline;
  return std::min({of_pipeline, most, std::uint64_t{config.stages - stage}});
}

std::string Pad(const std::string& text, std::size_t width) {
  return text + std::string(text.size() < width ? width - text.size() : 1, ' ');
}

}  // namespace

std::uint64_t LargestUnit(const model::ModelSpec& model, bool ends) {
  const bool table = ends && (model.Trains(model.embedding.tokens.weight) ||
                              model.Trains(model.head.output.weight));
  return std::max(model.TrainedParametersOf(0, 1, false, false),
                  table ? std::uint64_t{model.vocabulary} * model.hidden : 0);
}

Result<std::vector<StageNeeds>> NeedsOfStages(const RunConfig& config,
                                              const model::ModelSpec& model,
                                              const std::vector<std::uint64_t>& base_bytes) {
  SHOAL_ASSIGN_OR_RETURN(const replica::ReplicaMethod method,
                         replica::ParseReplicaMethod(config.replica_method));
  const std::vector<std::uint32_t>& cuts = config.stage_first_layers;
  std::vector<StageNeeds> needs;
  for (std::uint32_t stage = 0; stage < config.stages; ++stage) {
    const bool first = stage == 0, last = stage + 1 == config.stages;
    StageNeeds& need = needs.emplace_back();
    if (stage < base_bytes.size()) need.base = base_bytes[stage];
    need.trained = method.StateBytes(
        model.TrainedParametersOf(cuts[stage], cuts[stage + 1], first, last), config.pipelines,
        config.compute == "bf16", LargestUnit(model, first || last));
    need.micro_batch = model::KeptBytes(model,
                                        {cuts[stage], cuts[stage + 1], config.compute == "bf16",
                                         config.dropout > 0, config.recompute},
                                        {config.micro_batch_rows, config.row_tokens});
    need.in_flight = InFlight(config, stage);
  }
  return needs;
}

std::string FormatStageNeeds(const RunConfig& config, const std::vector<StageNeeds>& needs) {
  const bool base =
      std::ranges::any_of(needs, [](const StageNeeds& need) { return need.base > 0; });
  std::string text = "memory of a peer, by stage:\n";
  text += Pad("stage", 7) + Pad("layers", 9) + (base ? Pad("base", 12) : "") + Pad("trained", 12) +
          Pad("micro-batches", 18) + "in all\n";
  for (std::size_t stage = 0; stage < needs.size(); ++stage) {
    const StageNeeds& need = needs[stage];
    const std::uint32_t first = config.stage_first_layers[stage];
    const std::uint32_t last = config.stage_first_layers[stage + 1] - 1;
    const std::string layers =
        std::to_string(first) + (last > first ? "-" + std::to_string(last) : "");
    text += Pad(std::to_string(stage), 7) + Pad(layers, 9) +
            (base ? Pad(FormatBytes(need.base), 12) : "") + Pad(FormatBytes(need.trained), 12) +
            Pad(std::to_string(need.in_flight) + " x " + FormatBytes(need.micro_batch), 18) +
            FormatBytes(need.all()) + "\n";
  }
  return text;
}

}  // namespace shoal::scheduler
