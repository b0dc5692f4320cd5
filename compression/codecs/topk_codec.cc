#include "compression/codecs/topk_codec.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <vector>

#include "common/bytes.h"
#include "common/half.h"
#include "compression/api/sample_layout.h"
#include "compression/codecs/bucket_code.h"
#include "compression/codecs/codec_entry.h"
#include "compression/codecs/codec_options.h"
#include "compression/entropy/positions.h"
#include "compression/simd/kernels.h"

namespace shoal::compression {
namespace {

constexpr std::size_t kHeaderBytes = kPayloadHeaderBytes + 8;
// Positions have 32 bits.
constexpr std::uint64_t kSampleValuesMax = std::uint64_t{1} << 31;

std::string Decimal(double value) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof(text), value, std::chars_format::fixed).ptr;
  return {text, end};
}

std::uint32_t MagnitudeBits(float x) { return std::bit_cast<std::uint32_t>(x) & kAbsMask; }

LevelRule Rule(int bits) {
  return {bits, Levels::kMidRise, ScaleRule::kAbsMax, Rounding::kNearest};
}

PayloadHeader HeaderFor(int bits, std::uint32_t bucket, EntropyCoder coder, std::size_t values) {
  PayloadHeader header;
  header.codec = CodecId::kTopK;
  header.bits = static_cast<std::uint8_t>(bits);
  header.type = ValueType::kBf16;
  header.variant = coder == EntropyCoder::kNone ? 0 : kEntropyVariant;
  header.bucket = bucket;
  header.values = values;
  return header;
}

// Calls `visit` with a code for whole buckets, the place of their first value and their number of
// values; a last bucket that is shorter comes on its own.
template <typename Visit>
void ForBuckets(int bits, std::uint32_t bucket, std::size_t kept, Visit visit) {
  const std::size_t whole = kept / bucket * bucket;
  if (whole > 0) visit(BucketCode(Rule(bits), bucket), std::size_t{0}, whole);
  if (whole == kept) return;
  visit(BucketCode(Rule(bits), static_cast<std::uint32_t>(kept - whole)), whole, kept - whole);
}

// The digit in which value number `rank` from the largest lies, with `*rank` counted inside it.
std::uint32_t DigitOfRank(std::span<const std::uint32_t> counts, std::size_t* rank) {
  auto digit = static_cast<std::uint32_t>(counts.size() - 1);
  for (; counts[digit] < *rank; --digit) *rank -= counts[digit];
  return digit;
}

// The magnitude bits of the value that is number `rank` from the largest (1: the largest), and how
// many of its equals are among the first `rank`. Finds 11, then 10, then 10 bits of it.
std::uint32_t MagnitudeOfRank(std::span<const float> x, std::size_t rank, std::size_t* equals) {
  constexpr int kLow = 20;
  constexpr std::size_t kDigits = 1U << 11;
  // Neighbours are often alike: four counters for each digit need not wait for one another.
  std::vector<std::uint32_t> counts(4 * kDigits);
  for (std::size_t i = 0; i < x.size(); ++i) {
    ++counts[i % 4 * kDigits + (MagnitudeBits(x[i]) >> kLow)];
  }
  for (std::size_t d = 0; d < kDigits; ++d) {
    counts[d] += counts[kDigits + d] + counts[2 * kDigits + d] + counts[3 * kDigits + d];
  }
  const std::uint32_t top = DigitOfRank(std::span(counts).first(kDigits), &rank);
  std::vector<std::uint32_t> left(counts[top] + 1);
  std::size_t found = 0;
  for (const float v : x) {
    const std::uint32_t bits = MagnitudeBits(v);
    left[found] = bits;
    found += bits >> kLow == top ? 1 : 0;
  }
  left.pop_back();
  std::uint32_t prefix = top;
  for (const int shift : {kLow / 2, 0}) {
    std::array<std::uint32_t, 1U << (kLow / 2)> digits{};
    for (const std::uint32_t bits : left) {
      digits[(bits >> shift) % digits.size()] += bits >> (shift + kLow / 2) == prefix ? 1 : 0;
    }
    prefix = prefix << (kLow / 2) | DigitOfRank(digits, &rank);
  }
  *equals = rank;
  return prefix;
}

}  // namespace

std::size_t KeptOf(double ratio, std::size_t n) {
  const auto kept = static_cast<std::size_t>(std::llround(ratio * static_cast<double>(n)));
  return std::clamp<std::size_t>(kept, 1, n);
}

