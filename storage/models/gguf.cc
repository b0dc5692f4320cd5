#include "storage/models/gguf.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <set>

#include "common/bytes.h"
#include "common/half.h"
#include "storage/files/foreign_text.h"
#include "storage/models/safetensors_header.h"

namespace shoal::storage {
namespace {

constexpr std::string_view kMagic = "GGUF";
constexpr std::uint32_t kVersion = 3;
constexpr std::size_t kNameBytesMax = 63, kDimensionsMax = 4;
constexpr float kHalfMax = 65504;
// Of Q8_0.
constexpr float kCodeMax = 127;
constexpr std::size_t kBlockBytes = 2 + kGgufBlockValues;

// Numbers of value types in the file.
enum ValueType : std::uint32_t {
  kUint32 = 4,
  kInt32 = 5,
  kFloat32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
};

class HeaderText {
 public:
  template <typename T>
  void Number(T value) {
    std::byte bytes[sizeof(T)];
    StoreLittle<T>(bytes, value);
    text_.append(reinterpret_cast<const char*>(bytes), sizeof(T));
  }
  void Text(std::string_view text) {
    Number<std::uint64_t>(text.size());
    text_ += text;
  }
  void Raw(std::string_view bytes) { text_ += bytes; }
  void Pad() { text_.append((kGgufAlignment - text_.size() % kGgufAlignment) % kGgufAlignment, 0); }
  std::string Take() { return std::move(text_); }

  void Value(std::uint32_t value) { Number<std::uint32_t>(kUint32), Number(value); }
  void Value(float value) { Number<std::uint32_t>(kFloat32), Float(value); }
  void Value(bool value) { Number<std::uint32_t>(kBool), Number<std::uint8_t>(value ? 1 : 0); }
  void Value(const std::string& value) { Number<std::uint32_t>(kString), Text(value); }
  void Value(const std::vector<std::string>& values) {
    Array(kString, values.size());
    for (const std::string& value : values) Text(value);
  }
  void Value(const std::vector<float>& values) {
    Array(kFloat32, values.size());
    for (const float value : values) Float(value);
  }
  void Value(const std::vector<std::int32_t>& values) {
    Array(kInt32, values.size());
    for (const std::int32_t value : values) Number(value);
  }

 private:
  void Float(float value) { Number(std::bit_cast<std::uint32_t>(value)); }
  void Array(std::uint32_t type, std::size_t size) {
    Number<std::uint32_t>(kArray);
    Number(type);
    Number<std::uint64_t>(size);
  }

