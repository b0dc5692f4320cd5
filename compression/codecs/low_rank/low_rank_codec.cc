#include "compression/codecs/low_rank/low_rank_codec.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "common/bytes.h"
#include "common/half.h"
#include "compression/api/codec_spec.h"
#include "compression/api/stateful_codec.h"
#include "compression/codecs/coding_sample.h"
#include "compression/codecs/low_rank/low_rank.h"
#include "compression/codecs/low_rank/low_rank_changes.h"
#include "compression/simd/kernels.h"

namespace shoal::compression {
namespace {

enum class Form : std::uint8_t { kElse = 0, kFactors = 1 };

constexpr std::size_t kHeaderBytes = 16;
// Gradients below 2^-100 are sent as zeros.
constexpr int kExponentLeast = -100;

// docs/WIRE.md, "lowrank".
struct Header {
  Form form = Form::kElse;
  std::uint8_t type = 0;
  std::uint16_t rank = 0;
  std::int8_t exponent = 0;
  std::uint64_t values = 0;
};

void WriteHeader(const Header& header, std::byte* out) {
  out[0] = static_cast<std::byte>(CodecId::kLowRank);
  out[1] = std::byte{kPayloadLayoutVersion};
  out[2] = static_cast<std::byte>(header.form);
  out[3] = std::byte{header.type};
  StoreLittle<std::uint16_t>(out + 4, header.rank);
  out[6] = static_cast<std::byte>(header.exponent);
  out[7] = std::byte{0};
  StoreLittle<std::uint64_t>(out + 8, header.values);
}

// P and Q as the receiver has them, and as bytes.
struct Factors {
  std::vector<float> p, q;
  int exponent = 0;
};

class LowRankCodec final : public MessageCodec, public StatefulCodec {
 public:
  explicit LowRankCodec(LowRankParts parts)
      : parts_(std::move(parts)),
        spec_("lowrank:rank=" + std::to_string(parts_.rank) +
              ",epilogue=" + (parts_.epilogue ? "true" : "false") + ",lazy=" + LazyName() +
              ",factors=" + (parts_.factors == ValueType::kFp16 ? "fp16" : "fp32") +
              ",else=" + Nested(parts_.otherwise->spec())) {}

  const std::string& spec() const override { return spec_; }
  bool keeps_m() const override { return false; }
  bool divisible() const override { return false; }
  const StatefulCodec* stateful() const override { return this; }
  std::size_t MImageBytes(SampleShape) const override { return 0; }
  Status CheckMImage(std::span<const std::byte>, SampleShape) const override {
    return InvalidArgument("codec " + spec_ + " keeps no m");
  }
  std::size_t EncodedBytesMax(SampleShape shape, std::size_t samples) const override {
    const MatrixShape matrix{samples * shape.tokens, shape.hidden};
    const std::size_t section = kHeaderBytes + parts_.otherwise->EncodedBytesMax(shape, samples);
    return WorthFactors(matrix, parts_.rank) ? std::max(section, FactorBytes(matrix)) : section;
  }

  Result<std::size_t> Encode(std::span<const SampleToEncode> samples, SampleShape shape,
                             const RandomKey& key, DeltaMode, std::span<std::byte> out,
                             std::span<Buffer>, CodingStats* stats) const override {
    std::vector<std::span<const float>> sources;
    for (const SampleToEncode& sample : samples) {
      SHOAL_CHECK(sample.m.empty());
      sources.push_back(sample.values);
    }
    SHOAL_RETURN_IF_ERROR(CheckSamples(shape, sources, false, spec_));
    return EncodeElse(sources, shape, key, out, stats);
  }

  Result<std::size_t> EncodeOnLink(const GradientMessage& message, const LowRankState& before,
                                   std::span<std::byte> out, LowRankState* next,
                                   CodingStats* stats) const override;
  bool LowRankAt(const LinkPosition& position, SampleShape shape,
                 std::size_t samples) const override {
    return (!parts_.epilogue || InEpilogue(position)) &&
           WorthFactors({samples * shape.tokens, shape.hidden}, parts_.rank);
  }
  bool SaysLowRank(std::span<const std::byte> payload) const override {
    return payload.size() >= kHeaderBytes && static_cast<Form>(payload[2]) == Form::kFactors;
  }
  bool PassesOn(const LazySwitch& lazy) const override {
    return parts_.lazy == Lazy::kOn || (parts_.lazy == Lazy::kAuto && lazy.on);
  }

