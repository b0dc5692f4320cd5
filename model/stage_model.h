// StageModel: the layers of one pipeline stage: forward, the two halves of backward, optimizer.
//
// Border of LibTorch: everything crosses as fp32 spans, `rows x tokens x hidden`, row-major.
// Activations and their gradients lie in memory of the host, or of the device that values_memory()
// names; all else is the host's. What a call wrote is complete when it returns. Micro-batches may
// interleave in any order the schedule asks for; per micro-batch the order is Forward,
// BackwardInput, BackwardWeights. Gradients accumulate in the order of BackwardWeights calls.
// Thread: compute.

#ifndef SHOAL_MODEL_STAGE_MODEL_H_
#define SHOAL_MODEL_STAGE_MODEL_H_

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/ids.h"
#include "common/memory/device_memory.h"
#include "common/status.h"
#include "model/families/model_spec.h"
#include "model/stage_options.h"
#include "storage/models/model_directory.h"

namespace shoal::model {

// The label of a token that has none and does not count.
inline constexpr std::int32_t kIgnoredLabel = -100;

struct MicroBatch {
  MicroBatchId id;
  std::uint32_t rows = 0;
  std::uint32_t tokens = 0;                 // per row
  std::vector<SampleId> samples;            // rows of them; key dropout
  std::span<const std::int32_t> token_ids;  // rows x tokens; first stage only
  // rows x tokens, or kIgnoredLabel; last stage only. A classifier's are classes, at the first
  // token of each row and nowhere else.
  std::span<const std::int32_t> labels;
  // rows x tokens x hidden, where values_memory() says; all but the first stage
  std::span<const float> input;
  // rows x tokens, the same on all stages: the number of each position's segment, which lies in one
  // piece; negative at padding. Empty: each row is one. Tokens see their own segment only, and
  // positions begin again in each.
  std::span<const std::int32_t> segments = {};
  // Of each row the first position whose token has the token type 1, as all behind it; `tokens`
  // where none has. First stage only. Empty: all tokens have the type 0.
  std::span<const std::uint32_t> type_borders = {};
};

struct StepLoss {
  double sum = 0;            // of -log p over the labels that count
  std::uint64_t labels = 0;  // of a classifier: rows that have one
};

// A trained tensor's place in the stage's flat fp32 vectors: weights, gradients and moments alike.
struct TensorLayout {
  std::string name;
  std::size_t offset = 0;  // in values
  std::size_t size = 0;
  std::vector<std::size_t> shape;  // weight decay is for two dimensions and more
};

enum class StateVector : std::uint8_t { kWeights, kGradients, kFirstMoment, kSecondMoment };

// The three operations on a micro-batch.
enum class Pass : std::uint8_t { kForward, kBackwardInput, kBackwardWeights };
inline constexpr std::size_t kPasses = 3;

// Tensors that are held and released together: a layer, say. In order of the flat vectors, without
// gaps; what stages share are units of their own.
struct UnitLayout {
  std::string name;
  std::size_t first = 0, values = 0;
};
// Units whose weights a part of an operation reads, and to whose gradients it adds. Both must be
// held when it runs.
struct UnitUse {
  std::vector<std::size_t> weights, gradients;
};

class StageModel {
 public:
  virtual ~StageModel() = default;

  virtual const ModelSpec& spec() const = 0;
  virtual const StageOptions& options() const = 0;
  virtual std::string device_name() const = 0;  // measured: "cpu", "cuda:0 NVIDIA ..."
  // Where inputs, outputs and their gradients lie; null: in memory of the host. Constant. Thread:
  // any.
  virtual std::shared_ptr<DeviceMemory> values_memory() const { return nullptr; }

  // Writes the output activation to `output` (not on the last stage) and, on the last stage, the
  // loss to `*loss`. Keeps what backward needs under micro_batch.id (copies the inputs).
  virtual Status Forward(const MicroBatch& micro_batch, std::span<float> output,
                         StepLoss* loss) = 0;
  // From the gradient of the output (empty on the last stage, which starts at the loss) to the
  // gradient of the input (empty span on the first stage). The loss is the *sum* over labels, so
  // that gradients of micro-batches and pipelines just add up.
  virtual Status BackwardInput(MicroBatchId id, std::span<const float> output_gradient,
                               std::span<float> input_gradient) = 0;
  // Adds the next part of the micro-batch's weight gradients to the sums: a layer's, say, so that
  // what arrives meanwhile need not wait for all of them. Returns whether parts are left; after the
  // last one the micro-batch is forgotten.
  virtual Result<bool> BackwardWeights(MicroBatchId id) = 0;
  // By part of BackwardWeights: the entries of layout() whose gradients it adds to and no later
  // part of the same micro-batch does. Together all entries, each once; constant.
  virtual std::vector<std::vector<std::size_t>> weight_parts() const = 0;

