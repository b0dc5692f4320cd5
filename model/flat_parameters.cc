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
#include "model/file_tensors.h"

namespace shoal::model {
namespace {

// Values one thread handles at a time; fixed, so that sums do not depend on the thread count.
constexpr std::size_t kBlockValues = std::size_t{1} << 16;

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

bool IsMoment(StateVector which) {
  return which == StateVector::kFirstMoment || which == StateVector::kSecondMoment;
}

// Views share the storage and stay what they are, whatever memory it has. False: it has it.
bool Allocate(const at::Tensor& tensor) {
  c10::StorageImpl* const storage = tensor.storage().unsafeGetStorageImpl();
  if (storage->nbytes() > 0) return false;
  const std::size_t bytes = static_cast<std::size_t>(tensor.numel()) * tensor.element_size();
  storage->set_data_ptr_noswap(storage->allocator()->allocate(bytes));
  storage->set_nbytes(bytes);
  return true;
}

void Release(const at::Tensor& tensor) {
  c10::StorageImpl* const storage = tensor.storage().unsafeGetStorageImpl();
  storage->set_data_ptr_noswap(storage->allocator()->allocate(0));
  storage->set_nbytes(0);
}

}  // namespace

struct FlatParameters::Tensors {
  // Weights and gradients of a part of the flat vectors: all, or a unit.
  struct Block {
    std::size_t first = 0;
    at::Tensor values, gradients;
    at::Tensor compute;  // bf16 copy; undefined in fp32

    std::size_t size() const { return static_cast<std::size_t>(values.numel()); }
    const at::Tensor& Of(StateVector which) const {
      return which == StateVector::kWeights ? values : gradients;
    }
  };
  // Of an entry, in its shape. Made while the block is held, and good whenever it is again.
  struct Views {
    at::Tensor value, compute, gradient;
  };
  std::vector<Block> blocks;
  std::vector<Views> views;
  at::Tensor exp_avg, exp_avg_sq;  // undefined unless all is held