  std::string text_;
};

Status TooLarge(std::string_view name, float value, const char* type) {
  const std::string what = "tensor " + Quoted(name) + " has the value " + std::to_string(value);
  if (!std::isfinite(value)) {
    return InvalidArgument(what + ": such a model is damaged, take an earlier checkpoint");
  }
  return InvalidArgument(what + ", which is too large for " + type);
}

Status EncodeHalf(std::span<const float> values, std::string_view name,
                  std::vector<std::byte>* bytes) {
  const std::size_t at = bytes->size();
  bytes->resize(at + 2 * values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint16_t half = FloatToHalf(values[i]);
    // Infinity and NaN have all bits of the exponent.
    if ((half & kHalfInfinity) == kHalfInfinity) return TooLarge(name, values[i], "F16");
    StoreLittle<std::uint16_t>(bytes->data() + at + 2 * i, half);
  }
  return Status::Ok();
}

Status EncodeBlock(std::span<const float> values, std::string_view name, std::byte* block) {
  float largest = 0;
  for (const float value : values) {
    if (!std::isfinite(value)) return TooLarge(name, value, "Q8_0");
    largest = std::max(largest, std::fabs(value));
  }
  const float scale = largest / kCodeMax;
  if (scale > kHalfMax) return TooLarge(name, largest, "Q8_0");
  const float inverse = scale > 0 ? 1 / scale : 0;
  StoreLittle<std::uint16_t>(block, FloatToHalf(scale));
  for (std::size_t i = 0; i < values.size(); ++i) {
    // A scale below fp32's normal range has an inverse that is infinite or not exact.
    const float code = std::clamp(std::round(values[i] * inverse), -kCodeMax, kCodeMax);
    block[2 + i] = static_cast<std::byte>(static_cast<std::int8_t>(code));
  }
  return Status::Ok();
}

}  // namespace

Result<std::uint64_t> GgufTensorBytes(const GgufTensor& tensor) {
  std::uint64_t bytes = 0;
  if (tensor.name.empty() || tensor.name.size() > kNameBytesMax || tensor.shape.empty() ||
      tensor.shape.size() > kDimensionsMax || std::ranges::min(tensor.shape) < 1 ||
      !TensorBytes(DType::kF32, tensor.shape, &bytes)) {
    return InvalidArgument("GGUF has no place for tensor " + Quoted(tensor.name) +
                           ": names have 1 to 63 bytes, tensors 1 to 4 dimensions");
  }
  switch (tensor.type) {
    case GgufType::kF32: return bytes;
    case GgufType::kF16: return bytes / 2;
    case GgufType::kQ8_0: break;
  }
  if (static_cast<std::size_t>(tensor.shape.back()) % kGgufBlockValues != 0) {
    return InvalidArgument("rows of tensor " + Quoted(tensor.name) + " have " +
                           std::to_string(tensor.shape.back()) +
                           " values, of Q8_0 they are multiples of 32");
  }
  return bytes / sizeof(float) / kGgufBlockValues * kBlockBytes;
}

Result<std::string> BuildGgufHeader(const GgufMetadata& metadata,
                                    std::span<const GgufTensor> tensors) {
  HeaderText header;
  header.Raw(kMagic);
  header.Number<std::uint32_t>(kVersion);
  header.Number<std::uint64_t>(tensors.size());
  header.Number<std::uint64_t>(metadata.size());
  std::set<std::string_view> seen;
  for (const auto& [key, value] : metadata) {
    if (!seen.insert(key).second)
      return InvalidArgument("GGUF key " + Quoted(key) + " comes twice");
    header.Text(key);
    std::visit([&](const auto& held) { header.Value(held); }, value);
  }
  seen.clear();
  std::uint64_t offset = 0;
  for (const GgufTensor& tensor : tensors) {
    SHOAL_ASSIGN_OR_RETURN(const std::uint64_t bytes, GgufTensorBytes(tensor));
    if (!seen.insert(tensor.name).second) {
      return InvalidArgument("tensor " + Quoted(tensor.name) + " comes twice");
    }
    header.Text(tensor.name);
    header.Number<std::uint32_t>(static_cast<std::uint32_t>(tensor.shape.size()));
    for (auto size = tensor.shape.rbegin(); size != tensor.shape.rend(); ++size) {
      header.Number<std::uint64_t>(static_cast<std::uint64_t>(*size));
    }
    header.Number<std::uint32_t>(static_cast<std::uint32_t>(tensor.type));
    header.Number<std::uint64_t>(offset);
    offset += (bytes + kGgufAlignment - 1) / kGgufAlignment * kGgufAlignment;
  }
  header.Pad();
  return header.Take();
}

Status EncodeGguf(GgufType type, std::span<const float> values, std::string_view name,
                  std::vector<std::byte>* bytes) {
  if (type == GgufType::kF16) return EncodeHalf(values, name, bytes);
  const std::size_t at = bytes->size();
  if (type == GgufType::kF32) {
    for (const float value : values) {
      if (!std::isfinite(value)) return TooLarge(name, value, "F32");
    }
    const auto raw = std::as_bytes(values);
    bytes->insert(bytes->end(), raw.begin(), raw.end());
    return Status::Ok();
  }
  SHOAL_CHECK(values.size() % kGgufBlockValues == 0);
  bytes->resize(at + values.size() / kGgufBlockValues * kBlockBytes);
  std::byte* block = bytes->data() + at;
  for (; !values.empty(); values = values.subspan(kGgufBlockValues), block += kBlockBytes) {
    SHOAL_RETURN_IF_ERROR(EncodeBlock(values.first(kGgufBlockValues), name, block));
  }
  return Status::Ok();
}

GgufFile::GgufFile(std::unique_ptr<AtomicFile> file, std::vector<GgufTensor> tensors)
    : file_(std::move(file)), tensors_(std::move(tensors)) {
  Begin();
}

Result<std::unique_ptr<GgufFile>> GgufFile::Create(const std::string& path,
                                                   const GgufMetadata& metadata,
                                                   std::vector<GgufTensor> tensors) {
  const Result<std::string> header = BuildGgufHeader(metadata, tensors);
  if (!header.ok()) return header.status().WithContext("cannot write " + path);
  SHOAL_ASSIGN_OR_RETURN(auto file, AtomicFile::Create(path));
  SHOAL_RETURN_IF_ERROR(file->Append(std::as_bytes(std::span(*header))));
  return std::unique_ptr<GgufFile>(new GgufFile(std::move(file), std::move(tensors)));
}

void GgufFile::Begin() {
  values_left_ = 1;
  if (tensor_ == tensors_.size()) return;
  for (const std::int64_t size : tensors_[tensor_].shape) {
    values_left_ *= static_cast<std::uint64_t>(size);
  }
}

Status GgufFile::Append(std::span<const float> values) {
  SHOAL_CHECK(tensor_ < tensors_.size() && values.size() <= values_left_);
  const GgufTensor& tensor = tensors_[tensor_];
  bytes_.clear();
  SHOAL_RETURN_IF_ERROR(EncodeGguf(tensor.type, values, tensor.name, &bytes_));
  values_left_ -= values.size();
  if (values_left_ == 0) {
    SHOAL_ASSIGN_OR_RETURN(const std::uint64_t whole, GgufTensorBytes(tensor));
    bytes_.resize(bytes_.size() + (kGgufAlignment - whole % kGgufAlignment) % kGgufAlignment);
    ++tensor_;
    Begin();
  }
  return file_->Append(bytes_);
}

Status GgufFile::Commit() {
  SHOAL_CHECK(tensor_ == tensors_.size());
  return file_->Commit();
}

}  // namespace shoal::storage
