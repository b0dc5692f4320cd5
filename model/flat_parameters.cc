#include "model/flat_parameters.h"

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros.h>
#include <c10/core/Device.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "common/checksum.h"

namespace shoal::model {
namespace {

// Values one thread handles at a time; fixed, so that sums do not depend on the thread count.
constexpr std::size_t kBlockValues = std::size_t{1} << 16;

std::size_t ValueCount(const std::vector<std::int64_t>& shape) {
  std::size_t count = 1;
  for (std::int64_t size : shape) count *= static_cast<std::size_t>(size);
  return count;
}

std::string ShapeText(const std::vector<std::int64_t>& shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  }
  return text + "]";
}

// The parts a stage hosts, out of all parts of the model.
std::vector<std::string> PartsOf(const storage::ModelConfig& config, const StageRange& range) {
  const std::vector<std::string> all = storage::PartNames(config);
  SHOAL_CHECK(all.size() == std::size_t{config.layers} + 2);
  std::vector<std::string> parts;
  if (range.first_layer == 0) parts.push_back(all.front());
  parts.insert(parts.end(), all.begin() + 1 + range.first_layer,
               all.begin() + 1 + range.last_layer);
  if (range.last_layer == config.layers) parts.push_back(all.back());
  return parts;
}

at::ScalarType ScalarTypeOf(storage::DType dtype) {
  switch (dtype) {
    case storage::DType::kF16: return at::kHalf;
    case storage::DType::kBF16: return at::kBFloat16;
    default: return at::kFloat;
  }
}

// A file's tensor as a flat torch tensor; copies, because file bytes may be unaligned.
at::Tensor ToTensor(const storage::TensorView& view, std::size_t count) {
  at::Tensor tensor = at::empty({static_cast<std::int64_t>(count)}, ScalarTypeOf(view.dtype));
  SHOAL_CHECK(tensor.nbytes() == view.data.size());
  if (!view.data.empty()) std::memcpy(tensor.data_ptr(), view.data.data(), view.data.size());
  return tensor;
}

std::span<const float> Floats(const at::Tensor& tensor) {
  return {tensor.const_data_ptr<float>(), static_cast<std::size_t>(tensor.numel())};
}

std::span<float> MutableFloats(const at::Tensor& tensor) {
  return {tensor.mutable_data_ptr<float>(), static_cast<std::size_t>(tensor.numel())};
}

double ParallelSumOfSquares(std::span<const float> values) {
  const std::size_t blocks = (values.size() + kBlockValues - 1) / kBlockValues;
  std::vector<double> sums(blocks);
  at::parallel_for(0, static_cast<std::int64_t>(blocks), 1,
                   [&](std::int64_t begin, std::int64_t end) {
                     for (auto block = static_cast<std::size_t>(begin);
                          block < static_cast<std::size_t>(end); ++block) {
                       const std::size_t first = block * kBlockValues;
                       sums[block] = optimizer::SumOfSquares(
                           values.subspan(first, std::min(kBlockValues, values.size() - first)));
                     }
                   });
  double sum = 0;
  for (double block : sums) sum += block;
  return sum;
}

// The same arithmetic as optimizer::AdamWUpdate, one rounding per operation, on any device.
void UpdateOnDevice(const optimizer::AdamWStep& step, const at::Tensor& gradient, at::Tensor value,
                    at::Tensor first, at::Tensor second) {
  const at::Tensor g = gradient.mul(step.gradient_factor);
  first.mul_(step.beta1).add_(g.mul(step.one_minus_beta1));
  second.mul_(step.beta2).add_(g.mul(g).mul_(step.one_minus_beta2));
  // Some libraries' fp32 root (MKL's) is not correctly rounded; one in fp64, rounded to fp32, is.
  const at::Tensor root = second.to(at::kDouble).sqrt_().to(at::kFloat);
  const at::Tensor denominator = root.mul(step.inverse_root_correction2).add_(step.epsilon);
  value.mul_(step.decay).sub_(first.div(denominator).mul_(step.step_size));
}

void UpdateOnHost(const optimizer::AdamWStep& step, const at::Tensor& gradient,
                  const at::Tensor& value, const at::Tensor& first, const at::Tensor& second) {
  const auto grain = static_cast<std::int64_t>(kBlockValues);
  at::parallel_for(0, value.numel(), grain, [&](std::int64_t begin, std::int64_t end) {
    const auto from = static_cast<std::size_t>(begin);
    const auto count = static_cast<std::size_t>(end - begin);
    optimizer::AdamWUpdate(
        step, Floats(gradient).subspan(from, count), MutableFloats(value).subspan(from, count),
        MutableFloats(first).subspan(from, count), MutableFloats(second).subspan(from, count));
  });
}

}  // namespace

