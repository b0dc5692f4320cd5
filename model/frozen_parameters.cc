#include "model/frozen_parameters.h"

#include <ATen/ops/zeros.h>
#include <c10/core/Device.h>

#include <utility>

#include "model/file_tensors.h"
#include "model/quantized/stored_weight.h"

namespace shoal::model {

FrozenParameters::FrozenParameters(const ModelSpec& spec, const StageRange& range,
                                   std::string device, bool bf16)
    : device_(std::move(device)) {
  if (!spec.adapted) return;
  const at::ScalarType compute = bf16 ? at::kBFloat16 : at::kFloat;
  const auto options = at::TensorOptions().device(c10::Device(device_));
  for (const std::string& part : StageParts(spec, range)) {
    std::vector<std::string>& names = parts_[part];
    for (const auto& [name, tensor] : spec.FrozenTensors(part)) {
      names.push_back(name);
      // A tied matrix is in two parts.
      const auto [held, is_new] = tensors_.try_emplace(name);
      if (!is_new) continue;
      held->second.shape = tensor.shape;
      if (tensor.shape.size() >= 2) {
        held->second.matrix = std::make_shared<FrozenTensor>(compute, c10::Device(device_));
        continue;
      }
      held->second.value = at::zeros(tensor.shape, options.dtype(at::kFloat));
      held->second.compute =
          bf16 ? at::zeros(tensor.shape, options.dtype(compute)) : held->second.value;
    }
  }
}

std::vector<std::string> FrozenParameters::parts() const {
  std::vector<std::string> names;
  for (const auto& [part, tensors] : parts_) names.push_back(part);
  return names;
}

Parameter FrozenParameters::Find(const std::string& name) const {
  const Held& held = tensors_.at(name);
  return {held.value, held.compute, {}, held.matrix};
}

std::uint64_t FrozenParameters::bytes() const {
  std::uint64_t bytes = 0;
  for (const auto& [name, held] : tensors_) {
    bytes += held.matrix ? held.matrix->bytes() : held.value.nbytes();
    if (!held.matrix && !held.compute.is_same(held.value)) bytes += held.compute.nbytes();
  }
  return bytes;
}

Status FrozenParameters::CheckPart(const std::string& part,
                                   const storage::TensorMap& tensors) const {
  for (const std::string& name : parts_.at(part)) {
    const Held& held = tensors_.at(name);
    const Status status = held.matrix ? FindWeight(tensors, name, held.shape).status()
                                      : CheckFileTensor(tensors, name, held.shape, false);
    SHOAL_RETURN_IF_ERROR(status.WithContext(part));
  }
  return Status::Ok();
}

void FrozenParameters::LoadPart(const std::string& part, const storage::TensorMap& tensors) {
  for (const std::string& name : parts_.at(part)) {
    Held& held = tensors_.at(name);
    if (held.matrix) {
      const Result<StoredWeight> weight = FindWeight(tensors, name, held.shape);
      SHOAL_CHECK(weight.ok());  // CheckPart
      if (weight->format == WeightFormat::kInt8 || weight->format == WeightFormat::kNf4) {
        held.matrix->Set(*weight, tensors);
        continue;
      }
    }
    const at::Tensor loaded = ToTensor(tensors.at(name)).view(held.shape).to(c10::Device(device_));
    if (held.matrix) {
      held.matrix->Set(loaded);
    } else {
      held.value.copy_(loaded);
      held.compute.copy_(loaded);
    }
  }
}

}  // namespace shoal::model
