// The JSON header of a safetensors file, parsed as a stream: memory grows with what the header
// really holds, and nesting is bounded by the format's own grammar.

#ifndef SHOAL_STORAGE_MODELS_SAFETENSORS_HEADER_H_
#define SHOAL_STORAGE_MODELS_SAFETENSORS_HEADER_H_

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"
#include "storage/models/tensor_view.h"

namespace shoal::storage {

struct SafetensorsEntry {
  DType dtype = DType::kF32;
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0;  // offsets into the data behind the header
  std::uint64_t end = 0;
};

struct SafetensorsHeader {
  std::map<std::string, SafetensorsEntry> tensors;
  std::map<std::string, std::string> metadata;
};

// Parses header text. Checks grammar, UTF-8, duplicates, dtypes and numbers; whether the offsets
// fit the data is the caller's question. `name` is for messages.
Result<SafetensorsHeader> ParseSafetensorsHeader(std::string_view text, const std::string& name);

// Bytes of a tensor; false if the number overflows 64 bits or a dimension is negative.
bool TensorBytes(DType dtype, const std::vector<std::int64_t>& shape, std::uint64_t* bytes);

// The text of a header, for tensors that lie in this order without gaps, padded with spaces so that
// the data begins at a multiple of 8. Their data is not looked at.
Result<std::string> BuildSafetensorsHeader(std::span<const TensorToWrite> tensors,
                                           const std::map<std::string, std::string>& metadata);

}  // namespace shoal::storage

#endif  // SHOAL_STORAGE_MODELS_SAFETENSORS_HEADER_H_
