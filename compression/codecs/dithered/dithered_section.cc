#include "compression/codecs/dithered/dithered_section.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

#include "common/bytes.h"
#include "compression/api/message_noise.h"
#include "compression/codecs/dithered/dither_tables.h"
#include "compression/entropy/rans.h"
#include "compression/entropy/symbol_stream.h"
#include "compression/simd/dither_kernels.h"

namespace shoal::compression {
namespace {

constexpr std::size_t kSizesBytes = 8;  // of the class stream, of tables and escapes
constexpr double kFoldedMax = 0x1p126;
constexpr std::size_t kTableBytesMax = 512;
static_assert(kDitherPart % kDitherGroup == 0 && kDitherPart % kRansLanes == 0);
static_assert(RowCounter::kRows == kEnergyClasses);

using Frequencies = std::array<std::array<std::uint16_t, 256>, kEnergyClasses>;

Status Wrong(const std::string& spec, const std::string& what) {
  return InvalidArgument("codec " + spec + ": " + what + "; drop the message and ask for it again");
}

std::uint8_t SymbolMask(bool wide) { return wide ? 0xff : kNarrowSymbolMask; }

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
  // The tables that the message needs.
  std::array<bool, kEnergyClasses> Tables(const ChannelOffsets& offsets) const {
    std::array<bool, kEnergyClasses> classes{};
    for (std::size_t c = 1; c < kEnergyClasses; ++c) classes[c] = !OfClass(c).empty();
    return TablesUsed(classes, offsets);
  }

 private:
  std::vector<std::size_t> tokens_;
  std::array<std::size_t, kEnergyClasses + 1> ends_{};
};

// The table of each channel in a token of one class.
class ChannelTables {
 public:
  explicit ChannelTables(const ChannelOffsets& offsets)
      : offsets_(offsets), tables_(offsets.size()) {}
  // nullptr where all channels take the class's own table. Valid until the next call.
  const std::uint16_t* OfClass(std::size_t c) {
    if (offsets_.empty()) return nullptr;
    for (std::size_t i = 0; i < tables_.size(); ++i) tables_[i] = TableOfValue(c, offsets_[i]);
    return tables_.data();
  }

 private:
  const ChannelOffsets& offsets_;
  std::vector<std::uint16_t> tables_;
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
        return *code >= -kDitheredCodeMax && *code <= kDitheredCodeMax;
      }
    }
    return false;
  }
  bool empty() const { return at_ == bytes_.size(); }

 private:
  std::span<const std::byte> bytes_;
  std::size_t at_ = 0;
};

// Which cells of which table are escapes, and where they are.
class EscapeCells {
 public:
  EscapeCells(const Frequencies& frequencies,
              std::span<const std::array<std::uint32_t, 256>, kEnergyClasses> counts) {
    for (std::size_t c = 1; c < kEnergyClasses; ++c) {
      const std::uint8_t mask = SymbolMask(IsWideClass(c));
      for (std::size_t cell = 0; cell < 256; ++cell) {
        const bool escape = frequencies[c][cell] == 0 || (cell & mask) == 0;
        escapes_[c << 8 | cell] = escape ? 1 : 0;
        any_[c] = any_[c] || (escape && counts[c][cell] != 0);
      }
    }
  }
  // Whether a counted cell of the table is an escape.
  bool any(std::size_t c) const { return any_[c]; }
  // Calls visit(cell) for the escapes in order, looking at a few cells at a time: they are rare.
  template <typename Visit>
  void ForEach(std::span<std::uint8_t> cells, std::size_t c, const std::uint16_t* tables,
               Visit visit) const {
    constexpr std::size_t kAtOnce = 16;
    const std::uint8_t* const own = escapes_.data() + (c << 8);
    const auto at = [&](std::size_t i) -> unsigned {
      return tables == nullptr ? own[cells[i]] : escapes_[std::size_t{tables[i]} << 8 | cells[i]];
    };
    for (std::size_t first = 0; first < cells.size(); first += kAtOnce) {
      const std::size_t count = std::min(kAtOnce, cells.size() - first);
      unsigned seen = count < kAtOnce ? 1 : 0;
      for (std::size_t i = first; seen == 0 && i < first + kAtOnce; i += 4) {
        seen |= at(i) | at(i + 1) | at(i + 2) | at(i + 3);
      }
      for (std::size_t i = first; seen != 0 && i < first + count; ++i) {
        if (at(i) != 0) visit(cells[i]);
      }
    }
  }

