// FlatStage: a stage that computes nothing, for steps of which only the exchange is measured:
// vectors in memory, and gradients that are there at once.

#ifndef SHOAL_TESTS_BENCH_FLAT_STAGE_H_
#define SHOAL_TESTS_BENCH_FLAT_STAGE_H_

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/memory/buffer.h"
#include "model/stage_model.h"

namespace shoal::bench {

class FlatStage final : public model::StageModel {
 public:
  // `gradients`: those of every step.
  FlatStage(std::shared_ptr<const Buffer> gradients, std::vector<model::TensorLayout> layout,
            model::StageOptions options = {});

  // What a step's backward would end with. Costs nothing: they are not copied.
  void GiveGradients() { gradients_of_.assign(layout_.size(), Gradients::kGiven); }

  std::span<const model::TensorLayout> layout() const override { return layout_; }
  std::size_t state_size() const override { return given_->size() / sizeof(float); }
  Status Read(model::StateVector which, std::size_t first, std::span<float> values) override;
  Status Write(model::StateVector which, std::size_t first, std::span<const float> values) override;
  void ZeroGradients() override { gradients_of_.assign(layout_.size(), Gradients::kZero); }
  double SquaredGradientNorm(double) override { return 1; }
  // The optimizer is no part of what is measured.
  Status Apply(std::uint64_t, double, double, double) override {
    ZeroGradients();
    return Status::Ok();
  }
  std::vector<std::vector<std::size_t>> weight_parts() const override;
  const model::StageOptions& options() const override { return options_; }
  std::vector<model::TensorLayout> shared_tensors() const override { return {}; }

  // What a step does not ask for.
  const model::ModelSpec& spec() const override { return spec_; }
  std::string device_name() const override { return "none"; }
  Status Forward(const model::MicroBatch&, std::span<float>, model::StepLoss*) override {
    return None();
  }
  Status BackwardInput(MicroBatchId, std::span<const float>, std::span<float>) override {
    return None();
  }
  Result<bool> BackwardWeights(MicroBatchId) override { return None(); }
  Status Evaluate(const model::MicroBatch&, std::span<float>, model::StepLoss*) override {
    return None();
  }
  Status Logits(const model::MicroBatch&, bool, std::span<float>) override { return None(); }
  Status Save(const std::string&) override { return None(); }
  Status Load(const std::map<std::string, std::string>&,
              const std::map<std::string, std::string>&) override {
    return None();
  }
  Status LoadDirectory(const storage::ModelDirectory&) override { return None(); }
  std::vector<std::string> parts() const override { return {}; }
  std::uint64_t StateBytes() const override { return 0; }
  std::uint64_t MicroBatchBytes(std::uint32_t, std::uint32_t) const override { return 0; }
  std::uint64_t WeightChecksum() const override { return 0; }

 private:
  enum class Gradients : std::uint8_t { kZero, kGiven, kWritten };

  static Status None() { return Unimplemented("a model of the bench is vectors only"); }
  std::vector<float>& Of(model::StateVector which) {
    return state_[static_cast<std::size_t>(which)];
  }
  // Of one tensor.
  void ReadGradients(std::size_t tensor, std::size_t first, std::span<float> values);
  void WriteGradients(std::size_t tensor, std::size_t first, std::span<const float> values);

  const std::shared_ptr<const Buffer> given_;
  const std::vector<model::TensorLayout> layout_;
  const model::ModelSpec spec_;
  const model::StageOptions options_;
  std::vector<float> state_[4];          // that of gradients: where they were written
  std::vector<Gradients> gradients_of_;  // by tensor
};

}  // namespace shoal::bench

#endif  // SHOAL_TESTS_BENCH_FLAT_STAGE_H_
