#include "compression/dithered_codec.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "common/bytes.h"
#include "compression/dither_kernels.h"
#include "compression/dither_steering.h"
#include "compression/dither_tables.h"
#include "compression/message_noise.h"
#include "compression/rans.h"
#include "compression/sample_layout.h"
#include "compression/symbol_stream.h"

namespace shoal::compression {
namespace {

// The section behind the header: step, bytes of the class stream, bytes of tables and escapes.
constexpr std::size_t kStepAt = kPayloadHeaderBytes;
constexpr std::size_t kClassBytesAt = kStepAt + 4;
constexpr std::size_t kSideBytesAt = kClassBytesAt + 4;
constexpr std::size_t kBodyAt = kSideBytesAt + 4;

constexpr std::uint32_t kStepBitsMin = 27U << 23;   // 2^-100
constexpr std::uint32_t kStepBitsMax = 246U << 23;  // 2^119
constexpr double kEnergyMax = 0x1p236;
constexpr std::int32_t kCodeMax = 1 << 22;
constexpr double kFoldedMax = 0x1p126;
constexpr std::size_t kChunk = 2048;
static_assert(kChunk % kDitherGroup == 0 && kChunk % kRansLanes == 0);

constexpr std::size_t kTableBytesMax = 512;

Status Wrong(const std::string& spec, const std::string& what) {
  return InvalidArgument("codec " + spec + ": " + what + "; drop the message and ask for it again");
}

// A message's tokens in the order in which they are coded: by class, then by place.
class TokenOrder {
 public:
  explicit TokenOrder(std::span<const std::uint8_t> classes) : tokens_(classes.size()) {
    for (const std::uint8_t c : classes) ++ends_[c + 1U];
    for (std::size_t c = 0; c < kEnergyClasses; ++c) ends_[c + 1] += ends_[c];
    auto next = ends_;
    for (std::size_t t = 0; t < classes.size(); ++t) tokens_[next[classes[t]]++] = t;
  }
  std::span<const std::size_t> OfClass(std::size_t c) const {
    return std::span(tokens_).subspan(ends_[c], ends_[c + 1] - ends_[c]);
  }

 private:
  std::vector<std::size_t> tokens_;
  std::array<std::size_t, kEnergyClasses + 1> ends_{};
};

// The dither of a chunk of a token.
class ChunkDither {
 public:
  ChunkDither(const RandomKey& key) : key_(MessageKeyWords(key)) {}
  const std::uint16_t* Draw(std::size_t token, std::size_t first, std::size_t count) {
    DitherWords(key_, token, static_cast<std::uint32_t>(first / kDitherGroup),
                (count + kDitherGroup - 1) / kDitherGroup, words_.data());
    return words_.data();
  }

 private:
  std::array<std::uint32_t, 2> key_;
  alignas(64) std::array<std::uint16_t, kChunk> words_;
};

// Codes outside a table, in the order in which they come up.
class EscapeWriter {
 public:
  void Put(std::int32_t code) {
    auto v = static_cast<std::uint32_t>(code < 0 ? -2 * code - 1 : 2 * code);
    for (; v >= 0x80; v >>= 7) bytes_.push_back(static_cast<std::byte>(v | 0x80));
    bytes_.push_back(static_cast<std::byte>(v));
  }
  const std::vector<std::byte>& bytes() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

class EscapeReader {
 public:
  explicit EscapeReader(std::span<const std::byte> bytes) : bytes_(bytes) {}
  // False if there is none left or it is out of range.
  bool Get(std::int32_t* code) {
    std::uint32_t v = 0;
    for (int shift = 0; shift < 28; shift += 7) {
      if (at_ == bytes_.size()) return false;
      const auto byte = std::to_integer<std::uint32_t>(bytes_[at_++]);
      v |= (byte & 0x7f) << shift;
      if (byte < 0x80) {
        const auto half = static_cast<std::int32_t>(v / 2);
        *code = v % 2 != 0 ? -half - 1 : half;
        return *code >= -kCodeMax && *code <= kCodeMax;
      }
    }
    return false;
  }
  bool empty() const { return at_ == bytes_.size(); }