 private:
  std::array<std::uint8_t, 256 * kEnergyClasses> escapes_{};
  std::array<bool, kEnergyClasses> any_{};
};

class SectionWriter {
 public:
  SectionWriter(const DitheredMessage& message, DitherCells* source)
      : message_(message),
        source_(*source),
        hidden_(message.shape.hidden),
        order_(message.classes),
        channels_(message.offsets) {}

  Result<std::size_t> Write(std::span<std::byte> out);

 private:
  // Fills all cells and counts them by table.
  void MakeCells();
  void FitTables(BitWriter* writer);
  // Turns cells that their table has no place for into escapes and lists the escapes in order.
  void ListEscapes();
  std::byte* EncodeCells(std::byte* to);
  std::uint8_t* CellsOf(std::size_t token) { return cells_.data() + token * hidden_; }

  const DitheredMessage& message_;
  DitherCells& source_;
  std::size_t hidden_;
  TokenOrder order_;
  ChannelTables channels_;
  std::span<std::uint8_t> cells_;
  std::vector<std::int32_t> far_codes_;
  CellCounter counter_;  // of the class at hand, where a class has one table
  std::unique_ptr<RowCounter> by_table_;
  std::array<std::array<std::uint32_t, 256>, kEnergyClasses> counts_{};
  Frequencies frequencies_{};
  EscapeWriter escapes_;
};

void SectionWriter::MakeCells() {
  if (!message_.offsets.empty()) by_table_ = std::make_unique<RowCounter>();
  for (std::size_t c = 1; c < kEnergyClasses; ++c) {
    if (order_.OfClass(c).empty()) continue;
    const std::uint16_t* tables = channels_.OfClass(c);
    counter_ = CellCounter();
    for (const std::size_t token : order_.OfClass(c)) {
      for (std::size_t first = 0; first < hidden_; first += kDitherPart) {
        const std::size_t count = std::min(kDitherPart, hidden_ - first);
        std::uint8_t* cells = CellsOf(token) + first;
        source_.Make({token, first, count, IsWideClass(c)}, cells);
        if (tables == nullptr) {
          counter_.Add({cells, count});
        } else {
          by_table_->Add({cells, count}, tables + first);
        }
      }
    }
    if (tables == nullptr) counts_[c] = counter_.Totals();
  }
  for (std::size_t c = 1; by_table_ != nullptr && c < kEnergyClasses; ++c) {
    counts_[c] = by_table_->Totals(c);
  }
}

void SectionWriter::FitTables(BitWriter* writer) {
  WriteChannels(message_.offsets, writer);
  const auto used = order_.Tables(message_.offsets);
  for (std::size_t c = 1; c < kEnergyClasses; ++c) {
    if (!used[c]) continue;
    const DensityTable density = FitDensity(counts_[c], IsWideClass(c));
    WriteDensity(density, writer);
    frequencies_[c] = CellFrequencies(density, IsWideClass(c));
  }
}

void SectionWriter::ListEscapes() {
  EscapeCells escapes(frequencies_, counts_);
  std::size_t far = 0;
  for (std::size_t c = 1; c < kEnergyClasses; ++c) {
    const std::uint8_t mask = SymbolMask(IsWideClass(c));
    const int zero = (IsWideClass(c) ? kWideMost : kNarrowMost) + 1;
    const std::uint16_t* tables = channels_.OfClass(c);
    if (tables == nullptr && !escapes.any(c)) continue;
    for (const std::size_t token : order_.OfClass(c)) {
      escapes.ForEach({CellsOf(token), hidden_}, c, tables, [&](std::uint8_t& cell) {
        const int symbol = cell & mask;
        escapes_.Put(symbol == 0 ? far_codes_[far++] : symbol - zero);
        cell = static_cast<std::uint8_t>(cell & ~mask);
      });
    }
  }
}