void SelectLargest(std::span<const float> x, std::span<std::uint32_t> positions) {
  std::size_t equals = 0;
  const std::uint32_t least = MagnitudeOfRank(x, positions.size(), &equals);
  std::size_t found = 0;
  for (std::size_t i = 0; found < positions.size(); ++i) {
    const std::uint32_t bits = MagnitudeBits(x[i]);
    positions[found] = static_cast<std::uint32_t>(i);
    const std::size_t equal = bits == least && equals > 0 ? 1 : 0;
    equals -= equal;
    found += (bits > least ? 1 : 0) + equal;
  }
}

TopKCodec::TopKCodec(double ratio, int bits, std::uint32_t bucket, EntropyCoder coder)
    : ratio_(ratio),
      bits_(bits),
      bucket_(bucket),
      coder_(coder),
      spec_("topk" + std::string(EntropySuffix(coder)) + ":ratio=" + Decimal(ratio) +
            ",bits=" + std::to_string(bits) + ",bucket=" + std::to_string(bucket)) {}

Status TopKCodec::CheckShape(SampleShape shape) const {
  if (shape.values() <= kSampleValuesMax) return Status::Ok();
  return InvalidArgument("codec " + spec_ + ": samples of " + std::to_string(shape.values()) +
                         " values, at most 2^31 have positions; use direct");
}

std::size_t TopKCodec::EncodedBytesMax(SampleShape shape, std::size_t samples) const {
  const std::size_t kept = Kept(shape);
  return kHeaderBytes + samples * (PositionBytesMax(shape.values()) + ScaleBytes(kept)) +
         SymbolBytesMax(coder_, samples * kept, bits_);
}

std::size_t TopKCodec::WriteHead(SampleShape shape, std::size_t samples, std::byte* out) const {
  WritePayloadHeader(HeaderFor(bits_, bucket_, coder_, samples * shape.values()), out);
  StoreLittle<std::uint64_t>(out + kPayloadHeaderBytes, Kept(shape));
  return kHeaderBytes;
}

Result<std::size_t> TopKCodec::Encode(std::span<const std::span<const float>> samples,
                                      SampleShape shape, const RandomKey&, std::span<std::byte> out,
                                      std::span<const std::span<float>> decoded) const {
  SHOAL_RETURN_IF_ERROR(CheckSamples(shape, samples, false, spec_));
  SHOAL_RETURN_IF_ERROR(CheckShape(shape));
  SHOAL_CHECK(out.size() >= EncodedBytesMax(shape, samples.size()));
  SHOAL_CHECK(decoded.empty() || decoded.size() == samples.size());
  const std::size_t n = shape.values();
  const std::size_t kept = Kept(shape);
  std::size_t at = WriteHead(shape, samples.size(), out.data());
  std::vector<std::uint32_t> positions(kept);
  std::vector<float> values(kept);
  std::vector<std::uint8_t> codes(samples.size() * kept);
  std::vector<std::byte> scales(samples.size() * ScaleBytes(kept));
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const std::span<const float> x = samples[i];
    SHOAL_RETURN_IF_ERROR(CheckMagnitude(AbsMaxBits(x.data(), n), kMagnitudeMax, spec_));
    SelectLargest(x, positions);
    at += WritePositions(positions, n, out.data() + at);
    for (std::size_t j = 0; j < kept; ++j) values[j] = x[positions[j]];
    std::uint8_t* to = codes.data() + i * kept;
    std::byte* scale = scales.data() + i * ScaleBytes(kept);
    Status status;
    ForBuckets(bits_, bucket_, kept,
               [&](const BucketCode& code, std::size_t first, std::size_t count) {
                 if (!status.ok()) return;
                 status = code.Quantise(values.data() + first, count, kMagnitudeMax, nullptr, spec_,
                                        to + first, scale + first / bucket_ * 2);
               });
    SHOAL_RETURN_IF_ERROR(status);
    if (decoded.empty()) continue;
    Levels(to, scale, values);
    std::fill(decoded[i].begin(), decoded[i].end(), 0.0F);
    for (std::size_t j = 0; j < kept; ++j) decoded[i][positions[j]] = values[j];
  }
  std::copy(scales.begin(), scales.end(), out.begin() + static_cast<std::ptrdiff_t>(at));
  at += scales.size();
  return at + WriteSymbols(coder_, codes, bits_, out.subspan(at));
}

void TopKCodec::Levels(const std::uint8_t* codes, const std::byte* scales,
                       std::span<float> kept) const {
  ForBuckets(bits_, bucket_, kept.size(),
             [&](const BucketCode& code, std::size_t first, std::size_t count) {
               code.Levels(codes + first, scales + first / bucket_ * 2, count, kept.data() + first);
             });
}