 private:
  std::span<const std::byte> bytes_;
  std::size_t at_ = 0;
};

// One message on its way to bytes: its parts after the step and the classes are known.
class SectionWriter {
 public:
  SectionWriter(std::span<const std::span<const float>> samples, SampleShape shape, float step,
                const RandomKey& key)
      : samples_(samples), shape_(shape), step_(step), inverse_(1.0F / step), dither_(key) {}

  // Writes everything behind the step to `body`; returns the end.
  std::byte* Write(std::span<const std::uint8_t> classes, std::span<std::byte> body,
                   std::span<const std::span<float>> decoded);

 private:
  // Fills the cells of a class, counts them and keeps the codes that fit in no cell.
  void QuantiseClass(std::size_t c, std::span<const std::size_t> tokens,
                     std::span<const std::span<float>> decoded);
  void QuantiseChunk(std::size_t token, std::size_t first, std::size_t count, bool wide,
                     std::span<const std::span<float>> decoded);
  // Turns cells that the table has no place for into escapes and lists the escapes in order.
  void ListEscapes(std::span<const std::size_t> tokens, bool wide,
                   const std::array<std::uint32_t, 256>& counts,
                   const std::array<std::uint16_t, 256>& frequencies);
  std::uint8_t* CellsOf(std::size_t token) { return cells_.data() + token * shape_.hidden; }

