// TorchStage: checks what comes from outside, keeps micro-batches by id, and turns LibTorch's
// exceptions into Status. The mathematics is in Network, the numbers are in FlatParameters.

#include <ATen/core/LegacyTypeDispatch.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <iterator>
#include <new>
#include <set>
#include <string_view>
#include <utility>

#include "model/cuda_memory.h"
#include "model/families/trained_part.h"
#include "model/flat_parameters.h"
#include "model/frozen_parameters.h"
#include "model/host_memory.h"
#include "model/memory_use.h"
#include "model/micro_batch_check.h"
#include "model/network.h"
#include "model/stage_model.h"
#include "model/state_files.h"
#include "model/torch_device.h"
#include "model/torch_guard.h"
#include "model/unit_uses.h"
#include "optimizer/adamw.h"

namespace shoal::model {
namespace {

class TorchStage final : public StageModel, public HasNetwork {
 public:
  TorchStage(const ModelSpec& spec, const StageOptions& options, const TorchDevice& device)
      : spec_(spec),
        options_(options),
        device_(device),
        parameters_(spec, options.range, device.id, options.compute == "bf16", options.held),
        frozen_(spec, options.range, device.id, options.compute == "bf16"),
        values_memory_(options.values_on_device ? NewCudaMemory(device.id) : nullptr),
        fence_(device.id),
        network_(spec, options, parameters_, frozen_,
                 values_memory_ != nullptr ? device.id : "cpu") {
    for (const ParameterEntry& entry : parameters_.entries()) {
      layout_.push_back(
          {entry.name, entry.offset, entry.size, {entry.shape.begin(), entry.shape.end()}});
    }
    if (NeedsFiles(options.held)) {
      files_ = std::make_unique<StateFiles>(options.state_folder, parameters_.entries(),
                                            parameters_.parts(), by_units());
    }
  }

  const ModelSpec& spec() const override { return spec_; }
  const StageOptions& options() const override { return options_; }
  std::string device_name() const override { return device_.name; }
  std::shared_ptr<DeviceMemory> values_memory() const override { return values_memory_; }
  const Network& network() const override { return network_; }

  Status Forward(const MicroBatch& micro_batch, std::span<float> output, StepLoss* loss) override;
  Status BackwardInput(MicroBatchId id, std::span<const float> output_gradient,
                       std::span<float> input_gradient) override;
  Result<bool> BackwardWeights(MicroBatchId id) override;
  Result<bool> ForwardPart(const MicroBatch& micro_batch, std::span<float> output,
                           StepLoss* loss) override;
  Result<bool> BackwardInputPart(MicroBatchId id, std::span<const float> output_gradient,
                                 std::span<float> input_gradient) override;
  std::vector<UnitLayout> units() const override { return parameters_.units(); }
  std::vector<UnitUse> unit_uses(Pass pass, std::uint32_t rows,
                                 std::uint32_t tokens) const override {
    return by_units() ? UnitUses(parameters_, spec_, options_, pass, {rows, tokens})
                      : std::vector<UnitUse>();
  }
  Status HoldUnit(StateVector which, std::size_t unit) override;
  void ReleaseUnit(StateVector which, std::size_t unit) override {
    parameters_.ReleaseUnit(which, unit);
  }
  std::vector<std::vector<std::size_t>> weight_parts() const override;
  Status Evaluate(const MicroBatch& micro_batch, std::span<float> output, StepLoss* loss) override;
  Status Logits(const MicroBatch& micro_batch, bool last_only, std::span<float> logits) override;

  void ZeroGradients() override {
    kept_.clear();
    parameters_.ZeroGradients();
    for (std::size_t unit = 0; unit < parameters_.units().size(); ++unit) {
      parameters_.ReleaseUnit(StateVector::kWeights, unit);
      parameters_.ReleaseUnit(StateVector::kGradients, unit);
    }
  }
  std::span<const TensorLayout> layout() const override { return layout_; }
  std::size_t state_size() const override { return parameters_.size(); }
  Status Read(StateVector which, std::size_t first, std::span<float> values) override;
  Status Write(StateVector which, std::size_t first, std::span<const float> values) override;
  Status ReadThere(StateVector which, std::size_t first, std::span<float> values) override;
  Status WriteThere(StateVector which, std::size_t first, std::span<const float> values) override;
  std::vector<TensorLayout> shared_tensors() const override;