struct FlatParameters::Tensors {
  at::Tensor values;
  at::Tensor gradients;
  at::Tensor exp_avg;
  at::Tensor exp_avg_sq;
  at::Tensor compute;  // bf16 copy; undefined in fp32

  const at::Tensor& Of(StateVector which) const {
    switch (which) {
      case StateVector::kWeights: return values;
      case StateVector::kGradients: return gradients;
      case StateVector::kFirstMoment: return exp_avg;
      case StateVector::kSecondMoment: return exp_avg_sq;
    }
    return values;
  }
  static at::Tensor Part(const at::Tensor& flat, const ParameterEntry& entry) {
    return flat.narrow(0, static_cast<std::int64_t>(entry.offset),
                       static_cast<std::int64_t>(entry.size));
  }
};

FlatParameters::FlatParameters(const storage::ModelConfig& config, const StageRange& range,
                               const std::string& device, bool bf16, bool moments)
    : device_(device), bf16_(bf16), moments_(moments), tensors_(std::make_unique<Tensors>()) {
  for (const std::string& part : PartsOf(config, range)) AddPart(config, part);
  const auto options = at::TensorOptions().device(c10::Device(device)).dtype(at::kFloat);
  const auto count = static_cast<std::int64_t>(size_);
  tensors_->values = at::zeros({count}, options);
  tensors_->gradients = at::zeros({count}, options);
  if (moments) tensors_->exp_avg = at::zeros({count}, options);
  if (moments) tensors_->exp_avg_sq = at::zeros({count}, options);
  if (bf16) tensors_->compute = at::zeros({count}, options.dtype(at::kBFloat16));
}

FlatParameters::~FlatParameters() = default;

std::uint64_t FlatParameters::bytes() const {
  std::uint64_t bytes = 0;
  for (const at::Tensor* tensor : {&tensors_->values, &tensors_->gradients, &tensors_->exp_avg,
                                   &tensors_->exp_avg_sq, &tensors_->compute}) {
    if (tensor->defined()) bytes += tensor->nbytes();
  }
  return bytes;
}

void FlatParameters::AddPart(const storage::ModelConfig& config, const std::string& part) {
  StagePart added{part, {}};
  for (const auto& [name, shape] : storage::PartShapes(config, part)) {
    const auto is_it = [&wanted = name](const ParameterEntry& entry) {
      return entry.name == wanted;
    };
    const auto same = std::find_if(entries_.begin(), entries_.end(), is_it);
    if (same != entries_.end()) {
      added.entries.push_back(static_cast<std::size_t>(same - entries_.begin()));
      continue;
    }
    added.entries.push_back(entries_.size());
    const std::size_t count = ValueCount(shape);
    entries_.push_back({name, shape, size_, count, shape.size() >= 2});
    size_ += count;
  }
  parts_.push_back(std::move(added));
}

const ParameterEntry& FlatParameters::Entry(const std::string& name) const {
  const auto found = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const ParameterEntry& entry) { return entry.name == name; });
  SHOAL_CHECK(found != entries_.end());
  return *found;
}

at::Tensor FlatParameters::Value(const std::string& name) const {
  return Tensors::Part(tensors_->values, Entry(name)).view(Entry(name).shape);
}