  std::span<const std::span<const float>> samples_;
  SampleShape shape_;
  float step_;
  float inverse_;
  ChunkDither dither_;
  std::span<std::uint8_t> cells_;
  std::vector<std::int32_t> far_codes_;  // of the class at hand
  CellCounter counter_;                  // of the class at hand
  EscapeWriter escapes_;
};

void SectionWriter::QuantiseChunk(std::size_t token, std::size_t first, std::size_t count,
                                  bool wide, std::span<const std::span<float>> decoded) {
  const std::size_t sample = token / shape_.tokens;
  const std::size_t offset = token % shape_.tokens * shape_.hidden + first;
  const float* x = samples_[sample].data() + offset;
  const std::uint16_t* words = dither_.Draw(token, first, count);
  std::uint8_t* cells = CellsOf(token) + first;
  const bool escapes = QuantiseDithered(x, words, count, inverse_, wide, cells);
  counter_.Add({cells, count});
  const std::size_t first_far = far_codes_.size();
  const std::uint8_t mask = wide ? 0xff : kNarrowSymbolMask;
  if (escapes) {
    for (std::size_t i = 0; i < count; ++i) {
      if ((cells[i] & mask) == 0) far_codes_.push_back(DitheredCode(x[i], words[i], inverse_));
    }
  }
  if (decoded.empty()) return;
  float* values = decoded[sample].data() + offset;
  DequantiseDithered(cells, words, count, step_, wide, values);
  for (std::size_t i = 0, far = first_far; far < far_codes_.size(); ++i) {
    if ((cells[i] & mask) == 0) values[i] = DitheredValue(far_codes_[far++], words[i], step_);
  }
}

void SectionWriter::QuantiseClass(std::size_t c, std::span<const std::size_t> tokens,
                                  std::span<const std::span<float>> decoded) {
  counter_ = CellCounter();
  far_codes_.clear();
  for (const std::size_t token : tokens) {
    for (std::size_t first = 0; first < shape_.hidden; first += kChunk) {
      QuantiseChunk(token, first, std::min<std::size_t>(kChunk, shape_.hidden - first),
                    IsWideClass(c), decoded);
    }
  }
}

void SectionWriter::ListEscapes(std::span<const std::size_t> tokens, bool wide,
                                const std::array<std::uint32_t, 256>& counts,
                                const std::array<std::uint16_t, 256>& frequencies) {
  const std::uint8_t mask = wide ? 0xff : kNarrowSymbolMask;
  const int zero = (wide ? kWideMost : kNarrowMost) + 1;
  std::array<bool, 256> escapes{};
  bool any = false;
  for (std::size_t cell = 0; cell < 256; ++cell) {
    escapes[cell] = frequencies[cell] == 0 || (cell & mask) == 0;
    any = any || (escapes[cell] && counts[cell] != 0);
  }
  if (!any) return;
  std::size_t far = 0;
  for (const std::size_t token : tokens) {
    std::uint8_t* cells = CellsOf(token);
    for (std::size_t i = 0; i < shape_.hidden; ++i) {
      if (!escapes[cells[i]]) continue;
      const int symbol = cells[i] & mask;
      escapes_.Put(symbol == 0 ? far_codes_[far++] : symbol - zero);
      cells[i] = static_cast<std::uint8_t>(cells[i] & ~mask);
    }
  }
}

std::byte* SectionWriter::Write(std::span<const std::uint8_t> classes, std::span<std::byte> body,
                                std::span<const std::span<float>> decoded) {
  const std::size_t values = classes.size() * shape_.hidden;
  // Cells wait at the end of the caller's buffer for the words that take their place in front.
  cells_ = {reinterpret_cast<std::uint8_t*>(body.data() + body.size() - values), values};
  const TokenOrder order(classes);
  std::array<std::array<std::uint16_t, 256>, kEnergyClasses> frequencies;
  BitWriter tables;
  for (std::size_t c = 1; c < kEnergyClasses; ++c) {
    const auto tokens = order.OfClass(c);
    if (tokens.empty()) continue;
    QuantiseClass(c, tokens, decoded);
    const auto counts = counter_.Totals();
    const DensityTable density = FitDensity(counts, IsWideClass(c));
    WriteDensity(density, &tables);
    frequencies[c] = CellFrequencies(density, IsWideClass(c));
    ListEscapes(tokens, IsWideClass(c), counts, frequencies[c]);
  }

  std::byte* to = body.data();
  const std::size_t class_bytes = WriteSymbols(EntropyStage::kRans, classes, kEnergyClassBits,
                                               body.first(body.size() - values).subspan(8));
  const std::size_t side_bytes = tables.bytes().size() + escapes_.bytes().size();
  StoreLittle(to, static_cast<std::uint32_t>(class_bytes));
  StoreLittle(to + 4, static_cast<std::uint32_t>(side_bytes));
  to += 8 + class_bytes;
  to = std::copy(tables.bytes().begin(), tables.bytes().end(), to);
  to = std::copy(escapes_.bytes().begin(), escapes_.bytes().end(), to);

  RansLanes lanes(RansLanesFor(values));
  for (std::size_t c = kEnergyClasses; c-- > 1;) {
    const auto tokens = order.OfClass(c);
    if (tokens.empty()) continue;
    RansEncodeTable table;
    SetEncodeTable(frequencies[c], IsWideClass(c), &table);
    for (std::size_t i = tokens.size(); i-- > 0;) {
      to = RansEncode(table, CellsOf(tokens[i]), shape_.hidden, &lanes, to);
    }
  }
  lanes.Store(to);
  return to + lanes.bytes();
}

// A message on its way back, once its parts are told apart.
class SectionReader {
 public:
  SectionReader(std::span<const std::span<float>> samples, SampleShape shape, float step,
                const RandomKey& key, const std::string& spec)
      : samples_(samples), shape_(shape), step_(step), dither_(key), spec_(spec) {}

  Status Read(std::span<const std::uint8_t> classes, std::span<const std::byte> side,
              std::span<const std::byte> words);