  double SquaredGradientNorm(double scale) override;
  Status Apply(std::uint64_t step, double scale, double global_norm, double learning_rate) override;

  Status Save(const std::string& folder) override;
  Status Load(const std::map<std::string, std::string>& weight_files,
              const std::map<std::string, std::string>& optimizer_files) override;
  Status LoadBase(const std::map<std::string, std::string>& files) override;
  Status LoadDirectory(const storage::ModelDirectory& directory) override;

  std::vector<std::string> parts() const override;
  std::uint64_t StateBytes() const override { return parameters_.bytes() + frozen_.bytes(); }
  std::uint64_t PendingWeightsBytes(std::uint32_t rows, std::uint32_t tokens) const override {
    return model::PendingBytes(spec_, ShapeOf(options_), {rows, tokens});
  }
  std::uint64_t MicroBatchBytes(std::uint32_t rows, std::uint32_t tokens) const override {
    return KeptBytes(spec_, ShapeOf(options_), {rows, tokens});
  }
  std::uint64_t WeightChecksum() const override {
    return by_units() ? files_->WeightChecksum() : parameters_.WeightChecksum();
  }

 private:
  struct InFlight {
    std::shared_ptr<Network::Kept> kept;
    std::size_t tokens_in_all = 0;       // rows * tokens
    std::size_t forward_parts_done = 0;  // of all, if the forward is done
    std::size_t again_parts_done = 0;    // of the forward that the backward repeats
    std::size_t input_parts_done = 0;
    bool input_done = false;
    std::size_t weight_parts_done = 0;
  };

  bool first() const { return options_.range.first_layer == 0; }
  bool last() const { return options_.range.last_layer == spec_.layers(); }
  bool by_units() const { return options_.held == ZeroMode::kZero3; }
  bool weights_alone() const { return options_.held == ZeroMode::kWeights; }
  StageEnds ends() const { return {first(), last()}; }
  Status CheckBackward(MicroBatchId id, const InFlight& in_flight,
                       std::span<const float> output_gradient,
                       std::span<float> input_gradient) const;
  Status CheckWhole(const char* what) const;
  Status CheckTrains() const;
  Status CheckState(std::size_t first, std::size_t count) const;
  Status CheckThere(StateVector which, std::size_t first, std::size_t count) const;
  // Moments are zero, and so are gradients.
  void ForgetOptimizer();
  // Whether values of a vector are in files.
  bool InFiles(StateVector which, std::size_t first, std::size_t count) const {
    if (files_ == nullptr || which == StateVector::kGradients) return false;
    return which != StateVector::kWeights || !parameters_.Holds(which, first, count);
  }
  Status CheckGradients(StateVector which, std::size_t first, std::size_t count) const;
  MemoryUse Use() const;
  // Over the other one: an error that says that memory ran out says what it went to.
  template <typename Function>
  Status Guard(std::string_view operation, Function function) const {
    // Nothing here asks autograd for gradients: operators need not look for it.
    const at::AutoDispatchBelowADInplaceOrView without_autograd;
    return model::Guard(operation, function, [this] { return Use(); });
  }

