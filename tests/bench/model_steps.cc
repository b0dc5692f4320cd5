// One side of ./x bench model: a whole model in one stage that makes training steps as it is asked.
// tests/bench/torch_steps.py is the other side and says the same.
//
// Options are pairs of a name and a value: --model DIR, --tokens N, --recompute 0|1, --rank N (0:
// everything is trained), --dropout P (of the adapters). Writes {} when the model is loaded. Each
// line of standard input is then a number of steps; each answer is one line of JSON, with the CPU
// seconds that they took, the loss of each, and the most memory so far, in bytes beyond what the
// process had before the model.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "common/status.h"
#include "model/families/adapter_config.h"
#include "model/families/open_model.h"
#include "model/stage_model.h"

namespace shoal::model {
namespace {

using nlohmann::json;

[[noreturn]] void Die(const std::string& what) {
  std::fprintf(stderr, "model_steps: %s\n", what.c_str());
  std::exit(1);
}

// Of /proc/self/status, in bytes.
std::uint64_t MemoryOf(const std::string& key) {
  std::ifstream file("/proc/self/status");
  for (std::string word; file >> word;) {
    std::uint64_t kibibytes = 0;
    if (word == key + ":" && file >> kibibytes) return kibibytes * 1024;
  }
  Die("/proc/self/status has no " + key);
}

// The most that the process had counts from here.
void ForgetMostMemory() {
  std::ofstream file("/proc/self/clear_refs");
  if (!(file << 5 << std::flush)) Die("/proc/self/clear_refs cannot be written");
}

class Trainer {
 public:
  explicit Trainer(std::map<std::string, std::string> options)
      : tokens_(static_cast<std::uint32_t>(std::stoul(options.at("--tokens")))) {
    const std::string folder = options.at("--model");
    auto opened = OpenModel(folder);
    if (!opened.ok()) Die(opened.status().ToString());
    if (const auto rank = std::stoul(options.at("--rank")); rank > 0) {
      AdapterConfig config;
      config.rank = static_cast<std::uint32_t>(rank);
      config.alpha = 2 * static_cast<double>(rank);
      config.dropout = std::stod(options.at("--dropout"));
      Check(Adapt(config, &opened->spec));
    }
    StageOptions wanted;
    wanted.range = {0, opened->spec.layers()};
    wanted.device = "cpu";
    wanted.recompute = options.at("--recompute") == "1";
    wanted.threads = 1;
    wanted.fresh_masks = true;
    auto made = NewTorchStage(opened->spec, wanted);
    if (!made.ok()) Die(made.status().ToString());
    stage_ = std::move(made).value();
    Check(stage_->LoadDirectory(*opened->directory));
    for (std::uint32_t i = 0; i < tokens_; ++i) {
      ids_.push_back(
          static_cast<std::int32_t>(std::uint64_t{i} * 7919 % stage_->spec().vocabulary));
    }
  }

  // The mean loss of the one row, before the step.
  double Step() {
    MicroBatch batch;
    batch.id = {step_, 0};
    batch.rows = 1;
    batch.tokens = tokens_;
    batch.samples = {SampleId{0}};
    batch.token_ids = ids_;
    std::vector<std::int32_t> labels(ids_.begin() + 1, ids_.end());
    labels.push_back(kIgnoredLabel);
    batch.labels = labels;
    StepLoss loss;
    Check(stage_->Forward(batch, {}, &loss));
    Check(stage_->BackwardInput(batch.id, {}, {}));
    for (bool more = true; more;) {
      const Result<bool> part = stage_->BackwardWeights(batch.id);
      Check(part.status());
      more = *part;
    }
    const double scale = 1 / static_cast<double>(loss.labels);
    constexpr double kLearningRate = 1e-4;
    Check(stage_->Apply(step_++, scale, std::sqrt(stage_->SquaredGradientNorm(scale)),
                        kLearningRate));
    return loss.sum * scale;
  }

 private:
  static void Check(const Status& status) {
    if (!status.ok()) Die(status.ToString());
  }

  const std::uint32_t tokens_;
  std::unique_ptr<StageModel> stage_;
  std::vector<std::int32_t> ids_;
  std::uint64_t step_ = 0;
};

int Main(int argc, char** argv) {
  std::map<std::string, std::string> options;
  for (int i = 1; i + 1 < argc; i += 2) options[argv[i]] = argv[i + 1];
  for (const char* name : {"--model", "--tokens", "--recompute", "--rank", "--dropout"}) {
    if (!options.contains(name)) Die(std::string("no ") + name);
  }
  const std::uint64_t before = MemoryOf("VmRSS");
  Trainer trainer(options);
  ForgetMostMemory();
  std::cout << json::object() << std::endl;
  for (int steps = 0; std::cin >> steps;) {
    json losses = json::array();
    const std::clock_t start = std::clock();
    for (int i = 0; i < steps; ++i) losses.push_back(trainer.Step());
    const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
    std::cout << json{{"cpuSeconds", seconds},
                      {"losses", losses},
                      {"peakBytes", MemoryOf("VmHWM") - before}}
              << std::endl;
  }
  return 0;
}

}  // namespace
}  // namespace shoal::model

int main(int argc, char** argv) { return shoal::model::Main(argc, argv); }