 private:
  Status ReadTables(const TokenOrder& order, BitReader* reader);
  bool ReadToken(std::size_t token, bool wide, EscapeReader* escapes);
  bool ReadChunk(std::size_t token, std::size_t first, std::size_t count, bool wide, float* values,
                 EscapeReader* escapes);

  std::span<const std::span<float>> samples_;
  SampleShape shape_;
  float step_;
  ChunkDither dither_;
  const std::string& spec_;
  std::array<std::array<std::uint16_t, 256>, kEnergyClasses> frequencies_;
  std::vector<std::uint32_t> slots_;
  RansLanes lanes_{1};
  const std::byte* begin_ = nullptr;
  const std::byte* end_ = nullptr;
};

Status SectionReader::ReadTables(const TokenOrder& order, BitReader* reader) {
  for (std::size_t c = 1; c < kEnergyClasses; ++c) {
    if (order.OfClass(c).empty()) continue;
    DensityTable density;
    if (!ReadDensity(reader, IsWideClass(c), &density)) {
      return Wrong(spec_, "the table of class " + std::to_string(c) + " is broken");
    }
    frequencies_[c] = CellFrequencies(density, IsWideClass(c));
  }
  return reader->RestIsZero() ? Status::Ok() : Wrong(spec_, "bits behind the tables are not 0");
}

bool SectionReader::ReadChunk(std::size_t token, std::size_t first, std::size_t count, bool wide,
                              float* values, EscapeReader* escapes) {
  const std::uint16_t* words = dither_.Draw(token, first, count);
  std::array<std::uint8_t, kChunk> symbols;
  end_ = RansDecode(slots_.data(), wide ? nullptr : words, count, &lanes_, begin_, end_,
                    symbols.data());
  if (end_ == nullptr) return false;
  if (values != nullptr) {
    DequantiseDithered(symbols.data(), words, count, step_, wide, values + first);
  }
  const std::uint8_t* at = symbols.data();
  const std::uint8_t* const last = at + count;
  while ((at = static_cast<const std::uint8_t*>(
              std::memchr(at, 0, static_cast<std::size_t>(last - at)))) != nullptr) {
    const auto i = static_cast<std::size_t>(at++ - symbols.data());
    std::int32_t code = 0;
    if (!escapes->Get(&code) || std::abs(code) * double{step_} > kFoldedMax) return false;
    if (values != nullptr) values[first + i] = DitheredValue(code, words[i], step_);
    if (at == last) break;
  }
  return true;
}

bool SectionReader::ReadToken(std::size_t token, bool wide, EscapeReader* escapes) {
  const auto sample = samples_[token / shape_.tokens];
  float* values = sample.empty() ? nullptr : sample.data() + token % shape_.tokens * shape_.hidden;
  for (std::size_t first = 0; first < shape_.hidden; first += kChunk) {
    const std::size_t count = std::min<std::size_t>(kChunk, shape_.hidden - first);
    if (!ReadChunk(token, first, count, wide, values, escapes)) return false;
  }
  return true;
}

Status SectionReader::Read(std::span<const std::uint8_t> classes, std::span<const std::byte> side,
                           std::span<const std::byte> words) {
  const TokenOrder order(classes);
  BitReader tables(side);
  SHOAL_RETURN_IF_ERROR(ReadTables(order, &tables));
  EscapeReader escapes(side.subspan(tables.bytes_used()));
  lanes_ = RansLanes(RansLanesFor(classes.size() * shape_.hidden));
  if (words.size() < lanes_.bytes() || !lanes_.Load(words.data() + words.size() - lanes_.bytes())) {
    return Wrong(spec_, "the rANS states are broken");
  }
  begin_ = words.data();
  end_ = begin_ + (words.size() - lanes_.bytes());
  slots_.resize(kNarrowTables * kRansTotal);
  for (const std::size_t token : order.OfClass(0)) {
    const auto sample = samples_[token / shape_.tokens];
    if (sample.empty()) continue;
    std::fill_n(sample.data() + token % shape_.tokens * shape_.hidden, shape_.hidden, 0.0F);
  }
  for (std::size_t c = 1; c < kEnergyClasses; ++c) {
    const auto tokens = order.OfClass(c);
    if (tokens.empty()) continue;
    FillClassSlots(frequencies_[c], IsWideClass(c), slots_.data());
    for (const std::size_t token : tokens) {
      if (ReadToken(token, IsWideClass(c), &escapes)) continue;
      return Wrong(spec_, "the rANS words or the escapes do not give the codes of token " +
                              std::to_string(token));
    }
  }
  if (end_ == begin_ && lanes_.AtStart() && escapes.empty()) return Status::Ok();
  return Wrong(spec_, "rANS words or escapes are left over");
}

std::string NumberText(double value) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof(text), value).ptr;
  return {text, end};
}

std::string SpecOf(DitherGoal goal, double value) {
  switch (goal) {
    case DitherGoal::kStep: return "dithered:step=" + NumberText(value);
    case DitherGoal::kRate: return "dithered:rate=" + NumberText(value);
    case DitherGoal::kError: return "dithered:error=" + NumberText(value);
  }
  return "dithered";
}

class DitheredCodec : public PlainCodec {
 public:
  DitheredCodec(DitherGoal goal, double value)
      : goal_(goal), value_(value), spec_(SpecOf(goal, value)) {}

