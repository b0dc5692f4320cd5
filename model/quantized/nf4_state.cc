#include "model/quantized/nf4_state.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "common/nesting.h"
#include "model/quantized/nf4.h"
#include "storage/files/foreign_text.h"

namespace shoal::model {
namespace {

using nlohmann::json;
using storage::DType;

struct DTypeWord {
  DType dtype;
  std::string_view word;
};
constexpr DTypeWord kWords[] = {
    {DType::kF32, "float32"}, {DType::kF16, "float16"}, {DType::kBF16, "bfloat16"}};

constexpr std::string_view kKeys[] = {"quant_type",       "blocksize",    "dtype",        "shape",
                                      "nested_blocksize", "nested_dtype", "nested_offset"};

std::string NumberText(double value) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof(text), value);
  std::string number(text, end.ptr);
  // JSON's numbers with a fraction, as Python writes them.
  if (number.find_first_of(".e") == std::string::npos) number += ".0";
  return number;
}

bool IsText(const json& root, const char* key, std::string_view wanted) {
  const auto found = root.find(key);
  return found != root.end() && found->is_string() &&
         found->get_ref<const std::string&>() == wanted;
}

bool IsNumber(const json& root, const char* key, std::uint64_t wanted) {
  const auto found = root.find(key);
  return found != root.end() && found->is_number_unsigned() &&
         found->get<std::uint64_t>() == wanted;
}

std::optional<std::vector<std::int64_t>> ShapeOf(const json& root) {
  const auto found = root.find("shape");
  if (found == root.end() || !found->is_array() || found->size() > kNf4DimensionsMax) return {};
  std::vector<std::int64_t> shape;
  for (const json& size : *found) {
    constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    if (!size.is_number_unsigned() || size.get<std::uint64_t>() > kMost) return {};
    shape.push_back(size.get<std::int64_t>());
  }
  return shape;
}

}  // namespace

std::string Nf4StateText(const Nf4State& state) {
  SHOAL_CHECK(state.shape.size() <= kNf4DimensionsMax);
  std::string text = R"({"quant_type": "nf4", "blocksize": )" + std::to_string(kNf4Block);
  for (const DTypeWord& word : kWords) {
    if (word.dtype == state.dtype) text += R"(, "dtype": ")" + std::string(word.word) + '"';
  }
  text += R"(, "shape": [)";
  for (std::size_t i = 0; i < state.shape.size(); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(state.shape[i]);
  }
  text += "]";
  if (state.nested) {
    text += R"(, "nested_blocksize": )" + std::to_string(kNf4NestedBlock) +
            R"(, "nested_dtype": "float32", "nested_offset": )" + NumberText(state.offset);
  }
  text += "}";
  SHOAL_CHECK(text.size() <= kNf4StateBytes);
  text.resize(kNf4StateBytes, ' ');
  return text;
}

Result<Nf4State> ParseNf4State(std::string_view text, const std::string& name) {
  const auto refuse = [&name](const std::string& cause) {
    return InvalidArgument("the nf4 state of tensor " + storage::Quoted(name) + " " + cause);
  };
  if (text.size() > kNf4StateBytesMax) return refuse("is too long");
  const json root = ParseJson<json>(text);
  if (!root.is_object()) return refuse("is no JSON object; the file is damaged, fetch it again");
  for (const auto& [key, value] : root.items()) {
    if (std::ranges::find(kKeys, key) == std::end(kKeys)) {
      return refuse("has the unknown key " + storage::Quoted(key));
    }
  }
  if (!IsText(root, "quant_type", "nf4") || !IsNumber(root, "blocksize", kNf4Block)) {
    return refuse("does not say nf4 in blocks of 64, the only kind that is read");
  }
  Nf4State state;
  bool known = false;
  for (const DTypeWord& word : kWords) {
    if (!IsText(root, "dtype", word.word)) continue;
    state.dtype = word.dtype;
    known = true;
  }
  if (!known) return refuse("has no dtype of float32, float16 and bfloat16");
  auto shape = ShapeOf(root);
  if (!shape) return refuse("has no shape of at most 8 dimensions");
  state.shape = *std::move(shape);
  state.nested = root.contains("nested_blocksize") || root.contains("nested_dtype") ||
                 root.contains("nested_offset");
  if (!state.nested) return state;
  if (!IsNumber(root, "nested_blocksize", kNf4NestedBlock) ||
      !IsText(root, "nested_dtype", "float32")) {
    return refuse("does not say float32 in nested blocks of 256, the only kind that is read");
  }
  const auto offset = root.find("nested_offset");
  if (offset == root.end() || !offset->is_number() ||
      !(std::fabs(offset->get<double>()) <= double{kWeightMax})) {
    return refuse("has no finite nested_offset");
  }
  state.offset = static_cast<float>(offset->get<double>());
  return state;
}

}  // namespace shoal::model
