// TrainBase of experiment.h: the model that the rows of the quality bench start from.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <numeric>
#include <utility>

#include "common/file.h"
#include "model/families/open_model.h"
#include "model/init_weights.h"
#include "tests/quality/experiment.h"
#include "tests/quality/experiment_model.h"
#include "tests/quality/text_windows.h"
#include "tests/support/sim_swarm.h"

namespace shoal::quality {
namespace {

using test_support::SimSwarm;
using test_support::SwarmOptions;

constexpr std::uint64_t kReportSteps = 100, kLossSteps = 20;

model::StageOptions WholeModel(const ModelShape& spec, double beta2) {
  model::StageOptions options;
  options.range = {0, spec.layers};
  options.optimizer.beta2 = beta2;
  options.threads = spec.threads;
  return options;
}

// Writes fresh weights as part files to `folder`.
Status WriteInitialParts(const BaseSpec& spec, const BuiltModel& model, const std::string& folder) {
  const std::string config_path = folder + "/config.json", model_path = folder + "/model";
  SHOAL_RETURN_IF_ERROR(MakeDirectories(folder));
  SHOAL_RETURN_IF_ERROR(WriteFileAtomic(config_path, model.spec.json));
  std::error_code error;
  std::filesystem::remove_all(model_path, error);
  SHOAL_RETURN_IF_ERROR(model::InitModelDirectory(config_path, model_path, 1));
  SHOAL_ASSIGN_OR_RETURN(const auto files, model::OpenModel(model_path));
  model::StageOptions options = WholeModel(spec.model, 0.99);
  options.device = model.device;
  SHOAL_ASSIGN_OR_RETURN(auto stage, model::NewTorchStage(model.spec, options));
  SHOAL_RETURN_IF_ERROR(stage->LoadDirectory(*files.directory));
  return stage->Save(folder);
}

// Where a phase is kept while it trains, so that one that was stopped goes on.
class PhaseFolder {
 public:
  // `every` 0: nothing is kept.
  PhaseFolder(std::string path, std::uint64_t every) : path_(std::move(path)), every_(every) {}

  std::uint64_t every() const { return every_; }

  // Loads what is kept, if there is something; returns the steps done.
  Result<std::uint64_t> Load(model::StageModel* model) const {
    const auto text = ReadFile(path_ + "/steps", 32);
    if (every_ == 0 || !text.ok()) return std::uint64_t{0};
    const std::uint64_t steps = std::strtoull(text->c_str(), nullptr, 10);
    const std::string folder = FolderOf(steps);
    SHOAL_RETURN_IF_ERROR(model->Load(PartFiles(*model, folder, ".safetensors"),
                                      PartFiles(*model, folder, ".optimizer.safetensors")));
    return steps;
  }

  Status Save(model::StageModel* model, std::uint64_t steps, std::uint64_t before) const {
    SHOAL_RETURN_IF_ERROR(MakeDirectories(FolderOf(steps)));
    SHOAL_RETURN_IF_ERROR(model->Save(FolderOf(steps)));
    SHOAL_RETURN_IF_ERROR(WriteFileAtomic(path_ + "/steps", std::to_string(steps)));
    std::error_code error;
    std::filesystem::remove_all(FolderOf(before), error);
    return Status::Ok();
  }

  void Remove() const {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }

 private:
  std::string FolderOf(std::uint64_t steps) const {
    return path_ + "/step-" + std::to_string(steps);
  }