  // Forward and BackwardInput part by part, for stages that do not hold all of their weights
  // (ZeroMode::kZero3). All calls have the same arguments until the last one, which returns false.
  // Others do all in one call.
  virtual Result<bool> ForwardPart(const MicroBatch& micro_batch, std::span<float> output,
                                   StepLoss* loss) {
    SHOAL_RETURN_IF_ERROR(Forward(micro_batch, output, loss));
    return false;
  }
  virtual Result<bool> BackwardInputPart(MicroBatchId id, std::span<const float> output_gradient,
                                         std::span<float> input_gradient) {
    SHOAL_RETURN_IF_ERROR(BackwardInput(id, output_gradient, input_gradient));
    return false;
  }
  // None for a stage that does not work by units.
  virtual std::vector<UnitLayout> units() const { return {}; }
  // By part of an operation on micro-batches of up to so many rows and tokens; constant.
  virtual std::vector<UnitUse> unit_uses(Pass pass, std::uint32_t rows,
                                         std::uint32_t tokens) const {
    static_cast<void>(pass), static_cast<void>(rows), static_cast<void>(tokens);
    return {};
  }
  // Memory for a unit's weights (to be written) or gradients (zeros); nothing if it has it.
  virtual Status HoldUnit(StateVector which, std::size_t unit) {
    static_cast<void>(which), static_cast<void>(unit);
    return FailedPrecondition("the stage holds all of its parameters");
  }
  // Gives it back, with what is in it.
  virtual void ReleaseUnit(StateVector which, std::size_t unit) {
    static_cast<void>(which), static_cast<void>(unit);
  }

  // Forward only, nothing kept: held-out loss.
  virtual Status Evaluate(const MicroBatch& micro_batch, std::span<float> output,
                          StepLoss* loss) = 0;
  // Last stage: forward only, raw scores instead of a loss: rows x tokens x vocabulary, or with
  // `last_only` rows x vocabulary at each row's last token. A classifier's are rows x classes.
  // Labels are not needed.
  virtual Status Logits(const MicroBatch& micro_batch, bool last_only, std::span<float> logits) = 0;

  // Forgets kept micro-batches, gradients and, by units, all that is held (start, end of a step).
  virtual void ZeroGradients() = 0;

  // The stage's tensors, in the order of its flat vectors of state_size() values.
  virtual std::span<const TensorLayout> layout() const = 0;
  virtual std::size_t state_size() const = 0;
  // Copies values [first, first + values.size()) of a flat vector; Write replaces them. A range
  // outside of the vector is an error.
  virtual Status Read(StateVector which, std::size_t first, std::span<float> values) = 0;
  virtual Status Write(StateVector which, std::size_t first, std::span<const float> values) = 0;
  // The same with values in the memory that values_memory() names; an error where that is none, or
  // where the stage does not hold them.
  virtual Status ReadThere(StateVector which, std::size_t first, std::span<float> values) {
    static_cast<void>(which), static_cast<void>(first), static_cast<void>(values);
    return FailedPrecondition("the stage has no values on a device");
  }
  virtual Status WriteThere(StateVector which, std::size_t first, std::span<const float> values) {
    static_cast<void>(which), static_cast<void>(first), static_cast<void>(values);
    return FailedPrecondition("the stage has no values on a device");
  }
  // Those tensors of layout() that other stages hold, too (ModelSpec::SharedTensors), in order;
  // none if first and last stage are one. The gradients of all stages that share them must be
  // summed each step.
  virtual std::vector<TensorLayout> shared_tensors() const = 0;

  // Sum of squares of the gradients times scale^2, in fp64, fixed order. Shared tensors count on
  // the first stage only.
  virtual double SquaredGradientNorm(double scale) = 0;
  // One AdamW step: gradients times `scale` (1 / global token count), clipped by `global_norm`,
  // then zeroed. `step` counts from 0. A norm that is not finite is an error that changes nothing.
  virtual Status Apply(std::uint64_t step, double scale, double global_norm,
                       double learning_rate) = 0;

  // Saves one file per part of the stage: weights to <folder>/<part>.safetensors, optimizer state
  // to <folder>/<part>.optimizer.safetensors. Bit-exact: a load continues the run identically. The
  // same files whatever the stage holds; moments that it does not hold must have been written.
  virtual Status Save(const std::string& folder) = 0;
  // Loads trained weights, and optimizer state where `optimizer_files` has the part. Keys: part
  // names.
  virtual Status Load(const std::map<std::string, std::string>& weight_files,
                      const std::map<std::string, std::string>& optimizer_files) = 0;
  // With adapters: loads what training leaves as it is. Keys: all parts of the stage; before the
  // first micro-batch.
  virtual Status LoadBase(const std::map<std::string, std::string>& files) {
    static_cast<void>(files);
    return Status::Ok();
  }
  // Loads the stage's own weights straight from a model directory; optimizer state becomes zero.
  // Adapters are drawn from StageOptions::seed.
  virtual Status LoadDirectory(const storage::ModelDirectory& directory) = 0;

  // Parts of the stage in order, and bytes of the state that it holds: weights, trained or not,
  // gradients, moments.
  virtual std::vector<std::string> parts() const = 0;
  virtual std::uint64_t StateBytes() const = 0;
  // Most bytes that one kept micro-batch costs, for the bound on micro-batches in flight.
  virtual std::uint64_t MicroBatchBytes(std::uint32_t rows, std::uint32_t tokens) const = 0;
  // Most bytes that one costs between BackwardInput and BackwardWeights.
  virtual std::uint64_t PendingWeightsBytes(std::uint32_t rows, std::uint32_t tokens) const {
    return MicroBatchBytes(rows, tokens);
  }
  // XXH3-64 over all weights in order: equal on all members of a stage group.
  virtual std::uint64_t WeightChecksum() const = 0;
};

// The stage on LibTorch; weights are zero until Load.
Result<std::unique_ptr<StageModel>> NewTorchStage(const ModelSpec& spec,
                                                  const StageOptions& options);

}  // namespace shoal::model

#endif  // SHOAL_MODEL_STAGE_MODEL_H_
