#include "compression/direct_codec.h"

#include <algorithm>
#include <vector>

#include "compression/sample_layout.h"

namespace shoal::compression {
namespace {

class DirectCodec : public SampleCodec {
 public:
  DirectCodec(BucketCode code, bool first_visit)
      : code_(code),
        first_visit_(first_visit),
        spec_("direct:bits=" + std::to_string(code.bits()) +
              ",bucket=" + std::to_string(code.bucket())) {}

  const std::string& spec() const override { return spec_; }
  bool keeps_m() const override { return false; }
  std::size_t EncodedBytesMax(SampleShape shape) const override {
    return kPayloadHeaderBytes + code_.Bytes(shape.values());
  }

  Result<std::size_t> Encode(std::span<const float> values, SampleShape shape,
                             std::span<const std::byte> m, const RandomKey& key,
                             std::span<std::byte> out, Buffer* next_m) const override;
  Status Decode(std::span<const std::byte> payload, SampleShape shape, std::span<const std::byte> m,
                const RandomKey& key, std::span<float> values, Buffer* next_m) const override;

 private:
  PayloadHeader HeaderFor(SampleShape shape) const {
    PayloadHeader header;
    header.codec = CodecId::kDirect;
    header.bits = static_cast<std::uint8_t>(code_.bits());
    header.type = ValueType::kBf16;
    header.first_visit = first_visit_;
    header.bucket = code_.bucket();
    header.values = shape.values();
    return header;
  }
  Status Check(SampleShape shape, std::size_t given) const {
    SHOAL_RETURN_IF_ERROR(CheckShape(shape, given, spec_));
    return CheckBucketFits(code_, shape, spec_);
  }

  BucketCode code_;
  bool first_visit_;
  std::string spec_;
};

Result<std::size_t> DirectCodec::Encode(std::span<const float> values, SampleShape shape,
                                        std::span<const std::byte> m, const RandomKey&,
                                        std::span<std::byte> out, Buffer*) const {
  SHOAL_RETURN_IF_ERROR(Check(shape, values.size()));
  SHOAL_CHECK(m.empty());
  SHOAL_CHECK(out.size() >= EncodedBytesMax(shape));
  const std::size_t n = values.size();
  const std::size_t block = code_.BlockValues(n);
  std::vector<std::uint8_t> codes(block + 7);
  for (std::size_t first = 0; first < n; first += block) {
    const std::size_t count = std::min(block, n - first);
    SHOAL_RETURN_IF_ERROR(code_.EncodeBlock(values.data() + first, first, count, n, kMagnitudeMax,
                                            spec_, codes.data(), out.data() + kPayloadHeaderBytes));
  }
  WritePayloadHeader(HeaderFor(shape), out.data());
  return EncodedBytesMax(shape);
}

Status DirectCodec::Decode(std::span<const std::byte> payload, SampleShape shape,
                           std::span<const std::byte> m, const RandomKey&, std::span<float> values,
                           Buffer*) const {
  SHOAL_RETURN_IF_ERROR(Check(shape, values.size()));
  SHOAL_CHECK(m.empty());
  const auto header = CheckPayload(payload, HeaderFor(shape), EncodedBytesMax(shape), spec_);
  if (!header.ok()) return header.status();
  const std::byte* body = payload.data() + kPayloadHeaderBytes;
  const std::size_t n = values.size();
  SHOAL_RETURN_IF_ERROR(code_.CheckBody(body, n, spec_));
  const std::size_t block = code_.BlockValues(n);
  std::vector<std::uint8_t> codes(block + 7);
  for (std::size_t first = 0; first < n; first += block) {
    code_.DecodeBlock(body, first, std::min(block, n - first), n, codes.data(),
                      values.data() + first);
  }
  return Status::Ok();
}

}  // namespace

std::shared_ptr<const SampleCodec> NewDirectCodec(BucketCode code, bool first_visit) {
  return std::make_shared<DirectCodec>(code, first_visit);
}

}  // namespace shoal::compression