std::byte* SectionWriter::EncodeCells(std::byte* to) {
  const auto used = order_.Tables(message_.offsets);
  const auto tables = std::make_unique<RansEncodeTable[]>(kEnergyClasses);
  for (std::size_t c = 1; c < kEnergyClasses; ++c) {
    if (used[c]) SetEncodeTable(frequencies_[c], IsWideClass(c), &tables[c]);
  }
  RansLanes lanes(RansLanesFor(cells_.size()));
  for (std::size_t c = kEnergyClasses; c-- > 1;) {
    const auto tokens = order_.OfClass(c);
    if (tokens.empty()) continue;
    const std::uint16_t* rows = channels_.OfClass(c);
    const RansEncodeTable* first = rows == nullptr ? &tables[c] : tables.get();
    for (std::size_t i = tokens.size(); i-- > 0;) {
      to = RansEncode(first, rows, CellsOf(tokens[i]), hidden_, &lanes, to);
    }
  }
  lanes.Store(to);
  return to + lanes.bytes();
}

Result<std::size_t> SectionWriter::Write(std::span<std::byte> out) {
  const std::size_t values = message_.classes.size() * hidden_;
  // Cells wait at the end of the caller's buffer for the words that take their place in front.
  cells_ = {reinterpret_cast<std::uint8_t*>(out.data() + out.size() - values), values};
  SHOAL_RETURN_IF_ERROR(source_.Begin(cells_));
  MakeCells();
  SHOAL_ASSIGN_OR_RETURN(far_codes_, source_.FarCodes());
  BitWriter tables;
  FitTables(&tables);
  ListEscapes();
  std::byte* to = out.data() + kSizesBytes;
  const std::size_t class_bytes =
      WriteSymbols(EntropyCoder::kRans, message_.classes, kEnergyClassBits,
                   out.first(out.size() - values).subspan(kSizesBytes));
  const std::size_t side_bytes = tables.bytes().size() + escapes_.bytes().size();
  StoreLittle(out.data(), static_cast<std::uint32_t>(class_bytes));
  StoreLittle(out.data() + 4, static_cast<std::uint32_t>(side_bytes));
  to = std::copy(tables.bytes().begin(), tables.bytes().end(), to + class_bytes);
  to = std::copy(escapes_.bytes().begin(), escapes_.bytes().end(), to);
  return static_cast<std::size_t>(EncodeCells(to) - out.data());
}

class SectionReader {
 public:
  SectionReader(SampleShape shape, float step, const PartDither& dither, const std::string& spec,
                DitherSymbols* sink)
      : shape_(shape),
        step_(step),
        dither_(dither),
        spec_(spec),
        sink_(*sink),
        slots_(std::make_unique_for_overwrite<std::uint32_t[]>(kEnergyClasses * kRansRowSlots)) {}

  Status Read(std::span<const std::uint8_t> classes, std::span<const std::byte> side,
              std::span<const std::byte> words);

 private:
  Status ReadTables(const TokenOrder& order, BitReader* reader);
  bool ReadToken(std::size_t token, std::size_t c, const std::uint16_t* rows,
                 EscapeReader* escapes);
  bool ReadPart(const TokenPart& part, std::size_t c, const std::uint16_t* rows,
                EscapeReader* escapes);

  SampleShape shape_;
  float step_;
  PartDither dither_;
  const std::string& spec_;
  DitherSymbols& sink_;
  ChannelOffsets offsets_;
  std::unique_ptr<std::uint32_t[]> slots_;
  RansLanes lanes_{1};
  const std::byte* begin_ = nullptr;
  const std::byte* end_ = nullptr;
};

Status SectionReader::ReadTables(const TokenOrder& order, BitReader* reader) {
  if (!ReadChannels(reader, shape_.hidden, &offsets_)) {
    return Wrong(spec_, "the offsets of the channels are broken");
  }
  const auto used = order.Tables(offsets_);
  for (std::size_t c = 1; c < kEnergyClasses; ++c) {
    if (!used[c]) continue;
    DensityTable density;
    if (!ReadDensity(reader, IsWideClass(c), &density)) {
      return Wrong(spec_, "table " + std::to_string(c) + " is broken");
    }
    FillClassSlots(CellFrequencies(density, IsWideClass(c)), IsWideClass(c),
                   slots_.get() + c * kRansRowSlots);
  }
  return reader->RestIsZero() ? Status::Ok() : Wrong(spec_, "bits behind the tables are not 0");
}

