// TinyStage: a StageModel of a few hand-written layers in plain loops, real enough that its
// gradients can be summed, exchanged and applied; and TinyData, token rows for it.
//
// By units (TinyShape::units), what would be in files is in memory apart.
//
// Token embedding E (tied with the head), layers y = x + tanh(x W + b), loss 0.5 |h - E[label]|^2.

#ifndef SHOAL_TESTS_SUPPORT_TINY_STAGE_H_
#define SHOAL_TESTS_SUPPORT_TINY_STAGE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "dataset/prepared_data.h"
#include "model/stage_model.h"

namespace shoal::test_support {

struct TinyShape {
  std::uint32_t layers = 4, hidden = 8, vocabulary = 13, row_tokens = 5;
  bool tied = true;    // else the last stage has a head of its own
  bool bias = false;   // of all layers together, which every stage has; else they have none
  bool adamw = false;  // else plain SGD
  // Holds nothing but what it is told to: what it does not hold is not a number.
  bool units = false;
  double clip_norm = 1;
};

class TinyStage : public model::StageModel {
 public:
  // Weights drawn from `seed` per layer, so that any cut starts from the same model.
  TinyStage(const TinyShape& shape, model::StageRange range, unsigned seed);

  const model::ModelSpec& spec() const override { return spec_; }
  const model::StageOptions& options() const override { return options_; }
  std::string device_name() const override { return "cpu"; }
  Status Forward(const model::MicroBatch& micro_batch, std::span<float> output,
                 model::StepLoss* loss) override;
  Status BackwardInput(MicroBatchId id, std::span<const float> output_gradient,
                       std::span<float> input_gradient) override;
  Result<bool> ForwardPart(const model::MicroBatch& micro_batch, std::span<float> output,
                           model::StepLoss* loss) override;
  Result<bool> BackwardInputPart(MicroBatchId id, std::span<const float> output_gradient,
                                 std::span<float> input_gradient) override;
  std::vector<model::UnitLayout> units() const override;
  std::vector<model::UnitUse> unit_uses(model::Pass pass, std::uint32_t rows,
                                        std::uint32_t tokens) const override;
  Status HoldUnit(model::StateVector which, std::size_t unit) override;
  void ReleaseUnit(model::StateVector which, std::size_t unit) override;
  // A part per layer, then one for embedding and head.
  Result<bool> BackwardWeights(MicroBatchId id) override;
  std::vector<std::vector<std::size_t>> weight_parts() const override;
  Status Evaluate(const model::MicroBatch& micro_batch, std::span<float> output,
                  model::StepLoss* loss) override;
  Status Logits(const model::MicroBatch&, bool, std::span<float>) override {
    return Unimplemented("a tiny stage only trains");
  }
  Status LoadDirectory(const storage::ModelDirectory&) override {
    return Unimplemented("a tiny stage has no files");
  }
  void ZeroGradients() override;
  std::span<const model::TensorLayout> layout() const override { return layout_; }
  std::size_t state_size() const override { return gradients_.size(); }
  Status Read(model::StateVector which, std::size_t first, std::span<float> values) override;
  Status Write(model::StateVector which, std::size_t first, std::span<const float> values) override;
  std::vector<model::TensorLayout> shared_tensors() const override;
  double SquaredGradientNorm(double scale) override;
  Status Apply(std::uint64_t step, double scale, double global_norm, double rate) override;
  Status Save(const std::string&) override { return Unimplemented("a tiny stage has no files"); }
  Status Load(const std::map<std::string, std::string>&,
              const std::map<std::string, std::string>&) override {
    return Unimplemented("a tiny stage has no files");
  }
  std::vector<std::string> parts() const override { return {"tiny"}; }
  std::uint64_t StateBytes() const override { return weights_.size() * 8; }
  std::uint64_t MicroBatchBytes(std::uint32_t rows, std::uint32_t tokens) const override;
  std::uint64_t WeightChecksum() const override;