at::Tensor FlatParameters::ComputeValue(const std::string& name) const {
  const at::Tensor& flat = bf16_ ? tensors_->compute : tensors_->values;
  return Tensors::Part(flat, Entry(name)).view(Entry(name).shape);
}

at::Tensor FlatParameters::Gradient(const std::string& name) const {
  return Tensors::Part(tensors_->gradients, Entry(name)).view(Entry(name).shape);
}

void FlatParameters::ZeroGradients() { tensors_->gradients.zero_(); }

void FlatParameters::Read(StateVector which, std::size_t first, std::span<float> values) const {
  const auto count = static_cast<std::int64_t>(values.size());
  at::from_blob(values.data(), {count}, at::kFloat)
      .copy_(tensors_->Of(which).narrow(0, static_cast<std::int64_t>(first), count));
}

void FlatParameters::Write(StateVector which, std::size_t first, std::span<const float> values) {
  const auto count = static_cast<std::int64_t>(values.size());
  const auto from = static_cast<std::int64_t>(first);
  // from_blob wants a mutable pointer; the tensor is only read.
  const at::Tensor source = at::from_blob(const_cast<float*>(values.data()), {count}, at::kFloat);
  tensors_->Of(which).narrow(0, from, count).copy_(source);
  if (which == StateVector::kWeights && bf16_) {
    tensors_->compute.narrow(0, from, count).copy_(tensors_->values.narrow(0, from, count));
  }
}

double FlatParameters::SquaredGradientNorm(std::ptrdiff_t skip) const {
  double sum = 0;
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    if (static_cast<std::ptrdiff_t>(i) == skip) continue;
    const at::Tensor gradient = Tensors::Part(tensors_->gradients, entries_[i]);
    if (gradient.is_cpu()) {
      sum += ParallelSumOfSquares(Floats(gradient));
    } else {
      sum += gradient.to(at::kDouble).square_().sum().item<double>();
    }
  }
  return sum;
}

void FlatParameters::Apply(const optimizer::AdamWOptions& options, bool fused) {
  optimizer::AdamWOptions without_decay = options;
  without_decay.weight_decay = 0;
  const optimizer::AdamWStep decayed = optimizer::MakeAdamWStep(options);
  const optimizer::AdamWStep undecayed = optimizer::MakeAdamWStep(without_decay);
  for (const ParameterEntry& entry : entries_) {
    const optimizer::AdamWStep& step = entry.decay ? decayed : undecayed;
    const at::Tensor gradient = Tensors::Part(tensors_->gradients, entry);
    const at::Tensor value = Tensors::Part(tensors_->values, entry);
    const at::Tensor first = Tensors::Part(tensors_->exp_avg, entry);
    const at::Tensor second = Tensors::Part(tensors_->exp_avg_sq, entry);
    if (fused && value.is_cpu()) {
      UpdateOnHost(step, gradient, value, first, second);
    } else {
      UpdateOnDevice(step, gradient, value, first, second);
    }
  }
  RefreshComputeValues();
}

std::uint64_t FlatParameters::WeightChecksum() const {
  const at::Tensor host = tensors_->values.to(at::kCPU);
  return Checksum64(std::as_bytes(Floats(host)));
}

void FlatParameters::RefreshComputeValues() {
  if (bf16_) tensors_->compute.copy_(tensors_->values);
}

void FlatParameters::ZeroOptimizer() {
  tensors_->exp_avg.zero_();
  tensors_->exp_avg_sq.zero_();
}