  const std::string& spec() const override { return spec_; }
  std::size_t EncodedBytesMax(SampleShape shape, std::size_t samples) const override {
    const std::size_t tokens = samples * shape.tokens;
    const std::size_t tables = std::min(tokens, kEnergyClasses) * kTableBytesMax;
    // Cells wait beside the words; steps are too large for more than one value in 16 to escape.
    return kBodyAt + SymbolBytesMax(EntropyStage::kRans, tokens, kEnergyClassBits) + tables +
           3 * samples * shape.values() + 4 * kRansLanes + kRansSlack;
  }

  Result<std::size_t> Encode(std::span<const std::span<const float>> samples, SampleShape shape,
                             const RandomKey& key, std::span<std::byte> out,
                             std::span<const std::span<float>> decoded) const override;
  Status Decode(std::span<const std::byte> payload, SampleShape shape, const RandomKey& key,
                std::span<const std::span<float>> samples) const override;

 private:
  PayloadHeader HeaderFor(SampleShape shape, std::size_t samples) const {
    PayloadHeader header;
    header.codec = CodecId::kDithered;
    header.type = ValueType::kFp32;
    header.values = samples * shape.values();
    return header;
  }
  // The energies of the tokens in order, or why the message cannot be sent.
  Result<std::vector<double>> Energies(std::span<const std::span<const float>> samples,
                                       SampleShape shape) const;
  // 0: everything is too small to be told from zero.
  Result<float> StepFor(std::span<const double> energies,
                        std::span<const std::span<const float>> samples, SampleShape shape,
                        const RandomKey& key) const;
  double WantedStep(std::span<const double> energies, double rms,
                    std::span<const std::span<const float>> samples, SampleShape shape,
                    const RandomKey& key) const;

