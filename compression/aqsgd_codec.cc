#include "compression/aqsgd_codec.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "compression/half.h"
#include "compression/kernels.h"
#include "compression/sample_layout.h"

namespace shoal::compression {
namespace {

// A delta is a value up to 2^118 minus an m up to 65504 * 2^104.
constexpr float kDeltaMax = 0x1p121F;

class AqsgdCodec : public SampleCodec {
 public:
  AqsgdCodec(BucketCode code, std::shared_ptr<const SampleCodec> first_visit)
      : code_(code), first_visit_(std::move(first_visit)) {
    std::string nested = first_visit_->spec();
    std::replace(nested.begin(), nested.end(), ',', '/');
    spec_ = "aqsgd:bits=" + std::to_string(code.bits()) +
            ",bucket=" + std::to_string(code.bucket()) + ",first_visit=" + nested;
  }

  const std::string& spec() const override { return spec_; }
  bool keeps_m() const override { return true; }
  std::size_t EncodedBytesMax(SampleShape shape) const override {
    return std::max(DeltaBytes(shape), first_visit_->EncodedBytesMax(shape));
  }

  Result<std::size_t> Encode(std::span<const float> values, SampleShape shape,
                             std::span<const std::byte> m, const RandomKey& key,
                             std::span<std::byte> out, Buffer* next_m) const override;
  Status Decode(std::span<const std::byte> payload, SampleShape shape, std::span<const std::byte> m,
                const RandomKey& key, std::span<float> values, Buffer* next_m) const override;

 private:
  struct Scratch {
    explicit Scratch(std::size_t block) : codes(block + 7), floats(block) {}
    std::vector<std::uint8_t> codes;
    std::vector<float> floats;
  };

  std::size_t DeltaBytes(SampleShape shape) const {
    return kPayloadHeaderBytes + code_.Bytes(shape.values());
  }
  PayloadHeader HeaderFor(SampleShape shape) const {
    PayloadHeader header;
    header.codec = CodecId::kAqsgd;
    header.bits = static_cast<std::uint8_t>(code_.bits());
    header.type = ValueType::kBf16;
    header.bucket = code_.bucket();
    header.values = shape.values();
    return header;
  }
  Status Check(SampleShape shape, std::size_t given) const {
    SHOAL_RETURN_IF_ERROR(CheckShape(shape, given, spec_));
    return CheckBucketFits(code_, shape, spec_);
  }

  Result<std::size_t> EncodeFirst(std::span<const float> values, SampleShape shape,
                                  const RandomKey& key, std::span<std::byte> out,
                                  Buffer* next_m) const;
  Status DecodeFirst(std::span<const std::byte> payload, SampleShape shape, const RandomKey& key,
                     std::span<float> values, Buffer* next_m) const;
  Result<int> Rebuild(const std::byte* body, std::span<const std::byte> m, std::size_t n,
                      int exponent, std::span<float> values, std::byte* image) const;
  Status Finish(const std::byte* body, std::span<const std::byte> m, std::size_t n, int exponent,
                std::span<float> values, std::byte* image) const;

