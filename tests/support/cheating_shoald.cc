// A shoald that hands out wrong results; everything else of it is shoald's. What it does wrong is
// in the environment: SHOAL_CHEAT=scale, stale, nan, loss or gradients. With another word, or none,
// it does not start.

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <limits>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/program/shoald.h"
#include "model/stage_model.h"

namespace shoal::test_support {
namespace {

using model::MicroBatch;
using model::StateVector;
using model::StepLoss;

constexpr float kScale = 1.2F;
constexpr double kLossScale = 0.5;
constexpr float kGradientScale = 1e6F;

enum class Cheat { kScaled, kStale, kNotFinite, kLoss, kGradients };

const std::map<std::string_view, Cheat> kCheats = {{"scale", Cheat::kScaled},
                                                   {"stale", Cheat::kStale},
                                                   {"nan", Cheat::kNotFinite},
                                                   {"loss", Cheat::kLoss},
                                                   {"gradients", Cheat::kGradients}};

// Thread: compute.
class CheatingStage : public model::StageModel {
 public:
  CheatingStage(std::unique_ptr<model::StageModel> honest, Cheat cheat)
      : honest_(std::move(honest)), cheat_(cheat) {}

  // ---- what it does wrong
  Status Forward(const MicroBatch& micro_batch, std::span<float> output, StepLoss* loss) override {
    SHOAL_RETURN_IF_ERROR(honest_->Forward(micro_batch, output, loss));
    Spoil(output, loss);
    return Status::Ok();
  }
  Result<bool> ForwardPart(const MicroBatch& micro_batch, std::span<float> output,
                           StepLoss* loss) override {
    SHOAL_ASSIGN_OR_RETURN(const bool more, honest_->ForwardPart(micro_batch, output, loss));
    if (!more) Spoil(output, loss);
    return more;
  }
  Status Read(StateVector which, std::size_t first, std::span<float> values) override {
    SHOAL_RETURN_IF_ERROR(honest_->Read(which, first, values));
    if (cheat_ == Cheat::kGradients && which == StateVector::kGradients) {
      for (float& value : values) value *= kGradientScale;
    }
    return Status::Ok();
  }

  // ---- what it does as it should
  const model::ModelSpec& spec() const override { return honest_->spec(); }
  const model::StageOptions& options() const override { return honest_->options(); }
  std::string device_name() const override { return honest_->device_name(); }
  Status BackwardInput(MicroBatchId id, std::span<const float> output_gradient,
                       std::span<float> input_gradient) override {
    return honest_->BackwardInput(id, output_gradient, input_gradient);
  }
  Result<bool> BackwardInputPart(MicroBatchId id, std::span<const float> output_gradient,
                                 std::span<float> input_gradient) override {
    return honest_->BackwardInputPart(id, output_gradient, input_gradient);
  }
  Result<bool> BackwardWeights(MicroBatchId id) override { return honest_->BackwardWeights(id); }
  std::vector<std::vector<std::size_t>> weight_parts() const override {
    return honest_->weight_parts();
  }
  std::vector<model::UnitLayout> units() const override { return honest_->units(); }
  std::vector<model::UnitUse> unit_uses(model::Pass pass, std::uint32_t rows,
                                        std::uint32_t tokens) const override {
    return honest_->unit_uses(pass, rows, tokens);
  }
  Status HoldUnit(StateVector which, std::size_t unit) override {
    return honest_->HoldUnit(which, unit);
  }
  void ReleaseUnit(StateVector which, std::size_t unit) override {
    honest_->ReleaseUnit(which, unit);
  }
  Status Evaluate(const MicroBatch& micro_batch, std::span<float> output, StepLoss* loss) override {
    return honest_->Evaluate(micro_batch, output, loss);
  }
  Status Logits(const MicroBatch& micro_batch, bool last_only, std::span<float> logits) override {
    return honest_->Logits(micro_batch, last_only, logits);
  }
  void ZeroGradients() override { honest_->ZeroGradients(); }
  std::span<const model::TensorLayout> layout() const override { return honest_->layout(); }
  std::size_t state_size() const override { return honest_->state_size(); }
  Status Write(StateVector which, std::size_t first, std::span<const float> values) override {
    return honest_->Write(which, first, values);
  }
  std::vector<model::TensorLayout> shared_tensors() const override {
    return honest_->shared_tensors();
  }
  double SquaredGradientNorm(double scale) override { return honest_->SquaredGradientNorm(scale); }
  Status Apply(std::uint64_t step, double scale, double global_norm,
               double learning_rate) override {
    return honest_->Apply(step, scale, global_norm, learning_rate);
  }
  Status Save(const std::string& folder) override { return honest_->Save(folder); }
  Status Load(const std::map<std::string, std::string>& weight_files,
              const std::map<std::string, std::string>& optimizer_files) override {
    return honest_->Load(weight_files, optimizer_files);
  }
  Status LoadBase(const std::map<std::string, std::string>& files) override {
    return honest_->LoadBase(files);
  }
  Status LoadDirectory(const storage::ModelDirectory& directory) override {
    return honest_->LoadDirectory(directory);
  }
  std::vector<std::string> parts() const override { return honest_->parts(); }
  std::uint64_t StateBytes() const override { return honest_->StateBytes(); }
  std::uint64_t MicroBatchBytes(std::uint32_t rows, std::uint32_t tokens) const override {
    return honest_->MicroBatchBytes(rows, tokens);
  }
  std::uint64_t PendingWeightsBytes(std::uint32_t rows, std::uint32_t tokens) const override {
    return honest_->PendingWeightsBytes(rows, tokens);
  }
  std::uint64_t WeightChecksum() const override { return honest_->WeightChecksum(); }

 private:
  // The output is empty on the last stage, where there is a loss.
  void Spoil(std::span<float> output, StepLoss* loss) {
    switch (cheat_) {
      case Cheat::kScaled:
        for (float& value : output) value *= kScale;
        return;
      case Cheat::kStale: {
        std::vector<float> now(output.begin(), output.end());
        if (former_.size() == now.size()) std::ranges::copy(former_, output.begin());
        former_ = std::move(now);
        return;
      }
      case Cheat::kNotFinite:
        std::ranges::fill(output, std::numeric_limits<float>::quiet_NaN());
        return;
      case Cheat::kLoss:
        if (loss != nullptr) loss->sum *= kLossScale;
        return;
      case Cheat::kGradients: return;
    }
  }

  const std::unique_ptr<model::StageModel> honest_;
  const Cheat cheat_;
  std::vector<float> former_;
};

Result<std::unique_ptr<model::StageModel>> NewCheatingStage(const model::ModelSpec& spec,
                                                            model::StageOptions options,
                                                            Cheat cheat) {
  options.values_on_device = false;
  SHOAL_ASSIGN_OR_RETURN(auto honest, model::NewTorchStage(spec, options));
  return std::unique_ptr<model::StageModel>(
      std::make_unique<CheatingStage>(std::move(honest), cheat));
}

}  // namespace
}  // namespace shoal::test_support

int main(int argc, char** argv) {
  using namespace shoal::test_support;
  const char* const word = std::getenv("SHOAL_CHEAT");
  const auto found = kCheats.find(word == nullptr ? "" : word);
  if (found == kCheats.end()) {
    std::cerr << "cheating_shoald: SHOAL_CHEAT names no way to cheat\n";
    return 2;
  }
  const Cheat cheat = found->second;
  return shoal::daemon::RunShoald(argc, argv, [cheat](const auto& spec, const auto& options) {
    return NewCheatingStage(spec, options, cheat);
  });
}