  DitherGoal goal_;
  double value_;
  std::string spec_;
};

Result<std::vector<double>> DitheredCodec::Energies(std::span<const std::span<const float>> samples,
                                                    SampleShape shape) const {
  std::vector<double> energies;
  energies.reserve(samples.size() * shape.tokens);
  for (const auto& sample : samples) {
    for (std::size_t t = 0; t < shape.tokens; ++t) {
      energies.push_back(SumOfSquares(sample.data() + t * shape.hidden, shape.hidden));
      if (energies.back() <= kEnergyMax) continue;
      return InvalidArgument("codec " + spec_ + ": token " + std::to_string(t) +
                             (std::isfinite(energies.back()) ? " is larger than 2^118"
                                                             : " has a value that is not finite") +
                             "; nothing is sent, lower the learning rate or look for the layer "
                             "that overflows");
    }
  }
  return energies;
}

double DitheredCodec::WantedStep(std::span<const double> energies, double rms,
                                 std::span<const std::span<const float>> samples, SampleShape shape,
                                 const RandomKey& key) const {
  switch (goal_) {
    case DitherGoal::kStep: return value_ * rms;
    case DitherGoal::kRate:
      return StepForRate(value_, energies, samples, shape, MessageKeyWords(key), kDitherStepMin,
                         kDitherStepMax);
    case DitherGoal::kError: break;
  }
  // The error of every value is step / sqrt(12), tokens of zeros aside, which are exact.
  const auto silent = std::count(energies.begin(), energies.end(), 0.0);
  const double noisy = 1 - static_cast<double>(silent) / static_cast<double>(energies.size());
  return rms * std::clamp(value_ * std::sqrt(12 / noisy), kDitherStepMin, kDitherStepMax);
}

Result<float> DitheredCodec::StepFor(std::span<const double> energies,
                                     std::span<const std::span<const float>> samples,
                                     SampleShape shape, const RandomKey& key) const {
  double total = 0;
  for (const double energy : energies) total += energy;
  const auto values = static_cast<double>(energies.size()) * shape.hidden;
  const double rms = std::sqrt(total / values);
  // Down here even the largest step counts as zero.
  if (rms * kDitherStepMax < 0x1p-100) return 0.0F;
  // No code beyond 2^22 - 1: then it is exact in fp32, and so is the arithmetic on it.
  const double most = std::sqrt(*std::max_element(energies.begin(), energies.end()));
  const double wanted = WantedStep(energies, rms, samples, shape, key);
  const auto step = static_cast<float>(std::max(wanted, most / (kCodeMax - 2)));
  if (std::bit_cast<std::uint32_t>(step) < kStepBitsMin) return 0.0F;
  if (std::bit_cast<std::uint32_t>(step) <= kStepBitsMax) return step;
  return InvalidArgument("codec " + spec_ + ": the step would exceed 2^119; nothing is sent, " +
                         "lower the learning rate or look for the layer that overflows");
}

Result<std::size_t> DitheredCodec::Encode(std::span<const std::span<const float>> samples,
                                          SampleShape shape, const RandomKey& key,
                                          std::span<std::byte> out,
                                          std::span<const std::span<float>> decoded) const {
  SHOAL_RETURN_IF_ERROR(CheckSamples(shape, samples, false, spec_));
  SHOAL_CHECK(decoded.empty() || decoded.size() == samples.size());
  SHOAL_CHECK(out.size() >= EncodedBytesMax(shape, samples.size()));
  SHOAL_ASSIGN_OR_RETURN(const std::vector<double> energies, Energies(samples, shape));
  SHOAL_ASSIGN_OR_RETURN(const float step, StepFor(energies, samples, shape, key));
  WritePayloadHeader(HeaderFor(shape, samples.size()), out.data());
  StoreLittle(out.data() + kStepAt, std::bit_cast<std::uint32_t>(step));
  std::vector<std::uint8_t> classes(energies.size());
  if (step != 0) {
    for (std::size_t t = 0; t < classes.size(); ++t) {
      classes[t] = EnergyClassOf(energies[t], shape.hidden, step);
    }
    MergeSmallClasses(shape.hidden, classes);
  }
  if (!decoded.empty()) {
    for (std::size_t t = 0; t < classes.size(); ++t) {
      if (classes[t] != 0) continue;
      std::fill_n(decoded[t / shape.tokens].data() + t % shape.tokens * shape.hidden, shape.hidden,
                  0.0F);
    }
  }
  if (step == 0) return kClassBytesAt;
  SectionWriter writer(samples, shape, step, key);
  const std::byte* end = writer.Write(classes, out.subspan(kClassBytesAt), decoded);
  return static_cast<std::size_t>(end - out.data());
}

Status DitheredCodec::Decode(std::span<const std::byte> payload, SampleShape shape,
                             const RandomKey& key,
                             std::span<const std::span<float>> samples) const {
  SHOAL_RETURN_IF_ERROR(CheckSamples(shape, samples, true, spec_));
  const auto header = CheckHeader(payload, HeaderFor(shape, samples.size()), spec_);
  if (!header.ok()) return header.status();
  if (payload.size() < kClassBytesAt) return Wrong(spec_, "the step is cut off");
  const auto step_bits = LoadLittle<std::uint32_t>(payload.data() + kStepAt);
  if (step_bits == 0) {
    if (payload.size() != kClassBytesAt) return Wrong(spec_, "bytes behind a step of 0");
    for (const auto& sample : samples) std::fill(sample.begin(), sample.end(), 0.0F);
    return Status::Ok();
  }
  if (step_bits < kStepBitsMin || step_bits > kStepBitsMax) {
    return Wrong(spec_, "the step has the bits " + std::to_string(step_bits) +
                            ", allowed is 0 or " + std::to_string(kStepBitsMin) + " to " +
                            std::to_string(kStepBitsMax));
  }
  if (payload.size() < kBodyAt) return Wrong(spec_, "the sizes are cut off");
  const auto body = payload.subspan(kBodyAt);
  const std::size_t class_bytes = LoadLittle<std::uint32_t>(payload.data() + kClassBytesAt);
  const std::size_t side_bytes = LoadLittle<std::uint32_t>(payload.data() + kSideBytesAt);
  if (class_bytes > body.size() || side_bytes > body.size() - class_bytes) {
    return Wrong(spec_, "the parts are larger than the message");
  }
  std::vector<std::uint8_t> classes(samples.size() * shape.tokens);
  SHOAL_RETURN_IF_ERROR(ReadSymbols(body.first(class_bytes), kEnergyClassBits, classes, spec_));
  if (*std::max_element(classes.begin(), classes.end()) >= kEnergyClasses) {
    return Wrong(spec_, "a token has an unknown class");
  }
  SectionReader reader(samples, shape, std::bit_cast<float>(step_bits), key, spec_);
  return reader.Read(classes, body.subspan(class_bytes, side_bytes),
                     body.subspan(class_bytes + side_bytes));
}

}  // namespace

