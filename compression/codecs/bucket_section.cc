#include "compression/codecs/bucket_section.h"

#include "compression/api/message_noise.h"

namespace shoal::compression {
namespace {

constexpr std::uint32_t kRoundingStream = 0;

}  // namespace

std::size_t BucketFormat::BytesMax(SampleShape shape, std::size_t samples) const {
  const std::size_t n = shape.values();
  const std::size_t codes = coder == EntropyCoder::kNone
                                ? samples * code.CodeBytes(n)
                                : SymbolBytesMax(coder, samples * n, code.bits());
  return kPayloadHeaderBytes + samples * code.ScaleBytes(n) + codes;
}

PayloadHeader BucketFormat::HeaderFor(SampleShape shape, std::size_t samples) const {
  PayloadHeader header;
  header.codec = id;
  header.bits = static_cast<std::uint8_t>(code.bits());
  header.type = ValueType::kBf16;
  header.variant = static_cast<std::uint8_t>(code.rule().levels());
  if (coder != EntropyCoder::kNone) header.variant |= kEntropyVariant;
  header.bucket = code.bucket();
  header.values = samples * shape.values();
  return header;
}

BucketWriter::BucketWriter(const BucketFormat& format, SampleShape shape, std::size_t samples,
                           const RandomKey& key, std::span<std::byte> out)
    : format_(format),
      shape_(shape),
      samples_(samples),
      key_(key),
      out_(out),
      codes_((format.coder == EntropyCoder::kNone ? format.code.BlockValues(shape.values())
                                                  : samples * shape.values()) +
             7) {
  SHOAL_CHECK(out.size() >= format.BytesMax(shape, samples));
  const std::size_t block = format.code.BlockValues(shape.values());
  if (format.code.rule().rounding() == Rounding::kStochastic) noise_.resize(block);
}

Status BucketWriter::Block(std::size_t sample, std::size_t first, std::size_t count, const float* x,
                           float most) {
  const BucketCode& code = format_.code;
  const std::size_t n = shape_.values();
  const bool packed = format_.coder == EntropyCoder::kNone;
  std::uint8_t* codes = AsCodes(codes_.bytes()).data() + (packed ? 0 : sample * n + first);
  std::byte* scales =
      out_.data() + kPayloadHeaderBytes + sample * code.ScaleBytes(n) + code.ScaleBytes(first);
  if (!noise_.empty()) {
    FillUniform(key_, kRoundingStream, sample * n + first, std::span(noise_).first(count));
  }
  SHOAL_RETURN_IF_ERROR(code.Quantise(x, count, most, noise_.empty() ? nullptr : noise_.data(),
                                      format_.spec, codes, scales));
  if (packed) {
    std::byte* all = out_.data() + kPayloadHeaderBytes + samples_ * code.ScaleBytes(n);
    code.Pack(codes, count, all + sample * code.CodeBytes(n) + code.CodeBytes(first));
  }
  block_codes_ = codes;
  block_scales_ = scales;
  block_count_ = count;
  return Status::Ok();
}

void BucketWriter::Levels(float* x) const {
  format_.code.Levels(block_codes_, block_scales_, block_count_, x);
}

std::size_t BucketWriter::Finish() {
  WritePayloadHeader(format_.HeaderFor(shape_, samples_), out_.data());
  const std::size_t n = shape_.values();
  if (format_.coder == EntropyCoder::kNone) return format_.BytesMax(shape_, samples_);
  const std::size_t head = kPayloadHeaderBytes + samples_ * format_.code.ScaleBytes(n);
  return head + WriteSymbols(format_.coder, AsCodes(codes_.bytes()).first(samples_ * n),
                             format_.code.bits(), out_.subspan(head));
}

Status BucketReader::Open(std::span<const std::byte> payload) {
  const BucketCode& code = format_.code;
  const PayloadHeader want = format_.HeaderFor(shape_, samples_);
  const std::size_t n = shape_.values();
  const std::size_t head = kPayloadHeaderBytes + samples_ * code.ScaleBytes(n);
  if (format_.coder == EntropyCoder::kNone) {
    const auto exponent =
        CheckPayload(payload, want, format_.BytesMax(shape_, samples_), format_.spec);
    if (!exponent.ok()) return exponent.status();
    packed_ = payload.data() + head;
    for (std::size_t i = 0; i < samples_; ++i) {
      SHOAL_RETURN_IF_ERROR(code.CheckPadding(packed_ + i * code.CodeBytes(n), n, format_.spec));
    }
    codes_ = Buffer(code.BlockValues(n) + 7);
  } else {
    const auto exponent = CheckHeader(payload, want, format_.spec);
    if (!exponent.ok()) return exponent.status();
    if (payload.size() < head) {
      return InvalidArgument("codec " + format_.spec + ": payload of " +
                             std::to_string(payload.size()) + " bytes, expected at least " +
                             std::to_string(head) + "; drop the message and ask for it again");
    }
    codes_ = Buffer(samples_ * n);
    SHOAL_RETURN_IF_ERROR(
        ReadSymbols(payload.subspan(head), code.bits(), AsCodes(codes_.bytes()), format_.spec));
  }
  scales_ = payload.data() + kPayloadHeaderBytes;
  return code.CheckScales(scales_, samples_ * n, format_.spec);
}

void BucketReader::Levels(std::size_t sample, std::size_t first, std::size_t count, float* x) {
  const BucketCode& code = format_.code;
  const std::size_t n = shape_.values();
  const std::byte* scales = scales_ + sample * code.ScaleBytes(n) + code.ScaleBytes(first);
  if (packed_ == nullptr) return code.Levels(codes().data() + sample * n + first, scales, count, x);
  std::uint8_t* const codes = AsCodes(codes_.bytes()).data();
  code.Unpack(packed_ + sample * code.CodeBytes(n) + code.CodeBytes(first), count, codes);
  code.Levels(codes, scales, count, x);
}

}  // namespace shoal::compression