  Status Decode(std::span<const std::byte> payload, std::span<const SampleToDecode> samples,
                SampleShape shape, const RandomKey& key, std::span<Buffer>) const override;

 private:
  std::string LazyName() const {
    switch (parts_.lazy) {
      case Lazy::kAuto: return "auto";
      case Lazy::kOn: return "on";
      case Lazy::kOff: return "off";
    }
    return "auto";
  }
  std::size_t ValueBytes() const { return parts_.factors == ValueType::kFp16 ? 2 : 4; }
  std::size_t FactorBytes(MatrixShape matrix) const {
    return kHeaderBytes +
           RankFor(matrix, parts_.rank) * (matrix.rows + matrix.columns) * ValueBytes();
  }
  Status Wrong(const std::string& what) const {
    return InvalidArgument("codec " + spec_ + ": " + what);
  }

  Result<std::size_t> EncodeElse(std::span<const std::span<const float>> samples, SampleShape shape,
                                 const RandomKey& key, std::span<std::byte> out,
                                 CodingStats* stats) const;
  std::size_t EncodeFactors(MatrixShape matrix, const RandomKey& key, std::uint32_t magnitude_bits,
                            std::span<std::byte> out, LowRankState* next, Factors* made) const;
  Factors Factorise(MatrixShape matrix, const RandomKey& key, int largest, std::byte* stored_p,
                    LowRankState* next) const;
  // Writes a factor and makes it what the receiver reads.
  void Store(std::span<float> factor, std::byte* to) const;
  Status Load(const std::byte* from, std::span<float> factor) const;
  Result<Header> ReadHeader(std::span<const std::byte> payload, MatrixShape matrix) const;
  Result<Factors> LoadFactors(std::span<const std::byte> body, const Header& header,
                              MatrixShape matrix) const;

