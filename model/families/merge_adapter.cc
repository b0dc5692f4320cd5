#include "model/families/merge_adapter.h"

#include <algorithm>
#include <utility>

#include "storage/models/float_bytes.h"

namespace shoal::model {
namespace {

std::vector<float> FloatsOf(const storage::TensorView& view) {
  std::vector<float> values(ValuesOf({view.shape}));
  storage::ReadFloats(view.dtype, view.data, values);
  return values;
}

Result<storage::TensorView> Find(const storage::TensorMap& tensors, const std::string& name,
                                 const TensorSpec& wanted) {
  const auto found = tensors.find(name);
  if (found == tensors.end() || found->second.shape != wanted.shape) {
    return DataLoss("tensor " + name + " is missing or has another shape than the model's");
  }
  const storage::DType dtype = found->second.dtype;
  if (!storage::IsFloat(dtype)) {
    return DataLoss("tensor " + name + " is " + std::string(storage::DTypeName(dtype)) +
                    ", not F32, F16 or BF16");
  }
  return found->second;
}

}  // namespace

void AddLowRank(const LinearSpec& product, std::span<const float> a, std::span<const float> b,
                std::span<float> weight) {
  const LoraSpec& lora = *product.lora;
  const auto rank = static_cast<std::size_t>(lora.rank);
  const auto in = static_cast<std::size_t>(product.in), out = static_cast<std::size_t>(product.out);
  SHOAL_CHECK(a.size() == rank * in && b.size() == out * rank && weight.size() == in * out);
  // Rows of the weight are sums of rows of A, or of columns of B: made rows, to run along memory.
  std::vector<float> columns;
  if (product.in_first) {
    columns.resize(b.size());
    for (std::size_t o = 0; o < out; ++o) {
      for (std::size_t k = 0; k < rank; ++k) columns[k * out + o] = b[o * rank + k];
    }
  }
  const std::size_t rows = product.in_first ? in : out, width = product.in_first ? out : in;
  const float* const along = product.in_first ? columns.data() : a.data();
  std::vector<float> sum(width);
  for (std::size_t row = 0; row < rows; ++row) {
    std::fill(sum.begin(), sum.end(), 0.0F);
    for (std::size_t k = 0; k < rank; ++k) {
      const float factor = product.in_first ? a[k * in + row] : b[row * rank + k];
      for (std::size_t i = 0; i < width; ++i) sum[i] += factor * along[k * width + i];
    }
    const auto scale = static_cast<float>(lora.scale);
    for (std::size_t i = 0; i < width; ++i) weight[row * width + i] += scale * sum[i];
  }
}

Result<MergedPart> MergePart(const ModelSpec& spec, const std::string& part,
                             const storage::TensorMap& base, const storage::TensorMap& trained) {
  MergedPart merged;
  for (const auto& [name, tensor] : spec.PartTensors(part)) {
    SHOAL_ASSIGN_OR_RETURN(merged.tensors[name],
                           Find(spec.Trains(name) ? trained : base, name, tensor));
  }
  const TensorSpecs described = spec.TrainedTensors(part);
  for (const LinearSpec& product : spec.PartProducts(part)) {
    if (!product.lora) continue;
    SHOAL_ASSIGN_OR_RETURN(const auto a,
                           Find(trained, product.lora->a, described.at(product.lora->a)));
    SHOAL_ASSIGN_OR_RETURN(const auto b,
                           Find(trained, product.lora->b, described.at(product.lora->b)));
    storage::TensorView& view = merged.tensors.at(product.weight);
    std::vector<float>& weight = merged.made.emplace_back(FloatsOf(view));
    AddLowRank(product, FloatsOf(a), FloatsOf(b), weight);
    view = {storage::DType::kF32, view.shape, std::as_bytes(std::span<const float>(weight))};
  }
  return merged;
}

}  // namespace shoal::model