std::shared_ptr<const PlainCodec> NewDitheredCodec(DitherGoal goal, double value) {
  return std::make_shared<DitheredCodec>(goal, value);
}

Result<std::shared_ptr<const PlainCodec>> MakeDitheredCodec(std::string_view key,
                                                            std::string_view text) {
  struct Option {
    std::string_view key;
    DitherGoal goal;
    double least, most;
  };
  static constexpr Option kOptions[] = {
      {"step", DitherGoal::kStep, kDitherStepMin, kDitherStepMax},
      {"rate", DitherGoal::kRate, kDitherRateMin, kDitherRateMax},
      {"error", DitherGoal::kError, kDitherErrorMin, kDitherErrorMax}};
  for (const Option& option : kOptions) {
    if (option.key != key) continue;
    double value = 0;
    const bool decimal = text.size() <= 16 && !text.empty() &&
                         text.find_first_not_of("0123456789.") == std::string_view::npos;
    const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
    if (!decimal || parsed.ec != std::errc() || parsed.ptr != text.data() + text.size() ||
        value < option.least || value > option.most) {
      return InvalidArgument(std::string(key) + "=" + std::string(text.substr(0, 32)) +
                             " is not a number from " + NumberText(option.least) + " to " +
                             NumberText(option.most));
    }
    return NewDitheredCodec(option.goal, value);
  }
  return InvalidArgument("unknown option '" + std::string(key.substr(0, 32)) +
                         "'; dithered knows step, rate, error");
}

}  // namespace shoal::compression