bool SectionReader::ReadPart(const TokenPart& part, std::size_t c, const std::uint16_t* rows,
                             EscapeReader* escapes) {
  const std::uint16_t* words = !part.wide || sink_.wants_dither() ? dither_.Draw(part) : nullptr;
  std::array<std::uint8_t, kDitherPart> symbols;
  const std::uint32_t* slots = slots_.get() + (rows == nullptr ? c * kRansRowSlots : 0);
  end_ = RansDecode(slots, rows == nullptr ? nullptr : rows + part.first,
                    part.wide ? nullptr : words, part.count, &lanes_, begin_, end_, symbols.data());
  if (end_ == nullptr) return false;
  sink_.Take(part, symbols.data(), words);
  const std::uint8_t* at = symbols.data();
  const std::uint8_t* const last = at + part.count;
  while ((at = static_cast<const std::uint8_t*>(
              std::memchr(at, 0, static_cast<std::size_t>(last - at)))) != nullptr) {
    const auto i = static_cast<std::size_t>(at++ - symbols.data());
    std::int32_t code = 0;
    if (!escapes->Get(&code) || std::abs(code) * double{step_} > kFoldedMax) return false;
    sink_.TakeEscape(part, i, code, words);
    if (at == last) break;
  }
  return true;
}

bool SectionReader::ReadToken(std::size_t token, std::size_t c, const std::uint16_t* rows,
                              EscapeReader* escapes) {
  for (std::size_t first = 0; first < shape_.hidden; first += kDitherPart) {
    const std::size_t count = std::min<std::size_t>(kDitherPart, shape_.hidden - first);
    if (!ReadPart({token, first, count, IsWideClass(c)}, c, rows, escapes)) return false;
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
  for (const std::size_t token : order.OfClass(0)) sink_.TakeZeros(token);
  ChannelTables channels(offsets_);
  for (std::size_t c = 1; c < kEnergyClasses; ++c) {
    const std::uint16_t* rows = order.OfClass(c).empty() ? nullptr : channels.OfClass(c);
    for (const std::size_t token : order.OfClass(c)) {
      if (ReadToken(token, c, rows, &escapes)) continue;
      return Wrong(spec_, "the rANS words or the escapes do not give the codes of token " +
                              std::to_string(token));
    }
  }
  if (end_ == begin_ && lanes_.AtStart() && escapes.empty()) return Status::Ok();
  return Wrong(spec_, "rANS words or escapes are left over");
}

}  // namespace

std::size_t DitheredSectionBytesMax(SampleShape shape, std::size_t samples, Escapes escapes) {
  const std::size_t tokens = samples * shape.tokens;
  // Channels may need tables that no token has the class of.
  const std::size_t tables =
      std::min(tokens * (2 * kChannelOffsetMost + 1), kEnergyClasses) * kTableBytesMax;
  // Cells (1) wait beside the words (less than 2). Where steps are too large for more than one
  // value in 16 to escape, those have room among the words; else each takes up to 4 more.
  const std::size_t value_bytes = escapes == Escapes::kFew ? 3 : 7;
  return kSizesBytes + SymbolBytesMax(EntropyCoder::kRans, tokens, kEnergyClassBits) +
         shape.hidden + tables + value_bytes * samples * shape.values() + 4 * kRansLanes +
         kRansSlack;
}

Result<std::size_t> WriteDitheredSection(const DitheredMessage& message, DitherCells* cells,
                                         std::span<std::byte> out) {
  return SectionWriter(message, cells).Write(out);
}

Status ReadDitheredSection(std::span<const std::byte> in, SampleShape shape, std::size_t samples,
                           const PartDither& dither, float step, const std::string& spec,
                           DitherSymbols* symbols) {
  if (in.size() < kSizesBytes) return Wrong(spec, "the sizes are cut off");
  const auto body = in.subspan(kSizesBytes);
  const std::size_t class_bytes = LoadLittle<std::uint32_t>(in.data());
  const std::size_t side_bytes = LoadLittle<std::uint32_t>(in.data() + 4);
  if (class_bytes > body.size() || side_bytes > body.size() - class_bytes) {
    return Wrong(spec, "the parts are larger than the message");
  }
  std::vector<std::uint8_t> classes(samples * shape.tokens);
  SHOAL_RETURN_IF_ERROR(ReadSymbols(body.first(class_bytes), kEnergyClassBits, classes, spec));
  if (*std::max_element(classes.begin(), classes.end()) >= kEnergyClasses) {
    return Wrong(spec, "a token has an unknown class");
  }
  SectionReader reader(shape, step, dither, spec, symbols);
  return reader.Read(classes, body.subspan(class_bytes, side_bytes),
                     body.subspan(class_bytes + side_bytes));
}

}  // namespace shoal::compression