  const Block& whole() const {
    SHOAL_CHECK(blocks.size() == 1);
    return blocks.front();
  }
  const at::Tensor& Moment(StateVector which) const {
    return which == StateVector::kFirstMoment ? exp_avg : exp_avg_sq;
  }
  static at::Tensor Part(const at::Tensor& flat, const ParameterEntry& entry) {
    return flat.narrow(0, static_cast<std::int64_t>(entry.offset),
                       static_cast<std::int64_t>(entry.size));
  }
};

FlatParameters::FlatParameters(const ModelSpec& spec, const StageRange& range,
                               const std::string& device, bool bf16, ZeroMode held)
    : device_(device),
      bf16_(bf16),
      held_(held),
      alone_(spec.embedding.tokens.weight),
      tensors_(std::make_unique<Tensors>()) {
  for (const std::string& part : StageParts(spec, range)) AddPart(spec, part);
  if (held == ZeroMode::kZero3) {
    for (std::size_t unit = 0; unit < units_.size(); ++unit) {
      MakeBlock(units_[unit].first, units_[unit].values);
      for (const auto which : {StateVector::kWeights, StateVector::kGradients}) {
        ReleaseUnit(which, unit);
      }
    }
    return;
  }
  MakeBlock(0, size_);
  if (held == ZeroMode::kWeights) Release(tensors_->blocks[0].gradients);
  if (held != ZeroMode::kNone) return;
  const auto options = at::TensorOptions().device(c10::Device(device)).dtype(at::kFloat);
  tensors_->exp_avg = at::zeros({static_cast<std::int64_t>(size_)}, options);
  tensors_->exp_avg_sq = at::zeros({static_cast<std::int64_t>(size_)}, options);
}

FlatParameters::~FlatParameters() = default;

void FlatParameters::MakeBlock(std::size_t first, std::size_t values) {
  const auto options = at::TensorOptions().device(c10::Device(device_)).dtype(at::kFloat);
  const auto count = static_cast<std::int64_t>(values);
  Tensors::Block block;
  block.first = first;
  block.values = at::zeros({count}, options);
  // Of weights alone it is not touched, so that the system has no pages to give.
  block.gradients =
      held_ == ZeroMode::kWeights ? at::empty({count}, options) : at::zeros({count}, options);
  if (bf16_) block.compute = at::zeros({count}, options.dtype(at::kBFloat16));
  for (const ParameterEntry& entry : entries_) {
    if (entry.offset < first || entry.offset >= first + values) continue;
    const auto view = [&](const at::Tensor& flat) {
      return flat
          .narrow(0, static_cast<std::int64_t>(entry.offset - first),
                  static_cast<std::int64_t>(entry.size))
          .view(entry.shape);
    };
    const at::Tensor value = view(block.values);
    tensors_->views.push_back({value, bf16_ ? view(block.compute) : value, view(block.gradients)});
  }
  tensors_->blocks.push_back(std::move(block));
}

std::uint64_t FlatParameters::bytes() const {
  std::uint64_t bytes = 0;
  const auto add = [&bytes](const at::Tensor& tensor) {
    if (tensor.defined()) bytes += tensor.storage().nbytes();
  };
  for (const Tensors::Block& block : tensors_->blocks) {
    for (const at::Tensor* tensor : {&block.values, &block.gradients, &block.compute}) add(*tensor);
  }
  add(tensors_->exp_avg);
  add(tensors_->exp_avg_sq);
  return bytes;
}

void FlatParameters::AddToUnits(const std::string& part, const ParameterEntry& entry) {
  // By itself: two places of a model may need it, and first and last stages agree on it.
  const bool alone = entry.name == alone_;
  const bool behind = !units_.empty() && units_.back().name == alone_;
  if (units_.empty() || alone || behind || units_.back().name != part) {
    units_.push_back({alone ? entry.name : part, entry.offset, 0});
  }
  units_.back().values += entry.size;
}

std::size_t FlatParameters::UnitOf(const std::string& name) const {
  const std::size_t offset = Entry(name).offset;
  const auto behind = std::find_if(units_.begin(), units_.end(),
                                   [&](const UnitLayout& unit) { return unit.first > offset; });
  SHOAL_CHECK(behind != units_.begin());
  return static_cast<std::size_t>(behind - units_.begin()) - 1;
}

void FlatParameters::HoldUnit(StateVector which, std::size_t unit) {
  const Tensors::Block& block = tensors_->blocks.at(unit);
  if (which == StateVector::kWeights) {
    (void)Allocate(block.values);
    if (bf16_) (void)Allocate(block.compute);
  } else if (Allocate(block.gradients)) {
    block.gradients.zero_();
  }
}

void FlatParameters::ReleaseUnit(StateVector which, std::size_t unit) {
  const Tensors::Block& block = tensors_->blocks.at(unit);
  Release(block.Of(which));
  if (which == StateVector::kWeights && bf16_) Release(block.compute);
}

bool FlatParameters::Holds(StateVector which, std::size_t first, std::size_t count) const {
  for (const Tensors::Block& block : tensors_->blocks) {
    const bool touched = block.first < first + count && first < block.first + block.size();
    if (touched && block.Of(which).storage().nbytes() == 0) return false;
  }
  return true;
}

void FlatParameters::AddPart(const ModelSpec& spec, const std::string& part) {
  StagePart added{part, {}};
  for (const auto& [name, tensor] : spec.TrainedTensors(part)) {
    const std::vector<std::int64_t>& shape = tensor.shape;
    const auto is_it = [&wanted = name](const ParameterEntry& entry) {
      return entry.name == wanted;
    };
    const auto same = std::find_if(entries_.begin(), entries_.end(), is_it);
    if (same != entries_.end()) {
      added.entries.push_back(static_cast<std::size_t>(same - entries_.begin()));
      continue;
    }
    added.entries.push_back(entries_.size());
    const std::size_t count = ValuesOf(tensor);
    entries_.push_back({name, shape, size_, count, shape.size() >= 2});
    if (held_ == ZeroMode::kZero3) AddToUnits(part, entries_.back());
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
  return tensors_->views[static_cast<std::size_t>(&Entry(name) - entries_.data())].value;
}

at::Tensor FlatParameters::ComputeValue(const std::string& name) const {
  return tensors_->views[static_cast<std::size_t>(&Entry(name) - entries_.data())].compute;
}

at::Tensor FlatParameters::Gradient(const std::string& name) const {
  return tensors_->views[static_cast<std::size_t>(&Entry(name) - entries_.data())].gradient;
}

void FlatParameters::ZeroGradients() {
  for (const Tensors::Block& block : tensors_->blocks) {
    if (block.gradients.storage().nbytes() > 0) block.gradients.zero_();
  }
}

void FlatParameters::Read(StateVector which, std::size_t first, std::span<float> values,
                          const std::string& where) const {
  const auto options = at::TensorOptions(at::kFloat).device(c10::Device(where));
  const auto copy = [&options](const at::Tensor& from, std::size_t at, std::span<float> to) {
    const auto count = static_cast<std::int64_t>(to.size());
    at::from_blob(to.data(), {count}, options)
        .copy_(from.narrow(0, static_cast<std::int64_t>(at), count));
  };
  if (IsMoment(which)) return copy(tensors_->Moment(which), first, values);
  for (const Tensors::Block& block : tensors_->blocks) {
    const std::size_t begin = std::max(first, block.first);
    const std::size_t end = std::min(first + values.size(), block.first + block.size());
    if (begin >= end) continue;
    copy(block.Of(which), begin - block.first, values.subspan(begin - first, end - begin));
  }
}

void FlatParameters::Write(StateVector which, std::size_t first, std::span<const float> values,
                           const std::string& where) {
  const auto options = at::TensorOptions(at::kFloat).device(c10::Device(where));
  const auto copy = [&options](std::span<const float> from, const at::Tensor& to, std::size_t at) {
    const auto count = static_cast<std::int64_t>(from.size());
    // from_blob wants a mutable pointer; the tensor is only read.
    to.narrow(0, static_cast<std::int64_t>(at), count)
        .copy_(at::from_blob(const_cast<float*>(from.data()), {count}, options));
  };
  if (IsMoment(which)) return copy(values, tensors_->Moment(which), first);
  for (const Tensors::Block& block : tensors_->blocks) {
    const std::size_t begin = std::max(first, block.first);
    const std::size_t end = std::min(first + values.size(), block.first + block.size());
    if (begin >= end) continue;
    copy(values.subspan(begin - first, end - begin), block.Of(which), begin - block.first);
    if (which != StateVector::kWeights || !bf16_) continue;
    const auto from = static_cast<std::int64_t>(begin - block.first);
    const auto count = static_cast<std::int64_t>(end - begin);
    block.compute.narrow(0, from, count).copy_(block.values.narrow(0, from, count));
  }
}

double FlatParameters::SquaredGradientNorm(const std::set<std::string>& skipped) const {
  double sum = 0;
  for (const ParameterEntry& entry : entries_) {
    if (skipped.contains(entry.name)) continue;
    const at::Tensor gradient = Tensors::Part(tensors_->whole().gradients, entry);
    if (gradient.is_cpu()) {
      sum += ParallelSumOfSquares(Floats(gradient));
    } else {
      for (const at::Tensor& slice : gradient.view(-1).split(kSliceValues)) {
        sum += slice.to(at::kDouble).square_().sum().item<double>();
      }
    }
  }
  return sum;
}

void FlatParameters::Apply(const optimizer::AdamWOptions& options, bool fused,
                           std::int64_t slice_values) {
  optimizer::AdamWOptions without_decay = options;
  without_decay.weight_decay = 0;
  const optimizer::AdamWStep decayed = optimizer::MakeAdamWStep(options);
  const optimizer::AdamWStep undecayed = optimizer::MakeAdamWStep(without_decay);
  for (const ParameterEntry& entry : entries_) {
    const optimizer::AdamWStep& step = entry.decay ? decayed : undecayed;
    const at::Tensor gradient = Tensors::Part(tensors_->whole().gradients, entry);
    const at::Tensor value = Tensors::Part(tensors_->whole().values, entry);
    const at::Tensor first = Tensors::Part(tensors_->exp_avg, entry);
    const at::Tensor second = Tensors::Part(tensors_->exp_avg_sq, entry);
    if (fused && value.is_cpu()) {
      UpdateOnHost(step, gradient, value, first, second);
    } else {
      for (std::int64_t from = 0; from < value.numel(); from += slice_values) {
        const auto slice = [from, slice_values](const at::Tensor& all) {
          return all.narrow(0, from, std::min(slice_values, all.numel() - from));
        };
        UpdateOnDevice(step, slice(gradient), slice(value), slice(first), slice(second));
      }
    }
  }
  RefreshComputeValues();
}

std::uint64_t FlatParameters::WeightChecksum() const {
  const at::Tensor host = tensors_->whole().values.to(at::kCPU);
  return Checksum64(std::as_bytes(Floats(host)));
}

void FlatParameters::RefreshComputeValues() {
  if (bf16_) tensors_->whole().compute.copy_(tensors_->whole().values);
}

void FlatParameters::ZeroOptimizer() {
  tensors_->exp_avg.zero_();
  tensors_->exp_avg_sq.zero_();
}

Status FlatParameters::CheckPart(const StagePart& part, const storage::TensorMap& tensors) const {
  for (std::size_t index : part.entries) {
    const ParameterEntry& entry = entries_[index];
    SHOAL_RETURN_IF_ERROR(
        CheckFileTensor(tensors, entry.name, entry.shape, false).WithContext(part.name));
  }
  return Status::Ok();
}

void FlatParameters::LoadPart(const StagePart& part, const storage::TensorMap& tensors) {
  for (std::size_t index : part.entries) {
    const ParameterEntry& entry = entries_[index];
    Tensors::Part(tensors_->whole().values, entry).copy_(ToTensor(tensors.at(entry.name)));
  }
}

Status FlatParameters::CheckOptimizerPart(const StagePart& part,
                                          const storage::TensorMap& tensors) const {
  for (std::size_t index : part.entries) {
    const ParameterEntry& entry = entries_[index];
    for (std::string_view suffix : kMomentSuffixes) {
      SHOAL_RETURN_IF_ERROR(
          CheckFileTensor(tensors, entry.name + std::string(suffix), entry.shape, true)
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
      Tensors::Part(moments[i], entry).copy_(ToTensor(tensors.at(name)));
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
    add(tensors_->whole().values, entry, entry.name, &weights);
    if (held_ != ZeroMode::kNone) continue;
    add(tensors_->exp_avg, entry, entry.name + std::string(kMomentSuffixes[0]), &moments);
    add(tensors_->exp_avg_sq, entry, entry.name + std::string(kMomentSuffixes[1]), &moments);
  }
  const std::string base = folder + "/" + part.name;
  SHOAL_RETURN_IF_ERROR(
      storage::WriteSafetensors(base + ".safetensors", weights, {{"part", part.name}}));
  if (held_ != ZeroMode::kNone) return Status::Ok();
  return storage::WriteSafetensors(base + ".optimizer.safetensors", moments, {{"part", part.name}});
}

}  // namespace shoal::model
