// quality_run SPEC.json [DEVICE]: one training of the quality bench on a device, the CPU if none is
// named; prints its figures as JSON.
// tests/quality/bench.py writes the specs.

#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>

#include "common/file.h"
#include "tests/quality/experiment.h"

namespace shoal::quality {
namespace {

using nlohmann::json;

template <typename T>
void Read(const json& spec, const char* name, T* value) {
  if (spec.contains(name)) spec.at(name).get_to(*value);
}

void ReadModel(const json& from, ModelShape* spec) {
  Read(from, "layers", &spec->layers);
  Read(from, "hidden", &spec->hidden);
  Read(from, "heads", &spec->heads);
  Read(from, "tokenizer", &spec->tokenizer);
  Read(from, "threads", &spec->threads);
}

json Optional(const std::optional<double>& value) { return value ? json(*value) : json(); }

json ShapeJson(const BoundaryShape& shape) {
  return {{"kurtosis", shape.kurtosis},
          {"channelRatio", shape.channel_ratio},
          {"tokenRatio", shape.token_ratio},
          {"changeMedian", shape.change_median},
          {"changeP90", shape.change_p90}};
}

Result<json> Base(const json& from, const std::string& device) {
  BaseSpec spec;
  spec.model.device = device;
  ReadModel(from, &spec.model);
  Read(from, "wikitext", &spec.wikitext);
  Read(from, "wikitextValidation", &spec.wikitext_validation);
  Read(from, "shakespeare", &spec.shakespeare);
  Read(from, "firstSteps", &spec.first_steps);
  Read(from, "secondSteps", &spec.second_steps);
  Read(from, "firstRate", &spec.first_rate);
  Read(from, "secondRate", &spec.second_rate);
  Read(from, "firstWarmup", &spec.first_warmup);
  Read(from, "secondWarmup", &spec.second_warmup);
  Read(from, "firstDecay", &spec.first_decay);
  Read(from, "secondDecay", &spec.second_decay);
  Read(from, "saveEvery", &spec.save_every);
  Read(from, "folder", &spec.folder);
  SHOAL_ASSIGN_OR_RETURN(const BaseFigures figures, TrainBase(spec));
  return json{{"wikitextLoss", figures.wikitext_loss},
              {"shakespeareLoss", figures.shakespeare_loss}};
}

Result<json> Row(const json& from, const std::string& device) {
  RowSpec spec;
  spec.model.device = device;
  ReadModel(from, &spec.model);
  Read(from, "stages", &spec.stages);
  Read(from, "pipelines", &spec.pipelines);
  Read(from, "replica", &spec.replica);
  Read(from, "weights", &spec.weights);
  Read(from, "shakespeare", &spec.shakespeare);
  Read(from, "forward", &spec.forward);
  Read(from, "backward", &spec.backward);
  Read(from, "firstEpochBackward", &spec.first_epoch_backward);
  Read(from, "microBatches", &spec.micro_batches);
  Read(from, "rows", &spec.rows);
  Read(from, "epochs", &spec.epochs);
  Read(from, "learningRate", &spec.learning_rate);
  Read(from, "seed", &spec.seed);
  Read(from, "dropout", &spec.dropout);
  Read(from, "freshMasks", &spec.fresh_masks);
  Read(from, "compute", &spec.compute);
  SHOAL_ASSIGN_OR_RETURN(const RowFigures figures, TrainRow(spec));
  json out{{"device", figures.device},        {"heldOutBefore", figures.held_out_before},
           {"deltaHits", figures.delta_hits}, {"firstVisits", figures.first_visits},
           {"resends", figures.resends},      {"mismatches", figures.mismatches}};
  for (const EpochFigures& epoch : figures.epochs) {
    out["trainLoss"].push_back(epoch.train_loss);
    out["heldOutLoss"].push_back(epoch.held_out_loss);
    out["deltaNorm"].push_back(Optional(epoch.delta_norm));
    out["receivedError"].push_back(Optional(epoch.received_error));
    out["gradientError"].push_back(Optional(epoch.gradient_error));
    out["lowRankPart"].push_back(Optional(epoch.low_rank_part));
    out["correlation"].push_back(Optional(epoch.correlation));
    out["lazyPart"].push_back(Optional(epoch.lazy));
    out["deltaModes"].push_back(epoch.delta_modes);
    json& boundaries = out["boundaries"].emplace_back(json::array());
    for (const BoundaryShape& shape : epoch.boundaries) boundaries.push_back(ShapeJson(shape));
    out["forwardBytes"].push_back(epoch.forward_bytes);
    out["backwardBytes"].push_back(epoch.backward_bytes);
    out["otherBytes"].push_back(epoch.other_bytes);
    out["values"].push_back(epoch.values);
    out["replicaBytes"].push_back(epoch.replica_bytes);
    out["replicaRawBytes"].push_back(epoch.replica_raw_bytes);
  }
  return out;
}

Result<json> Run(const std::string& path, const std::string& device) {
  SHOAL_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, 1 << 20));
  const json spec = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!spec.is_object()) return InvalidArgument(path + " is not a JSON object");
  try {
    return spec.value("action", "") == "base" ? Base(spec, device) : Row(spec, device);
  } catch (const json::exception& error) {
    return InvalidArgument(path + ": " + error.what());
  }
}

}  // namespace
}  // namespace shoal::quality

int main(int argc, char** argv) {
  if (argc != 2 && argc != 3) {
    std::fprintf(stderr, "usage: quality_run SPEC.json [DEVICE]; see tests/quality/bench.py\n");
    return 2;
  }
  const auto figures = shoal::quality::Run(argv[1], argc == 3 ? argv[2] : "cpu");
  if (!figures.ok()) {
    std::fprintf(stderr, "quality_run: %s\n", figures.status().ToString().c_str());
    return 1;
  }
  std::printf("%s\n", figures->dump(1).c_str());
  return 0;
}