  LowRankParts parts_;
  std::string spec_;
};

Result<std::size_t> LowRankCodec::EncodeElse(std::span<const std::span<const float>> samples,
                                             SampleShape shape, const RandomKey& key,
                                             std::span<std::byte> out, CodingStats* stats) const {
  SHOAL_CHECK(out.size() >= EncodedBytesMax(shape, samples.size()));
  const std::size_t n = shape.values();
  std::vector<float> values(stats == nullptr ? 0 : samples.size() * n);
  std::vector<std::span<float>> decoded;
  for (std::size_t i = 0; stats != nullptr && i < samples.size(); ++i) {
    decoded.push_back(std::span(values).subspan(i * n, n));
  }
  SHOAL_ASSIGN_OR_RETURN(
      const std::size_t bytes,
      parts_.otherwise->Encode(samples, shape, key, out.subspan(kHeaderBytes), decoded));
  Header header;
  header.values = samples.size() * n;
  WriteHeader(header, out.data());
  for (std::size_t i = 0; i < decoded.size(); ++i) {
    CountErrors(i, samples[i], decoded[i].data(), stats);
  }
  return kHeaderBytes + bytes;
}

// Whether the last message left something out that belongs to this one.
bool HasError(const LowRankState& before, MatrixShape matrix, bool lazy) {
  return lazy && !before.error.empty() && before.error_shape == matrix;
}

// The samples with what the last message left out (null: nothing) as one matrix.
void Gather(std::span<const std::span<const float>> samples, const float* error,
            std::vector<float>* sum) {
  std::size_t at = 0;
  for (const auto& sample : samples) at += sample.size();
  sum->resize(at);
  at = 0;
  for (const auto& sample : samples) {
    float* to = sum->data() + at;
    if (error == nullptr) {
      std::copy(sample.begin(), sample.end(), to);
    } else {
      for (std::size_t i = 0; i < sample.size(); ++i) to[i] = sample[i] + error[at + i];
    }
    at += sample.size();
  }
}

// Half of CodingStats: the squares of a matrix's samples.
double SquaresOf(std::span<const float> matrix, std::size_t sample_values) {
  CodingStats stats;
  for (std::size_t at = 0; at < matrix.size(); at += sample_values) {
    const auto sample = matrix.subspan(at, sample_values);
    CountErrors(at / sample_values, sample, sample.data(), &stats);
  }
  return stats.values;
}

Result<std::size_t> LowRankCodec::EncodeOnLink(const GradientMessage& message,
                                               const LowRankState& before, std::span<std::byte> out,
                                               LowRankState* next, CodingStats* stats) const {
  SHOAL_CHECK(next != &before);
  SHOAL_RETURN_IF_ERROR(CheckSamples(message.shape, message.samples, false, spec_));
  SHOAL_CHECK(out.size() >= EncodedBytesMax(message.shape, message.samples.size()));
  const std::size_t n = message.shape.values();
  const MatrixShape matrix{message.samples.size() * message.shape.tokens, message.shape.hidden};
  next->shape = before.shape;
  next->q = before.q;
  next->lazy = Observed(before.lazy, message.activations);
  const bool lazy = PassesOn(next->lazy);
  const bool add = HasError(before, matrix, lazy);
  const bool factors = LowRankAt(message.position, message.shape, message.samples.size());
  if (add || factors) Gather(message.samples, add ? before.error.data() : nullptr, &next->error);
  next->error_shape = matrix;
  if (!factors) {
    std::vector<std::span<const float>> sums(message.samples.begin(), message.samples.end());
    for (std::size_t i = 0; add && i < sums.size(); ++i) {
      sums[i] = std::span<const float>(next->error).subspan(i * n, n);
    }
    auto bytes = EncodeElse(sums, message.shape, message.key, out, stats);
    next->error.clear();
    return bytes;
  }
  const std::uint32_t most = AbsMaxBits(next->error.data(), next->error.size());
  SHOAL_RETURN_IF_ERROR(CheckMagnitude(most, kLowRankMagnitudeMax, spec_));
  if (stats != nullptr) stats->values += SquaresOf(next->error, n);
  Factors made;
  const std::size_t bytes = EncodeFactors(matrix, message.key, most, out, next, &made);
  if (lazy || stats != nullptr) {
    LowRankProduct(made.q, matrix.columns, RankFor(matrix, parts_.rank), made.exponent)
        .Subtract(made.p, next->error);
  }
  if (stats != nullptr) stats->errors += SquaresOf(next->error, n);
  if (!lazy) next->error.clear();
  return bytes;
}

// Of the matrix in next->error.
std::size_t LowRankCodec::EncodeFactors(MatrixShape matrix, const RandomKey& key,
                                        std::uint32_t magnitude_bits, std::span<std::byte> out,
                                        LowRankState* next, Factors* made) const {
  const std::size_t rank = RankFor(matrix, parts_.rank);
  const int largest = static_cast<int>(magnitude_bits >> 23) - 127;
  if (largest < kExponentLeast) {
    made->p.assign(matrix.rows * rank, 0.0F);
    made->q.assign(matrix.columns * rank, 0.0F);
    Store(made->p, out.data() + kHeaderBytes);
    made->exponent = 0;
  } else {
    *made = Factorise(matrix, key, largest, out.data() + kHeaderBytes, next);
  }
  Header header;
  header.form = Form::kFactors;
  header.type = static_cast<std::uint8_t>(parts_.factors);
  header.rank = static_cast<std::uint16_t>(rank);
  header.exponent = static_cast<std::int8_t>(made->exponent);
  header.values = matrix.values();
  WriteHeader(header, out.data());
  Store(made->q, out.data() + kHeaderBytes + made->p.size() * ValueBytes());
  return FactorBytes(matrix);
}

// One step of the power method from the last Q. Q is made for the P that the receiver will read, so
// that the rounding of P costs nothing but its column's direction. `largest`: the exponent of the
// matrix's largest magnitude, which is taken out of all products.
Factors LowRankCodec::Factorise(MatrixShape matrix, const RandomKey& key, int largest,
                                std::byte* stored_p, LowRankState* next) const {
  constexpr int kFactorTop = 15;  // magnitudes of a scaled factor are below 2^15
  const std::size_t rank = RankFor(matrix, parts_.rank);
  const bool warm =
      next->shape.columns == matrix.columns && next->q.size() == matrix.columns * rank;
  Factors made;
  made.q = warm ? std::move(next->q) : RandomFactor(key, matrix.columns, rank);
  OrthonormaliseColumns(made.q, matrix.columns, rank, &key);
  made.p.resize(matrix.rows * rank);
  ProjectRows(next->error, matrix, made.q, rank, PowerOfTwo(-largest), made.p);
  OrthonormaliseColumns(made.p, matrix.rows, rank, nullptr);
  const int of_p = ScaleFactor(made.p, kProductExponentMin);
  Store(made.p, stored_p);
  // q = M^T p 2^f, so M^T P = q 2^(of_p - f), and the product P (M^T P)^T has 2 of_p - f.
  const int f = -kFactorTop - largest;
  ProjectColumns(next->error, matrix, made.p, rank, PowerOfTwo(f), made.q);
  const int of_both = 2 * of_p - f;
  made.exponent = of_both + ScaleFactor(made.q, kProductExponentMin - of_both);
  next->shape = matrix;
  next->q = made.q;
  if (AbsMaxBits(made.q.data(), made.q.size()) == 0) made.exponent = 0;
  return made;
}

void LowRankCodec::Store(std::span<float> factor, std::byte* to) const {
  if (parts_.factors == ValueType::kFp32) {
    std::memcpy(to, factor.data(), factor.size_bytes());
    return;
  }
  ToHalf(factor.data(), 1, factor.size(), to);
  FromHalf(to, 1, factor.size(), factor.data());
}

Status LowRankCodec::Load(const std::byte* from, std::span<float> factor) const {
  bool good = true;
  if (parts_.factors == ValueType::kFp16) {
    good = AbsMaxBits16(from, factor.size()) < kHalfInfinity;
    if (good) FromHalf(from, 1, factor.size(), factor.data());
  } else {
    std::memcpy(factor.data(), from, factor.size_bytes());
    for (const float x : factor) {
      const float size = std::abs(x);
      good = good && (size == 0 || (size >= kFactorLeast && size <= kFactorMost));
    }
  }
  if (good) return Status::Ok();
  return Wrong(
      "payload holds a factor that is not finite or out of range; drop the message and ask "
      "for it again");
}

Result<Header> LowRankCodec::ReadHeader(std::span<const std::byte> payload,
                                        MatrixShape matrix) const {
  if (payload.size() < kHeaderBytes) {
    return Wrong("payload of " + std::to_string(payload.size()) +
                 " bytes is too short for a header; drop the message and ask for it again");
  }
  Header header;
  header.form = static_cast<Form>(payload[2]);
  header.exponent = LoadLittle<std::int8_t>(payload.data() + 6);
  header.values = matrix.values();
  if (header.form == Form::kFactors && WorthFactors(matrix, parts_.rank)) {
    header.type = static_cast<std::uint8_t>(parts_.factors);
    header.rank = static_cast<std::uint16_t>(RankFor(matrix, parts_.rank));
  } else {
    header.form = Form::kElse;
    header.exponent = 0;
  }
  std::byte expected[kHeaderBytes];
  WriteHeader(header, expected);
  if (!std::equal(expected, expected + kHeaderBytes, payload.begin()) ||
      header.exponent < kProductExponentMin || header.exponent > kProductExponentMax) {
    return Wrong("payload header is not that of a message of " + std::to_string(matrix.rows) +
                 " x " + std::to_string(matrix.columns) +
                 " values; both ends of a boundary must use the same codec and shape");
  }
  return header;
}

Result<Factors> LowRankCodec::LoadFactors(std::span<const std::byte> body, const Header& header,
                                          MatrixShape matrix) const {
  const std::size_t want = FactorBytes(matrix) - kHeaderBytes;
  if (body.size() != want) {
    return Wrong("factors of " + std::to_string(body.size()) + " bytes, expected " +
                 std::to_string(want) + "; drop the message and ask for it again");
  }
  Factors factors;
  factors.exponent = header.exponent;
  factors.p.resize(matrix.rows * header.rank);
  factors.q.resize(matrix.columns * header.rank);
  SHOAL_RETURN_IF_ERROR(Load(body.data(), factors.p));
  SHOAL_RETURN_IF_ERROR(Load(body.data() + factors.p.size() * ValueBytes(), factors.q));
  const auto largest = [](std::span<const float> factor) {
    return double{std::bit_cast<float>(AbsMaxBits(factor.data(), factor.size()))};
  };
  const double bound = largest(factors.p) * largest(factors.q) * header.rank;
  if (std::ldexp(bound, header.exponent) < 0x1p127) return factors;
  return Wrong(
      "payload holds factors whose product may not be finite; drop the message and ask for "
      "it again");
}

Status LowRankCodec::Decode(std::span<const std::byte> payload,
                            std::span<const SampleToDecode> samples, SampleShape shape,
                            const RandomKey& key, std::span<Buffer>) const {
  std::vector<std::span<float>> decoded;
  for (const SampleToDecode& sample : samples) {
    SHOAL_CHECK(!sample.delta);
    decoded.push_back(sample.values);
  }
  SHOAL_RETURN_IF_ERROR(CheckSamples(shape, decoded, true, spec_));
  const MatrixShape matrix{samples.size() * shape.tokens, shape.hidden};
  SHOAL_ASSIGN_OR_RETURN(const Header header, ReadHeader(payload, matrix));
  const auto body = payload.subspan(kHeaderBytes);
  if (header.form == Form::kElse) return parts_.otherwise->Decode(body, shape, key, decoded);
  SHOAL_ASSIGN_OR_RETURN(const Factors factors, LoadFactors(body, header, matrix));
  const LowRankProduct product(factors.q, matrix.columns, header.rank, factors.exponent);
  const std::size_t of_sample = std::size_t{shape.tokens} * header.rank;
  for (std::size_t i = 0; i < decoded.size(); ++i) {
    if (decoded[i].empty()) continue;
    product.Write(std::span(factors.p).subspan(i * of_sample, of_sample), decoded[i]);
  }
  return Status::Ok();
}

}  // namespace

MessagePointer NewLowRankCodec(LowRankParts parts) {
  return std::make_shared<LowRankCodec>(std::move(parts));
}

namespace {

constexpr char kElseDefault[] = "dithered:step=0.5";

Result<MessagePointer> Make(const CodecSpec& spec, std::uint32_t hidden, MakeNested nested) {
  LowRankParts parts;
  SHOAL_ASSIGN_OR_RETURN(parts.rank, NumberOption(spec, "rank", 1, kRankMax, parts.rank));
  SHOAL_ASSIGN_OR_RETURN(const std::size_t all, ChoiceOption(spec, "epilogue", {"true", "false"}));
  parts.epilogue = all == 0;
  SHOAL_ASSIGN_OR_RETURN(const std::size_t lazy, ChoiceOption(spec, "lazy", {"auto", "on", "off"}));
  parts.lazy = static_cast<Lazy>(lazy);
  SHOAL_ASSIGN_OR_RETURN(const std::size_t wide, ChoiceOption(spec, "factors", {"fp16", "fp32"}));
  parts.factors = wide == 0 ? ValueType::kFp16 : ValueType::kFp32;
  std::string_view otherwise = spec.Option("else");
  if (otherwise.empty()) otherwise = kElseDefault;
  SHOAL_ASSIGN_OR_RETURN(const NestedCodec made, nested(spec, "else", otherwise, hidden));
  parts.otherwise = made.codec;
  return NewLowRankCodec(std::move(parts));
}

constexpr std::string_view kKeys[] = {"rank", "epilogue", "lazy", "factors", "else"};
constexpr std::string_view kNestedKeys[] = {"else"};

}  // namespace

const CodecEntry& LowRankEntry() {
  static constexpr CodecEntry kEntry{
      .name = "lowrank",
      .usage = "lowrank:[rank=N][,epilogue=][,lazy=][,factors=][,else=SPEC]",
      .keys = kKeys,
      .nested_keys = kNestedKeys,
      .inside = LowRankChangesEntry,
      .make = Make,
      .no_feedback = [](const CodecSpec&) -> std::string_view {
        return "what lowrank leaves out is fed back by lazy=on; leave feedback out";
      },
  };
  return kEntry;
}

}  // namespace shoal::compression