Status FlatParameters::CheckTensor(const storage::TensorMap& tensors, const std::string& name,
                                   const ParameterEntry& entry, bool only_fp32) const {
  const auto found = tensors.find(name);
  if (found == tensors.end()) {
    return InvalidArgument("tensor " + name + " is missing; fetch or export the part again");
  }
  const storage::TensorView& view = found->second;
  if (view.shape != entry.shape) {
    return InvalidArgument("tensor " + name + " has shape " + ShapeText(view.shape) +
                           ", config.json wants " + ShapeText(entry.shape));
  }
  const bool known =
      view.dtype == storage::DType::kF32 ||
      (!only_fp32 && (view.dtype == storage::DType::kF16 || view.dtype == storage::DType::kBF16));
  if (!known) {
    return InvalidArgument("tensor " + name + " has dtype " +
                           std::string(storage::DTypeName(view.dtype)) + ", wanted " +
                           (only_fp32 ? "F32" : "F32, F16 or BF16"));
  }
  if (view.data.size() != entry.size * storage::DTypeBytes(view.dtype)) {
    return InvalidArgument("tensor " + name + " has " + std::to_string(view.data.size()) +
                           " bytes, its shape needs " +
                           std::to_string(entry.size * storage::DTypeBytes(view.dtype)));
  }
  return Status::Ok();
}

Status FlatParameters::CheckPart(const StagePart& part, const storage::TensorMap& tensors) const {
  for (std::size_t index : part.entries) {
    const ParameterEntry& entry = entries_[index];
    SHOAL_RETURN_IF_ERROR(CheckTensor(tensors, entry.name, entry, false).WithContext(part.name));
  }
  return Status::Ok();
}

void FlatParameters::LoadPart(const StagePart& part, const storage::TensorMap& tensors) {
  for (std::size_t index : part.entries) {
    const ParameterEntry& entry = entries_[index];
    Tensors::Part(tensors_->values, entry).copy_(ToTensor(tensors.at(entry.name), entry.size));
  }
}

Status FlatParameters::CheckOptimizerPart(const StagePart& part,
                                          const storage::TensorMap& tensors) const {
  for (std::size_t index : part.entries) {
    const ParameterEntry& entry = entries_[index];
    for (std::string_view suffix : kMomentSuffixes) {
      SHOAL_RETURN_IF_ERROR(CheckTensor(tensors, entry.name + std::string(suffix), entry, true)
                                .WithContext(part.name + " optimizer state"));
    }
  }
  return Status::Ok();
}

void FlatParameters::LoadOptimizerPart(const StagePart& part, const storage::TensorMap& tensors) {
  const std::array<at::Tensor, 2> moments = {tensors_->exp_avg, tensors_->exp_avg_sq};
  for (std::size_t index : part.entries) {
    const ParameterEntry& entry = entries_[index];
    for (std::size_t i = 0; i < moments.size(); ++i) {
      const std::string name = entry.name + std::string(kMomentSuffixes[i]);
      Tensors::Part(moments[i], entry).copy_(ToTensor(tensors.at(name), entry.size));
    }
  }
}

Status FlatParameters::SavePart(const StagePart& part, const std::string& folder) const {
  std::vector<at::Tensor> host;  // keeps the bytes alive while they are written
  const auto add = [&](const at::Tensor& flat, const ParameterEntry& entry, std::string name,
                       std::vector<storage::TensorToWrite>* out) {
    host.push_back(Tensors::Part(flat, entry).to(at::kCPU).contiguous());
    out->push_back(
        {std::move(name), storage::DType::kF32, entry.shape, std::as_bytes(Floats(host.back()))});
  };
  std::vector<storage::TensorToWrite> weights;
  std::vector<storage::TensorToWrite> moments;
  for (std::size_t index : part.entries) {
    const ParameterEntry& entry = entries_[index];
    add(tensors_->values, entry, entry.name, &weights);
    if (!moments_) continue;
    add(tensors_->exp_avg, entry, entry.name + std::string(kMomentSuffixes[0]), &moments);
    add(tensors_->exp_avg_sq, entry, entry.name + std::string(kMomentSuffixes[1]), &moments);
  }
  const std::string base = folder + "/" + part.name;
  SHOAL_RETURN_IF_ERROR(
      storage::WriteSafetensors(base + ".safetensors", weights, {{"part", part.name}}));
  if (!moments_) return Status::Ok();
  return storage::WriteSafetensors(base + ".optimizer.safetensors", moments, {{"part", part.name}});
}

}  // namespace shoal::model
