// GGUF version 3, the model files of llama.cpp: a header in one piece, and values as a stream.
//
// Layout: docs/STORAGE.md, "GGUF"; source: docs/gguf.md of ggml-org/ggml. The encoding of values is
// pure. Thread: any one at a time.

#ifndef SHOAL_STORAGE_MODELS_GGUF_H_
#define SHOAL_STORAGE_MODELS_GGUF_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "common/status.h"
#include "storage/files/atomic_file.h"

namespace shoal::storage {

enum class GgufType : std::uint32_t { kF32 = 0, kF16 = 1, kQ8_0 = 8 };

using GgufValue = std::variant<std::uint32_t, float, bool, std::string, std::vector<std::string>,
                               std::vector<float>, std::vector<std::int32_t>>;
using GgufMetadata = std::vector<std::pair<std::string, GgufValue>>;

struct GgufTensor {
  std::string name;  // at most 63 bytes
  GgufType type = GgufType::kF32;
  std::vector<std::int64_t> shape;  // 1 to 4 dimensions, row-major: the last one is contiguous
};

inline constexpr std::size_t kGgufAlignment = 32;    // of the data and of each tensor in it
inline constexpr std::size_t kGgufBlockValues = 32;  // of Q8_0: a row is whole blocks

// Bytes of a tensor without padding. Invalid argument: its shape does not fit its type.
Result<std::uint64_t> GgufTensorBytes(const GgufTensor& tensor);

// All bytes before the data, padded. Tensors lie in this order.
Result<std::string> BuildGgufHeader(const GgufMetadata& metadata,
                                    std::span<const GgufTensor> tensors);

// Appends values in a tensor's type to `bytes`; of Q8_0 whole blocks. F16 is rounded to nearest
// even. A block of Q8_0 has the scale d = max |x| / 127 in F16 and the codes round(x / d), halves
// away from zero, with d before it is rounded, as llama.cpp makes them. A value that is not finite
// or too large for the type is an invalid argument; `name` is the tensor's, for its message.
Status EncodeGguf(GgufType type, std::span<const float> values, std::string_view name,
                  std::vector<std::byte>* bytes);

// A file that appears under its name when it is whole.
class GgufFile {
 public:
  static Result<std::unique_ptr<GgufFile>> Create(const std::string& path,
                                                  const GgufMetadata& metadata,
                                                  std::vector<GgufTensor> tensors);
  // The next values, in the order of the tensors. A call never reaches beyond a tensor's end, and
  // of Q8_0 has whole blocks.
  Status Append(std::span<const float> values);
  // All tensors must be whole.
  Status Commit();

 private:
  GgufFile(std::unique_ptr<AtomicFile> file, std::vector<GgufTensor> tensors);
  void Begin();

  const std::unique_ptr<AtomicFile> file_;
  const std::vector<GgufTensor> tensors_;
  std::size_t tensor_ = 0;         // that values go to
  std::uint64_t values_left_ = 0;  // of it
  std::vector<std::byte> bytes_;
};

}  // namespace shoal::storage

#endif  // SHOAL_STORAGE_MODELS_GGUF_H_
