#include "model/exports/base_part.h"

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include "model/families/trained_part.h"
#include "model/quantized/stored_weight.h"

namespace shoal::model {
namespace {

bool HasCodes(WeightFormat format) {
  return format == WeightFormat::kInt8 || format == WeightFormat::kNf4;
}

// Of a matrix outside of the layers' products, where these are codes.
WeightFormat FormatOfTables(WeightFormat format, const storage::TensorView& table) {
  if (!HasCodes(format)) return format;
  return table.dtype == storage::DType::kF16 ? WeightFormat::kFp16 : WeightFormat::kBf16;
}

// How a run keeps the tensor; nothing: as it is.
std::optional<WeightFormat> FormatOf(const ModelSpec& spec, const std::string& part,
                                     const std::string& name, const storage::TensorView& view,
                                     std::optional<WeightFormat> wanted) {
  if (!wanted || view.shape.size() < 2) return {};
  const std::vector<LinearSpec> products = spec.PartProducts(part);
  const bool product =
      part != "head" && std::ranges::find(products, name, &LinearSpec::weight) != products.end();
  return product ? *wanted : FormatOfTables(*wanted, view);
}

Result<std::optional<WeightFormat>> ParseFormat(const std::string& format) {
  if (format == "source") return std::optional<WeightFormat>();
  SHOAL_ASSIGN_OR_RETURN(const WeightFormat wanted, ParseWeightFormat(format));
  return std::optional(wanted);
}

}  // namespace

Result<BasePart> EncodeBase(const ModelSpec& spec, const std::string& part,
                            const storage::TensorMap& given, const std::string& format) {
  SHOAL_ASSIGN_OR_RETURN(const std::optional<WeightFormat> wanted, ParseFormat(format));
  BasePart base;
  base.tensors = FrozenPart(spec, part, given);
  for (const auto& [name, view] : FrozenPart(spec, part, given)) {
    const std::optional<WeightFormat> kept = FormatOf(spec, part, name, view, wanted);
    if (!kept) continue;
    SHOAL_ASSIGN_OR_RETURN(std::vector<EncodedTensor> tensors, EncodeWeight(name, view, *kept));
    base.tensors.erase(name);
    base.encoded.push_back(std::move(tensors));
    for (const EncodedTensor& tensor : base.encoded.back()) {
      base.tensors[tensor.stored.name] = tensor.View();
    }
  }
  return base;
}

Result<std::uint64_t> BaseBytes(const ModelSpec& spec, const std::string& part,
                                const storage::TensorMap& given, const std::string& format) {
  SHOAL_ASSIGN_OR_RETURN(const std::optional<WeightFormat> wanted, ParseFormat(format));
  std::uint64_t bytes = 0;
  for (const auto& [name, view] : FrozenPart(spec, part, given)) {
    const std::optional<WeightFormat> kept = FormatOf(spec, part, name, view, wanted);
    if (!kept) {
      bytes += view.data.size();
      continue;
    }
    SHOAL_ASSIGN_OR_RETURN(const std::uint64_t stored, StoredBytes(*kept, name, view.shape));
    bytes += stored;
  }
  return bytes;
}

Result<DecodedPart> DecodeBase(const ModelSpec& spec, const std::string& part,
                               const storage::TensorMap& base) {
  DecodedPart part_again;
  for (const auto& [name, tensor] : spec.FrozenTensors(part)) {
    if (tensor.shape.size() >= 2) {
      SHOAL_ASSIGN_OR_RETURN(const StoredWeight weight, FindWeight(base, name, tensor.shape));
      if (HasCodes(weight.format)) {
        std::vector<float>& values = part_again.decoded.emplace_back(weight.values);
        weight.Decode(0, values);
        part_again.tensors[name] = {storage::DType::kF32, tensor.shape,
                                    std::as_bytes(std::span<const float>(values))};
        continue;
      }
    }
    const auto found = base.find(name);
    if (found == base.end()) return DataLoss("part " + part + " of the base has no " + name);
    part_again.tensors.insert(*found);
  }
  return part_again;
}

}  // namespace shoal::model
