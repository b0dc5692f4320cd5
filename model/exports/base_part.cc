#include "model/exports/base_part.h"

#include <algorithm>
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

}  // namespace

Result<BasePart> EncodeBase(const ModelSpec& spec, const std::string& part,
                            const storage::TensorMap& given, const std::string& format) {
  BasePart base;
  base.tensors = FrozenPart(spec, part, given);
  if (format == "source") return base;
  SHOAL_ASSIGN_OR_RETURN(const WeightFormat wanted, ParseWeightFormat(format));
  const std::vector<LinearSpec> products = spec.PartProducts(part);
  for (const auto& [name, view] : FrozenPart(spec, part, given)) {
    if (view.shape.size() < 2) continue;
    const bool product =
        part != "head" && std::ranges::find(products, name, &LinearSpec::weight) != products.end();
    SHOAL_ASSIGN_OR_RETURN(
        std::vector<EncodedTensor> tensors,
        EncodeWeight(name, view, product ? wanted : FormatOfTables(wanted, view)));
    base.tensors.erase(name);
    base.encoded.push_back(std::move(tensors));
    for (const EncodedTensor& tensor : base.encoded.back()) {
      base.tensors[tensor.stored.name] = tensor.View();
    }
  }
  return base;
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