  // What goes wrong in a micro-batch: a value of a layer's weight gradient, of the tied embedding's
  // or the head's, or of the input's gradient becomes infinite or no number; all of a layer's
  // weight gradient become `huge` times as large.
  enum class Fault : std::uint8_t { kNone, kLayer, kEmbedding, kInput, kHuge };
  void SetFaults(std::function<Fault(MicroBatchId)> faults, float huge = 1e6F) {
    faults_ = std::move(faults);
    huge_ = huge;
  }
  // What it gives as the output of Forward, after it was computed; null: that.
  using Outputs =
      std::function<void(const model::MicroBatch&, std::span<float> output, model::StepLoss*)>;
  void SetOutputs(Outputs outputs) { outputs_ = std::move(outputs); }

  std::vector<float>& weights() { return weights_; }
  // The weights of layer l, of the whole model; empty if not here.
  std::vector<float> Layer(std::uint32_t layer) const;
  std::vector<float> Embedding() const;
  std::vector<float> Bias() const;
  std::size_t kept() const { return kept_.size(); }

 private:
  struct Kept {
    model::MicroBatch micro_batch;  // spans not used
    std::vector<std::int32_t> tokens, labels;
    std::vector<std::vector<double>> x;     // input of each layer, then the output
    std::vector<std::vector<double>> grad;  // gradient of what is in x
    std::vector<double> bias_grad;
    std::size_t forward_parts_done = 0, input_parts_done = 0, weight_parts_done = 0;
  };
  bool first() const { return options_.range.first_layer == 0; }
  bool last() const { return options_.range.last_layer == shape_.layers; }
  std::size_t embedding_values() const { return std::size_t{shape_.vocabulary} * shape_.hidden; }
  std::size_t LayerOffset(std::uint32_t local) const;
  const float* Head() const { return weights_.data() + head_offset_; }
  std::size_t layers() const { return options_.range.last_layer - options_.range.first_layer; }
  std::size_t forward_parts() const { return layers() + (first() ? 1 : 0) + (last() ? 1 : 0); }
  std::size_t input_parts() const { return layers() + (last() ? 1 : 0); }
  Status Begin(const model::MicroBatch& micro_batch, Kept* kept) const;
  void RunLayer(std::size_t layer, Kept* kept) const;
  void AddLoss(const Kept& kept, model::StepLoss* loss) const;
  void BackLayer(std::size_t layer, Kept* kept) const;
  Result<bool> NextForwardPart(const model::MicroBatch& micro_batch, std::span<float> output,
                               model::StepLoss* loss);
  Result<bool> NextInputPart(MicroBatchId id, std::span<const float> output_gradient,
                             std::span<float> input_gradient);
  bool Fails(MicroBatchId id, Fault fault) const { return faults_ && faults_(id) == fault; }
  std::size_t UnitAt(std::size_t offset) const;
  bool InFiles(model::StateVector which, std::size_t first) const;

  const TinyShape shape_;
  model::ModelSpec spec_;
  model::StageOptions options_;
  std::vector<model::TensorLayout> layout_;
  std::vector<float>& Of(model::StateVector which);

  std::vector<float> weights_, gradients_;
  std::vector<float> first_moment_, second_moment_;  // of AdamW
  std::vector<float> filed_weights_;                 // by units
  std::set<std::pair<model::StateVector, std::size_t>> held_;
  std::size_t head_offset_ = 0;  // of the matrix that labels index
  std::size_t bias_offset_ = 0;
  std::map<MicroBatchId, Kept> kept_;
  std::function<Fault(MicroBatchId)> faults_;
  float huge_ = 1e6F;
  Outputs outputs_;
};

// Rows of made-up tokens; every third row has its first label masked.
std::shared_ptr<const dataset::PreparedData> NewTinyData(const TinyShape& shape,
                                                         std::uint64_t rows);

}  // namespace shoal::test_support

#endif  // SHOAL_TESTS_SUPPORT_TINY_STAGE_H_