  BucketCode code_;
  std::shared_ptr<const SampleCodec> first_visit_;
  std::string spec_;
};

Result<std::size_t> AqsgdCodec::EncodeFirst(std::span<const float> values, SampleShape shape,
                                            const RandomKey& key, std::span<std::byte> out,
                                            Buffer* next_m) const {
  SHOAL_ASSIGN_OR_RETURN(const std::size_t bytes,
                         first_visit_->Encode(values, shape, {}, key, out, nullptr));
  std::vector<float> decoded(values.size());
  SHOAL_RETURN_IF_ERROR(DecodeFirst(out.first(bytes), shape, key, decoded, next_m));
  return bytes;
}

Status AqsgdCodec::DecodeFirst(std::span<const std::byte> payload, SampleShape shape,
                               const RandomKey& key, std::span<float> values,
                               Buffer* next_m) const {
  if (Status s = first_visit_->Decode(payload, shape, {}, key, values, nullptr); !s.ok()) {
    return s.WithContext("first visit of codec " + spec_);
  }
  SHOAL_ASSIGN_OR_RETURN(*next_m, MakeMImage(values, shape, spec_));
  return Status::Ok();
}

// Adds one block of decoded deltas to m and stores it at `exponent` in `halves`; returns the
// largest magnitude bits. The one place that makes a next m, for both ends.
std::uint32_t AdvanceBlock(std::span<const std::byte> m, std::size_t first, std::size_t count,
                           int exponent, const float* delta, std::byte* halves) {
  return AddToHalf(delta, MImageValues(m) + 2 * first, PowerOfTwo(MImageExponent(m)),
                   PowerOfTwo(-exponent), count, halves + 2 * first);
}

// Writes the next image's values, stored at `exponent`, and, if `values` is not empty, what they
// stand for. Returns the exponent that they need: if it is another, the result is void and the
// call must be repeated with it.
Result<int> AqsgdCodec::Rebuild(const std::byte* body, std::span<const std::byte> m, std::size_t n,
                                int exponent, std::span<float> values, std::byte* image) const {
  const std::size_t block = code_.BlockValues(n);
  Scratch scratch(block);
  std::uint32_t most = 0;
  std::byte* halves = image + kMImageHeaderBytes;
  for (std::size_t first = 0; first < n; first += block) {
    const std::size_t count = std::min(block, n - first);
    float* delta = scratch.floats.data();
    code_.DecodeBlock(body, first, count, n, scratch.codes.data(), delta);
    most = std::max(most, AdvanceBlock(m, first, count, exponent, delta, halves));
    if (values.empty()) continue;
    FromHalf(halves + 2 * first, PowerOfTwo(exponent), count, values.data() + first);
  }
  return ExponentFor(most, spec_);
}

// Completes an image whose values were stored at exponent 0, which nearly always fits: otherwise
// they are made again.
Status AqsgdCodec::Finish(const std::byte* body, std::span<const std::byte> m, std::size_t n,
                          int exponent, std::span<float> values, std::byte* image) const {
  if (exponent != 0) {
    SHOAL_ASSIGN_OR_RETURN(const int again, Rebuild(body, m, n, exponent, values, image));
    SHOAL_CHECK(again == exponent);
  }
  WriteMImageHeader(exponent, n, image);
  return Status::Ok();
}

Result<std::size_t> AqsgdCodec::Encode(std::span<const float> values, SampleShape shape,
                                       std::span<const std::byte> m, const RandomKey& key,
                                       std::span<std::byte> out, Buffer* next_m) const {
  SHOAL_RETURN_IF_ERROR(Check(shape, values.size()));
  SHOAL_CHECK(next_m != nullptr);
  SHOAL_CHECK(out.size() >= EncodedBytesMax(shape));
  if (m.empty()) return EncodeFirst(values, shape, key, out, next_m);
  SHOAL_RETURN_IF_ERROR(CheckMImageValues(m, shape, spec_));
  const std::size_t n = values.size();
  const std::size_t block = code_.BlockValues(n);
  const float base = PowerOfTwo(MImageExponent(m));
  std::byte* body = out.data() + kPayloadHeaderBytes;
  Scratch scratch(block);
  float* delta = scratch.floats.data();
  Buffer image(MImageBytes(shape));
  std::byte* halves = image.data() + kMImageHeaderBytes;
  std::uint32_t most = 0;
  for (std::size_t first = 0; first < n; first += block) {
    const std::size_t count = std::min(block, n - first);
    const std::uint32_t largest =
        SubtractHalf(values.data() + first, MImageValues(m) + 2 * first, base, count, delta);
    SHOAL_RETURN_IF_ERROR(CheckMagnitude(largest, kMagnitudeMax, spec_));
    SHOAL_RETURN_IF_ERROR(
        code_.EncodeBlock(delta, first, count, n, kDeltaMax, spec_, scratch.codes.data(), body));
    code_.LevelsOfBlock(body, first, count, scratch.codes.data(), delta);
    most = std::max(most, AdvanceBlock(m, first, count, 0, delta, halves));
  }
  SHOAL_ASSIGN_OR_RETURN(const int exponent, ExponentFor(most, spec_));
  SHOAL_RETURN_IF_ERROR(Finish(body, m, n, exponent, {}, image.data()));
  *next_m = std::move(image);
  WritePayloadHeader(HeaderFor(shape), out.data());
  return DeltaBytes(shape);
}

Status AqsgdCodec::Decode(std::span<const std::byte> payload, SampleShape shape,
                          std::span<const std::byte> m, const RandomKey& key,
                          std::span<float> values, Buffer* next_m) const {
  SHOAL_RETURN_IF_ERROR(Check(shape, values.size()));
  SHOAL_CHECK(next_m != nullptr);
  if (m.empty()) return DecodeFirst(payload, shape, key, values, next_m);
  SHOAL_RETURN_IF_ERROR(CheckMImageValues(m, shape, spec_));
  const auto header = CheckPayload(payload, HeaderFor(shape), DeltaBytes(shape), spec_);
  if (!header.ok()) return header.status();
  const std::byte* body = payload.data() + kPayloadHeaderBytes;
  SHOAL_RETURN_IF_ERROR(code_.CheckBody(body, values.size(), spec_));
  const std::size_t n = values.size();
  Buffer image(MImageBytes(shape));
  SHOAL_ASSIGN_OR_RETURN(const int exponent, Rebuild(body, m, n, 0, values, image.data()));
  SHOAL_RETURN_IF_ERROR(Finish(body, m, n, exponent, values, image.data()));
  *next_m = std::move(image);
  return Status::Ok();
}

}  // namespace

std::shared_ptr<const SampleCodec> NewAqsgdCodec(BucketCode code,
                                                 std::shared_ptr<const SampleCodec> first_visit) {
  return std::make_shared<AqsgdCodec>(code, std::move(first_visit));
}

}  // namespace shoal::compression