  const HostMemoryUser memory_;  // outlives the tensors below
  const ModelSpec spec_;
  const StageOptions options_;
  const TorchDevice device_;
  FlatParameters parameters_;
  std::unique_ptr<StateFiles> files_;                  // of the moments; null: they are held
  FrozenParameters frozen_;                            // nothing without adapters
  const std::shared_ptr<DeviceMemory> values_memory_;  // null: the host's
  LaunchFence fence_;
  Network network_;
  std::vector<TensorLayout> layout_;
  std::map<MicroBatchId, InFlight> kept_;
  Status failed_;  // of a call that cannot say so itself: the next one does
};

MemoryUse TorchStage::Use() const {
  MemoryUse use = UseOf(spec_, options_, DeviceMemoryLimitOf(device_));
  use.state_bytes = parameters_.bytes();
  use.base_bytes = frozen_.bytes();
  use.micro_batches = kept_.size();
  for (const auto& [id, in_flight] : kept_) {
    const auto tokens = static_cast<std::uint32_t>(in_flight.tokens_in_all);
    use.micro_batch_bytes = std::max(use.micro_batch_bytes, MicroBatchBytes(1, tokens));
  }
  return use;
}

Status TorchStage::CheckTrains() const {
  if (!weights_alone()) return failed_;
  return FailedPrecondition("the stage holds weights alone: it does not train");
}

Status TorchStage::Forward(const MicroBatch& micro_batch, std::span<float> output, StepLoss* loss) {
  SHOAL_RETURN_IF_ERROR(CheckTrains());
  SHOAL_RETURN_IF_ERROR(CheckMicroBatch(spec_, ends(), micro_batch, true));
  SHOAL_RETURN_IF_ERROR(CheckOutput(spec_, ends(), micro_batch, output.size(), loss));
  if (kept_.contains(micro_batch.id)) {
    return FailedPrecondition(NameOf(micro_batch.id) + " had its forward already");
  }
  return Guard("forward", [&] {
    InFlight in_flight;
    in_flight.kept = network_.Begin(micro_batch, true);
    in_flight.tokens_in_all = std::size_t{micro_batch.rows} * micro_batch.tokens;
    in_flight.forward_parts_done = network_.forward_parts();
    const double sum = network_.Forward(in_flight.kept.get(), !options_.recompute, output);
    fence_.AwaitAll();
    if (last()) *loss = LossOf(micro_batch, sum);
    kept_.emplace(micro_batch.id, std::move(in_flight));
    return Status::Ok();
  });
}

Status TorchStage::BackwardInput(MicroBatchId id, std::span<const float> output_gradient,
                                 std::span<float> input_gradient) {
  const auto found = kept_.find(id);
  if (found == kept_.end()) return FailedPrecondition(NameOf(id) + " had no forward");
  InFlight& in_flight = found->second;
  SHOAL_RETURN_IF_ERROR(CheckBackward(id, in_flight, output_gradient, input_gradient));
  return Guard("backward", [&] {
    network_.BackwardInput(in_flight.kept.get(), output_gradient, input_gradient);
    fence_.AwaitAll();
    in_flight.input_done = true;
    return Status::Ok();
  });
}

Status TorchStage::CheckBackward(MicroBatchId id, const InFlight& in_flight,
                                 std::span<const float> output_gradient,
                                 std::span<float> input_gradient) const {
  if (in_flight.input_done) return FailedPrecondition(NameOf(id) + " had its backward already");
  if (in_flight.forward_parts_done < network_.forward_parts()) {
    return FailedPrecondition(NameOf(id) + " is in its forward yet");
  }
  const std::size_t values = in_flight.tokens_in_all * spec_.hidden;
  SHOAL_RETURN_IF_ERROR(
      CheckSize(NameOf(id) + ": output gradient", output_gradient.size(), last() ? 0 : values));
  return CheckSize(NameOf(id) + ": input gradient", input_gradient.size(), first() ? 0 : values);
}

Result<bool> TorchStage::ForwardPart(const MicroBatch& micro_batch, std::span<float> output,
                                     StepLoss* loss) {
  if (!by_units()) return StageModel::ForwardPart(micro_batch, output, loss);
  SHOAL_RETURN_IF_ERROR(CheckMicroBatch(spec_, ends(), micro_batch, true));
  SHOAL_RETURN_IF_ERROR(CheckOutput(spec_, ends(), micro_batch, output.size(), loss));
  InFlight& in_flight = kept_[micro_batch.id];
  if (in_flight.forward_parts_done == network_.forward_parts()) {
    return FailedPrecondition(NameOf(micro_batch.id) + " had its forward already");
  }
  SHOAL_RETURN_IF_ERROR(Guard("forward", [&] {
    if (in_flight.forward_parts_done == 0) {
      in_flight.kept = network_.Begin(micro_batch, true);
      in_flight.tokens_in_all = std::size_t{micro_batch.rows} * micro_batch.tokens;
    }
    const double sum = network_.ForwardPart(in_flight.kept.get(), in_flight.forward_parts_done,
                                            !options_.recompute, output);
    fence_.AwaitAll();
    if (loss != nullptr && last()) *loss = LossOf(micro_batch, sum);
    return Status::Ok();
  }));
  return ++in_flight.forward_parts_done < network_.forward_parts();
}

Result<bool> TorchStage::BackwardInputPart(MicroBatchId id, std::span<const float> output_gradient,
                                           std::span<float> input_gradient) {
  if (!by_units()) return StageModel::BackwardInputPart(id, output_gradient, input_gradient);
  const auto found = kept_.find(id);
  if (found == kept_.end()) return FailedPrecondition(NameOf(id) + " had no forward");
  InFlight& in_flight = found->second;
  SHOAL_RETURN_IF_ERROR(CheckBackward(id, in_flight, output_gradient, input_gradient));
  const bool again = options_.recompute && in_flight.again_parts_done < network_.forward_parts();
  SHOAL_RETURN_IF_ERROR(Guard("backward", [&] {
    if (again) {
      (void)network_.ForwardPart(in_flight.kept.get(), in_flight.again_parts_done, true, {});
    } else {
      network_.BackwardPart(in_flight.kept.get(), in_flight.input_parts_done, output_gradient,
                            input_gradient);
    }
    fence_.AwaitAll();
    return Status::Ok();
  }));
  if (again) return ++in_flight.again_parts_done > 0;
  in_flight.input_done = ++in_flight.input_parts_done == network_.backward_parts();
  return !in_flight.input_done;
}

Status TorchStage::HoldUnit(StateVector which, std::size_t unit) {
  if (!by_units()) return StageModel::HoldUnit(which, unit);
  return Guard("memory for parameters", [&] {
    parameters_.HoldUnit(which, unit);
    return Status::Ok();
  });
}

Status TorchStage::CheckGradients(StateVector which, std::size_t first, std::size_t count) const {
  if (which != StateVector::kGradients || parameters_.Holds(which, first, count)) {
    return Status::Ok();
  }
  return FailedPrecondition("gradients of a unit that the stage does not hold");
}

Result<bool> TorchStage::BackwardWeights(MicroBatchId id) {
  const auto found = kept_.find(id);
  if (found == kept_.end() || !found->second.input_done) {
    return FailedPrecondition(NameOf(id) + " had no backward of its input");
  }
  InFlight& in_flight = found->second;
  SHOAL_RETURN_IF_ERROR(Guard("backward of the weights", [&] {
    network_.BackwardWeights(in_flight.kept.get(), in_flight.weight_parts_done);
    const bool over = in_flight.weight_parts_done + 1 == network_.weight_parts();
    over ? fence_.AwaitAll() : fence_.AwaitPrevious();
    return Status::Ok();
  }));
  if (++in_flight.weight_parts_done < network_.weight_parts()) return true;
  kept_.erase(found);
  return false;
}

// The network goes through the model's parts from the end, and ends with what all layers share; a
// tied embedding that two of them use is complete with the later one.
std::vector<std::vector<std::size_t>> TorchStage::weight_parts() const {
  std::vector<std::vector<std::size_t>> parts;
  std::vector<bool> assigned(layout_.size());
  for (const StagePart& part : parameters_.parts()) {
    std::vector<std::size_t>& entries = parts.emplace_back();
    for (const std::size_t entry : part.entries) {
      if (!assigned[entry]) entries.push_back(entry);
      assigned[entry] = true;
    }
  }
  std::reverse(parts.begin(), parts.end());
  SHOAL_CHECK(parts.size() == network_.weight_parts());
  return parts;
}

Status TorchStage::Evaluate(const MicroBatch& micro_batch, std::span<float> output,
                            StepLoss* loss) {
  SHOAL_RETURN_IF_ERROR(CheckWhole("evaluation"));
  SHOAL_RETURN_IF_ERROR(CheckMicroBatch(spec_, ends(), micro_batch, true));
  SHOAL_RETURN_IF_ERROR(CheckOutput(spec_, ends(), micro_batch, output.size(), loss));
  return Guard("evaluation", [&] {
    const auto kept = network_.Begin(micro_batch, false);
    const double sum = network_.Forward(kept.get(), false, output);
    fence_.AwaitAll();
    if (last()) *loss = LossOf(micro_batch, sum);
    return Status::Ok();
  });
}

Status TorchStage::Logits(const MicroBatch& micro_batch, bool last_only, std::span<float> logits) {
  if (!last()) return FailedPrecondition("logits are on the last stage only");
  SHOAL_RETURN_IF_ERROR(CheckWhole("a score"));
  SHOAL_RETURN_IF_ERROR(CheckMicroBatch(spec_, ends(), micro_batch, false));
  const bool by_row = last_only || spec_.classes() > 0;
  const std::size_t places = std::size_t{micro_batch.rows} * (by_row ? 1 : micro_batch.tokens);
  SHOAL_RETURN_IF_ERROR(CheckSize("logits", logits.size(), places * LogitsOf(spec_)));
  return Guard("forward", [&] {
    network_.Logits(network_.Begin(micro_batch, false).get(), last_only, logits);
    return Status::Ok();
  });
}

Status TorchStage::CheckWhole(const char* what) const {
  if (!by_units()) return Status::Ok();
  return FailedPrecondition(std::string(what) + " needs a stage that holds all of its weights");
}

Status TorchStage::CheckState(std::size_t first, std::size_t count) const {
  if (first <= parameters_.size() && count <= parameters_.size() - first) return Status::Ok();
  return InvalidArgument("values " + std::to_string(first) + " to " +
                         std::to_string(first + count) + " of a stage that has " +
                         std::to_string(parameters_.size()));
}

Status TorchStage::Read(StateVector which, std::size_t first, std::span<float> values) {
  SHOAL_RETURN_IF_ERROR(CheckState(first, values.size()));
  if (which != StateVector::kWeights) SHOAL_RETURN_IF_ERROR(CheckTrains());
  SHOAL_RETURN_IF_ERROR(CheckGradients(which, first, values.size()));
  return Guard("reading the stage's state", [&] {
    if (InFiles(which, first, values.size())) return files_->Read(which, first, values);
    parameters_.Read(which, first, values);
    return Status::Ok();
  });
}

Status TorchStage::Write(StateVector which, std::size_t first, std::span<const float> values) {
  SHOAL_RETURN_IF_ERROR(CheckState(first, values.size()));
  if (which != StateVector::kWeights) SHOAL_RETURN_IF_ERROR(CheckTrains());
  SHOAL_RETURN_IF_ERROR(CheckGradients(which, first, values.size()));
  return Guard("writing the stage's state", [&] {
    if (InFiles(which, first, values.size())) return files_->Write(which, first, values);
    parameters_.Write(which, first, values);
    return Status::Ok();
  });
}

Status TorchStage::CheckThere(StateVector which, std::size_t first, std::size_t count) const {
  SHOAL_RETURN_IF_ERROR(CheckState(first, count));
  if (which != StateVector::kWeights) SHOAL_RETURN_IF_ERROR(CheckTrains());
  if (values_memory_ == nullptr || InFiles(which, first, count)) {
    return FailedPrecondition("the stage does not hold these values on a device");
  }
  return CheckGradients(which, first, count);
}

Status TorchStage::ReadThere(StateVector which, std::size_t first, std::span<float> values) {
  SHOAL_RETURN_IF_ERROR(CheckThere(which, first, values.size()));
  return Guard("reading the stage's state", [&] {
    parameters_.Read(which, first, values, parameters_.device());
    fence_.AwaitAll();
    return Status::Ok();
  });
}

Status TorchStage::WriteThere(StateVector which, std::size_t first, std::span<const float> values) {
  SHOAL_RETURN_IF_ERROR(CheckThere(which, first, values.size()));
  return Guard("writing the stage's state", [&] {
    parameters_.Write(which, first, values, parameters_.device());
    fence_.AwaitAll();
    return Status::Ok();
  });
}

std::vector<TensorLayout> TorchStage::shared_tensors() const {
  std::vector<TensorLayout> tensors;
  if (first() && last()) return tensors;
  const std::set<std::string> shared = spec_.SharedTensors();
  std::ranges::copy_if(layout_, std::back_inserter(tensors),
                       [&](const TensorLayout& entry) { return shared.contains(entry.name); });
  return tensors;
}

double TorchStage::SquaredGradientNorm(double scale) {
  SHOAL_CHECK(!by_units() && !weights_alone());
  std::set<std::string> counted_elsewhere;
  if (!first()) counted_elsewhere = spec_.SharedTensors();
  double norm = std::nan("");  // a step that is skipped, if there is an error
  const Status status = Guard("norm of the gradients", [&] {
    norm = parameters_.SquaredGradientNorm(counted_elsewhere) * scale * scale;
    return Status::Ok();
  });
  if (failed_.ok()) failed_ = status;
  return norm;
}

Status TorchStage::Apply(std::uint64_t step, double scale, double global_norm,
                         double learning_rate) {
  if (!std::isfinite(global_norm) || !std::isfinite(scale) || !std::isfinite(learning_rate)) {
    return InvalidArgument("step " + std::to_string(step) +
                           ": gradient norm, scale or learning rate is not finite; lower the "
                           "learning rate or go back to the last checkpoint");
  }
  SHOAL_RETURN_IF_ERROR(CheckTrains());
  if (files_ != nullptr) {
    return FailedPrecondition("the stage has no optimizer state of its own to make a step with");
  }
  const OptimizerOptions& optimizer = options_.optimizer;
  return Guard("optimizer step", [&] {
    parameters_.Apply({optimizer.beta1, optimizer.beta2, optimizer.epsilon, optimizer.weight_decay,
                       learning_rate,
                       scale * optimizer::ClipFactor(optimizer.clip_norm, global_norm), step});
    parameters_.ZeroGradients();
    return Status::Ok();
  });
}

Status TorchStage::Save(const std::string& folder) {
  for (const StagePart& part : parameters_.parts()) {
    if (by_units()) break;
    SHOAL_RETURN_IF_ERROR(Guard("saving", [&] { return parameters_.SavePart(part, folder); }));
  }
  return files_ != nullptr ? files_->MoveTo(folder) : Status::Ok();
}

Status TorchStage::Load(const std::map<std::string, std::string>& weight_files,
                        const std::map<std::string, std::string>& optimizer_files) {
  using File = std::shared_ptr<const storage::SafetensorsFile>;
  std::vector<std::pair<const StagePart*, File>> weights;
  std::vector<std::pair<const StagePart*, File>> moments;
  // Everything is checked before anything is changed.
  for (const StagePart& part : parameters_.parts()) {
    const auto weight_file = weight_files.find(part.name);
    if (weight_file == weight_files.end()) {
      return NotFound("no weight file for part " + part.name + "; fetch it first");
    }
    SHOAL_ASSIGN_OR_RETURN(File file, storage::OpenSafetensors(weight_file->second));
    SHOAL_RETURN_IF_ERROR(
        parameters_.CheckPart(part, file->tensors()).WithContext(weight_file->second));
    weights.emplace_back(&part, std::move(file));
    const auto moment_file = optimizer_files.find(part.name);
    if (moment_file == optimizer_files.end()) continue;
    SHOAL_ASSIGN_OR_RETURN(File moment, storage::OpenSafetensors(moment_file->second));
    SHOAL_RETURN_IF_ERROR(
        parameters_.CheckOptimizerPart(part, moment->tensors()).WithContext(moment_file->second));
    moments.emplace_back(&part, std::move(moment));
  }
  return Guard("loading", [&] {
    ForgetOptimizer();
    const auto number = [this](const StagePart* part) {
      return static_cast<std::size_t>(part - parameters_.parts().data());
    };
    for (const auto& [part, file] : weights) {
      if (by_units()) files_->SetSource(number(part), true, file);
      if (!by_units()) parameters_.LoadPart(*part, file->tensors());
    }
    for (const auto& [part, file] : moments) {
      if (files_ != nullptr) files_->SetSource(number(part), false, file);
      if (files_ == nullptr && !weights_alone())
        parameters_.LoadOptimizerPart(*part, file->tensors());
    }
    if (!by_units()) parameters_.RefreshComputeValues();
    TrimHostMemory();
    return Status::Ok();
  });
}

void TorchStage::ForgetOptimizer() {
  ZeroGradients();
  if (weights_alone()) return;
  if (files_ == nullptr) return parameters_.ZeroOptimizer();
  files_->Drop();
  for (std::size_t i = 0; i < parameters_.parts().size(); ++i) files_->SetSource(i, false, nullptr);
}

Status TorchStage::LoadBase(const std::map<std::string, std::string>& files) {
  for (const std::string& part : frozen_.parts()) {
    const auto found = files.find(part);
    if (found == files.end()) return NotFound("no file of the base for part " + part);
    SHOAL_ASSIGN_OR_RETURN(const auto file, storage::OpenSafetensors(found->second));
    SHOAL_RETURN_IF_ERROR(frozen_.CheckPart(part, file->tensors()).WithContext(found->second));
    SHOAL_RETURN_IF_ERROR(Guard("loading the base", [&] {
      frozen_.LoadPart(part, file->tensors());
      return Status::Ok();
    }));
  }
  TrimHostMemory();
  return Status::Ok();
}

Status TorchStage::LoadDirectory(const storage::ModelDirectory& directory) {
  SHOAL_RETURN_IF_ERROR(CheckWhole("a model directory"));
  for (const StagePart& part : parameters_.parts()) {
    SHOAL_ASSIGN_OR_RETURN(const storage::TensorMap given, directory.Part(part.name));
    SHOAL_RETURN_IF_ERROR(storage::CheckFinite(given));
    const TrainedPart trained = BeginTraining(spec_, part.name, given, options_.seed);
    SHOAL_RETURN_IF_ERROR(parameters_.CheckPart(part, trained.tensors));
    if (!frozen_.empty()) SHOAL_RETURN_IF_ERROR(frozen_.CheckPart(part.name, given));
    SHOAL_RETURN_IF_ERROR(Guard("loading", [&] {
      parameters_.LoadPart(part, trained.tensors);
      if (!frozen_.empty()) frozen_.LoadPart(part.name, given);
      return Status::Ok();
    }));
  }
  return Guard("loading", [&] {
    ForgetOptimizer();
    parameters_.RefreshComputeValues();
    TrimHostMemory();
    return Status::Ok();
  });
}

std::vector<std::string> TorchStage::parts() const {
  std::vector<std::string> names;
  for (const StagePart& part : parameters_.parts()) names.push_back(part.name);
  return names;
}

}  // namespace

Result<std::unique_ptr<StageModel>> NewTorchStage(const ModelSpec& spec,
                                                  const StageOptions& options) {
  SHOAL_RETURN_IF_ERROR(CheckStageOptions(spec, options));
  StageOptions chosen = options;
  TorchDevice device;
  std::unique_ptr<StageModel> stage;
  SHOAL_RETURN_IF_ERROR(Guard(
      "starting the stage",
      [&] {
        SHOAL_ASSIGN_OR_RETURN(device, ChooseDevice(options.device));
        SHOAL_ASSIGN_OR_RETURN(chosen.compute, ChooseCompute(options.compute, device));
        StartTorchMath(options.threads);
        UsePooledHostMemory();
        stage = std::make_unique<TorchStage>(spec, chosen, device);
        return Status::Ok();
      },
      [&] { return UseOf(spec, chosen, DeviceMemoryLimitOf(device)); }));
  return stage;
}

}  // namespace shoal::model