Status TopKCodec::ReadParts(std::span<const std::byte> payload, SampleShape shape,
                            std::size_t samples, TopKParts* parts) const {
  const std::size_t n = shape.values();
  const std::size_t kept = Kept(shape);
  const auto wrong = [&](const std::string& what) {
    return InvalidArgument("codec " + spec_ + ": " + what +
                           "; drop the message and ask for it again");
  };
  const auto exponent = CheckHeader(payload, HeaderFor(bits_, bucket_, coder_, samples * n), spec_);
  if (!exponent.ok()) return exponent.status();
  if (payload.size() < kHeaderBytes) return wrong("payload ends in its header");
  const auto said = LoadLittle<std::uint64_t>(payload.data() + kPayloadHeaderBytes);
  if (said != kept) {
    return wrong("payload keeps " + std::to_string(said) + " values of a sample, expected " +
                 std::to_string(kept));
  }
  std::span<const std::byte> rest = payload.subspan(kHeaderBytes);
  parts->positions.resize(samples * kept);
  for (std::size_t i = 0; i < samples; ++i) {
    const auto positions = std::span(parts->positions).subspan(i * kept, kept);
    SHOAL_ASSIGN_OR_RETURN(const std::size_t bytes, ReadPositions(rest, n, positions, spec_));
    rest = rest.subspan(bytes);
  }
  const std::size_t scale_bytes = samples * ScaleBytes(kept);
  if (rest.size() < scale_bytes) {
    return wrong(std::to_string(rest.size()) + " bytes left for " + std::to_string(scale_bytes) +
                 " of scales");
  }
  parts->scales = rest.data();
  SHOAL_RETURN_IF_ERROR(
      BucketCode(Rule(bits_), 1).CheckScales(rest.data(), scale_bytes / 2, spec_));
  parts->codes.resize(samples * kept);
  return ReadSymbols(rest.subspan(scale_bytes), bits_, parts->codes, spec_);
}

Status TopKCodec::Decode(std::span<const std::byte> payload, SampleShape shape, const RandomKey&,
                         std::span<const std::span<float>> samples) const {
  SHOAL_RETURN_IF_ERROR(CheckSamples(shape, samples, true, spec_));
  SHOAL_RETURN_IF_ERROR(CheckShape(shape));
  TopKParts parts;
  SHOAL_RETURN_IF_ERROR(ReadParts(payload, shape, samples.size(), &parts));
  const std::size_t kept = Kept(shape);
  std::vector<float> values(kept);
  for (std::size_t i = 0; i < samples.size(); ++i) {
    if (samples[i].empty()) continue;
    Levels(parts.codes.data() + i * kept, parts.scales + i * ScaleBytes(kept), values);
    std::fill(samples[i].begin(), samples[i].end(), 0.0F);
    for (std::size_t j = 0; j < kept; ++j) {
      samples[i][parts.positions[i * kept + j]] = values[j];
    }
  }
  return Status::Ok();
}

namespace {

Result<PlainPointer> Make(const CodecSpec& spec, std::uint32_t /*hidden*/) {
  SHOAL_ASSIGN_OR_RETURN(const double ratio, FractionOption(spec, "ratio", 1e-4, 1, std::nullopt));
  SHOAL_ASSIGN_OR_RETURN(const int bits, BitsOption(spec));
  SHOAL_ASSIGN_OR_RETURN(const std::uint32_t bucket,
                         NumberOption(spec, "bucket", 1, kHiddenMax, kKeptBucketDefault));
  SHOAL_ASSIGN_OR_RETURN(const EntropyCoder coder, EntropyOption(spec));
  return PlainPointer(std::make_shared<const TopKCodec>(ratio, bits, bucket, coder));
}

void AdviseBackward(const CodecChoice& choice, const CodecSpec& spec, Advice* advice) {
  if (spec.Option("feedback") == "on") return;
  const bool once = choice.epochs > 0 && choice.epochs <= 1;
  AddAdvice("backward", spec,
            std::string("what topk leaves out of gradients is lost, which biases every step; ") +
                (once ? "" : "add feedback=on over many epochs, or ") + "take dithered:step=0.5",
            advice);
}

constexpr std::string_view kKeys[] = {"ratio", "bits", "bucket", "feedback"};

}  // namespace

const CodecEntry& TopKEntry() {
  static constexpr CodecEntry kEntry{
      .name = "topk",
      .usage = "topk:ratio=0.0001..1,bits=1..8[,bucket=N]",
      .keys = kKeys,
      .entropy_coder = true,
      .device_form = true,
      .make_plain = Make,
      .advise_backward = AdviseBackward,
  };
  return kEntry;
}

}  // namespace shoal::compression