  std::string path_;
  std::uint64_t every_;
};

struct Phase {
  std::shared_ptr<const TextWindows> data;  // rows of step 0, of step 1, ...
  std::uint64_t steps = 0;
  std::function<double(std::uint64_t)> rate;
};

// In a swarm of one stage.
Status TrainPhase(std::unique_ptr<model::StageModel>* model, const Phase& phase,
                  const PhaseFolder& kept) {
  SHOAL_ASSIGN_OR_RETURN(std::uint64_t saved, kept.Load(model->get()));
  SwarmOptions options;
  options.stages = 1;
  options.micro_batches = 1;
  options.rows = kBatch;
  options.tied = false;
  options.random_delays = false;
  options.new_model = [model](std::uint32_t) { return std::move(*model); };
  options.data = phase.data;
  options.learning_rate = phase.rate;
  options.samples = [](std::uint64_t step) {
    dataset::MicroBatchSamples rows;
    for (std::uint32_t i = 0; i < kBatch; ++i) rows.samples.push_back({step * kBatch + i});
    return std::vector{rows};
  };
  SimSwarm swarm(options);
  bool ok = swarm.Open(saved);
  for (std::uint64_t done = saved; ok && done < phase.steps;) {
    const std::uint64_t next =
        kept.every() > 0 ? std::min(kept.every(), kReportSteps) : kReportSteps;
    done = std::min(done + next, phase.steps);
    ok = swarm.TrainTo(done);
    if (!ok) break;
    const auto count =
        static_cast<std::ptrdiff_t>(std::min<std::uint64_t>(kLossSteps, swarm.losses_.size()));
    const double sum = std::accumulate(swarm.losses_.end() - count, swarm.losses_.end(), 0.0);
    std::fprintf(stderr, "base: step %llu, loss %.4f\n", static_cast<unsigned long long>(done),
                 sum / static_cast<double>(count));
    if (kept.every() > 0 && done >= saved + kept.every()) {
      SHOAL_RETURN_IF_ERROR(kept.Save(swarm.peers()[0]->model_.get(), done, saved));
      saved = done;
    }
  }
  if (!ok) return WhyFailed(&swarm);
  swarm.Close();
  swarm.Run(std::chrono::seconds(1));
  *model = std::move(swarm.peers()[0]->model_);
  return Status::Ok();
}

// Trains fresh weights on WikiText-2 and saves them to `middle`.
Status TrainFirstPhase(const BaseSpec& spec, const BuiltModel& model,
                       const std::shared_ptr<const TextWindows>& data, const std::string& middle) {
  const std::string init = spec.folder + "/init";
  SHOAL_RETURN_IF_ERROR(WriteInitialParts(spec, model, init));
  SHOAL_ASSIGN_OR_RETURN(auto fresh, NewStage(model, WholeModel(spec.model, 0.99), init));
  const PhaseFolder kept(spec.folder + "/unfinished", spec.save_every);
  const Phase phase{
      data, spec.first_steps,
      LearningRateRule(spec.first_rate, spec.first_warmup, spec.first_steps, spec.first_decay)};
  SHOAL_RETURN_IF_ERROR(TrainPhase(&fresh, phase, kept));
  SHOAL_RETURN_IF_ERROR(MakeDirectories(middle));
  SHOAL_RETURN_IF_ERROR(fresh->Save(middle));
  SHOAL_RETURN_IF_ERROR(WriteFileAtomic(middle + "/complete", ""));
  kept.Remove();
  return Status::Ok();
}

}  // namespace

Result<BaseFigures> TrainBase(const BaseSpec& spec) {
  SHOAL_ASSIGN_OR_RETURN(const BuiltModel opened, BuildModel(spec.model));
  SHOAL_ASSIGN_OR_RETURN(const Text wikitext, ReadText(spec.wikitext, 1 << 20, opened));
  SHOAL_ASSIGN_OR_RETURN(const Text validation,
                         ReadText(spec.wikitext_validation, 1 << 20, opened));
  SHOAL_ASSIGN_OR_RETURN(const Shakespeare plays, ReadShakespeare(spec.shakespeare, opened));
  const std::uint32_t vocabulary = opened.spec.vocabulary;
  const std::string middle = spec.folder + "/wikitext";
  const auto first = std::make_shared<const TextWindows>(
      vocabulary, RandomWindows(wikitext, spec.first_steps * kBatch, 1),
      SpacedWindows(validation, 256));
  if (!std::filesystem::exists(middle + "/complete")) {
    SHOAL_RETURN_IF_ERROR(TrainFirstPhase(spec, opened, first, middle));
  }
  // The optimizer starts anew.
  SHOAL_ASSIGN_OR_RETURN(auto model, NewStage(opened, WholeModel(spec.model, 0.99), middle));
  BaseFigures figures;
  SHOAL_ASSIGN_OR_RETURN(figures.wikitext_loss, HeldOutLoss({model.get()}, *first));

  // Half of each step's windows from either text.
  const std::uint64_t half = spec.second_steps * kBatch / 2;
  const auto old_text = RandomWindows(wikitext, half, 2);
  const auto new_text = RandomWindows(plays.base, half, 3);
  std::vector<Window> mixed;
  for (std::uint64_t i = 0; i < half; ++i) {
    mixed.push_back(old_text[i]);
    mixed.push_back(new_text[i]);
  }
  const Phase phase{
      std::make_shared<const TextWindows>(vocabulary, mixed,
                                          SpacedWindows(plays.held_out, kHeldOutRows)),
      spec.second_steps,
      LearningRateRule(spec.second_rate, spec.second_warmup, spec.second_steps, spec.second_decay)};
  if (phase.steps > 0) SHOAL_RETURN_IF_ERROR(TrainPhase(&model, phase, PhaseFolder("", 0)));
  SHOAL_ASSIGN_OR_RETURN(figures.shakespeare_loss, HeldOutLoss({model.get()}, *phase.data));
  SHOAL_RETURN_IF_ERROR(MakeDirectories(spec.folder + "/base"));
  SHOAL_RETURN_IF_ERROR(model->Save(spec.folder + "/base"));
  return figures;
}

}  // namespace shoal::quality
