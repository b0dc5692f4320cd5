#include "compression/codecs/low_rank/change_section.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <string>
#include <utility>

#include "common/bytes.h"
#include "compression/codecs/low_rank/low_rank.h"
#include "compression/entropy/bit_stream.h"
#include "compression/entropy/symbol_stream.h"

namespace shoal::compression {
namespace {

constexpr std::size_t kSizesBytes = 8;
constexpr std::size_t kStreamSizeBytes = 4;
constexpr int kRankBits = 9;
constexpr int kExponentBits = 8;
constexpr int kSymbolBitsMost = 8;
constexpr int kWidthBits = 3;  // of a class's symbols, less one
constexpr int kLowBitsMost = kFactorCodeBits + 1 - kSymbolBitsMost;
// Half octaves of a column's rms: 0 is a 16th.
constexpr int kClasses = 20;
constexpr int kFirstClass = 8;  // what the first column's class is told apart from
// A class of fewer symbols goes into the next larger one: its table would cost more than it saves.
constexpr std::size_t kSmallClass = 1536;
// Of a column, in bits: its step, then low bits and class of both sides.
constexpr std::size_t kColumnBitsMax =
    kColumnStepsMost + 1 + 2 * (kLowBitsMost + 1 + 2 * kClasses + 1);

Status Wrong(std::string_view spec, const std::string& what) {
  return InvalidArgument("codec " + std::string(spec) + ": " + what +
                         "; drop the message and ask for it again");
}

// One column of one factor.
struct Column {
  std::span<const std::int16_t> codes;
  int low_bits = 0;
  int table = 0;  // class
};

int BitsOf(std::span<const std::int16_t> codes) {
  int all = 0;
  for (const std::int16_t code : codes) all |= code < 0 ? ~code : code;
  return std::bit_width(static_cast<unsigned>(all)) + 1;
}

int ClassOf(std::span<const std::int16_t> codes, int low_bits) {
  std::int64_t sum = 0;
  for (const std::int16_t code : codes) {
    const int high = code >> low_bits;
    sum += high * high;
  }
  const double mean = static_cast<double>(sum) / static_cast<double>(codes.size());
  return mean < 0x1p-8 ? 0 : std::min(std::ilogb(mean) + kFirstClass, kClasses - 1);
}

// The columns of a message in the order in which they are sent: of each sample, column by column,
// left and right.
template <typename Factors, typename Visit>
void ForEachColumn(std::span<Factors> samples, SampleShape shape, Visit visit) {
  for (Factors& sample : samples) {
    for (std::size_t k = 0; k < sample.rank; ++k) {
      visit(std::span(sample.left).subspan(k * shape.tokens, shape.tokens));
      visit(std::span(sample.right).subspan(k * shape.hidden, shape.hidden));
    }
  }
}

// Gives classes with few symbols to their neighbour.
void MergeSmallClasses(std::vector<Column>* columns) {
  std::array<std::size_t, kClasses> counts{};
  for (const Column& column : *columns) {
    counts[static_cast<std::size_t>(column.table)] += column.codes.size();
  }
  std::array<int, kClasses> becomes{};
  int last = -1;  // the last class that is large enough
  std::size_t waiting = 0;
  int first = 0;  // of those that wait
  for (int c = 0; c < kClasses; ++c) {
    waiting += counts[static_cast<std::size_t>(c)];
    if (waiting < kSmallClass) continue;
    std::fill(becomes.begin() + first, becomes.begin() + c + 1, c);
    last = c;
    first = c + 1;
    waiting = 0;
  }
  std::fill(becomes.begin() + first, becomes.end(), last < 0 ? kFirstClass : last);
  for (Column& column : *columns) column.table = becomes[static_cast<std::size_t>(column.table)];
}

struct Class {
  std::size_t symbols = 0;
  int bits = 1;
};
using Classes = std::array<Class, kClasses>;

Classes CountClasses(std::span<const Column> columns) {
  Classes classes;
  for (const Column& column : columns) {
    Class& of = classes[static_cast<std::size_t>(column.table)];
    of.symbols += column.codes.size();
    of.bits = std::max(of.bits, BitsOf(column.codes) - column.low_bits);
  }
  return classes;
}

std::vector<Column> DescribeColumns(std::span<const ChangeFactors> samples, SampleShape shape) {
  std::vector<Column> columns;
  ForEachColumn(samples, shape, [&](std::span<const std::int16_t> codes) {
    const int low_bits = std::max(BitsOf(codes) - kSymbolBitsMost, 0);
    columns.push_back({codes, low_bits, ClassOf(codes, low_bits)});
  });
  MergeSmallClasses(&columns);
  return columns;
}

void WriteSide(std::span<const ChangeFactors> samples, std::span<const Column> columns,
               const Classes& classes, BitWriter* writer) {
  std::size_t at = 0;
  int last[2] = {kFirstClass, kFirstClass};
  for (const ChangeFactors& sample : samples) {
    writer->Put(static_cast<std::uint32_t>(sample.rank), kRankBits);
    if (sample.rank == 0) continue;
    writer->Put(static_cast<std::uint8_t>(sample.exponent), kExponentBits);
    for (std::size_t k = 0; k < sample.rank; ++k) {
      writer->PutUnary(k == 0 ? 0U : 0U + sample.steps[k] - sample.steps[k - 1]);
      for (int side = 0; side < 2; ++side) {
        const Column& column = columns[at++];
        writer->PutUnary(static_cast<std::uint32_t>(column.low_bits));
        writer->PutSigned(column.table - last[side]);
        last[side] = column.table;
      }
    }
  }
  for (const Class& of : classes) {
    if (of.symbols != 0) writer->Put(static_cast<std::uint32_t>(of.bits - 1), kWidthBits);
  }
  for (const Column& column : columns) {
    if (column.low_bits == 0) continue;
    for (const std::int16_t code : column.codes) {
      writer->Put(static_cast<std::uint16_t>(code), column.low_bits);
    }
  }
}

std::size_t WriteTokens(std::span<const ChangeFactors> samples, SampleShape shape,
                        std::span<std::byte> out) {
  std::vector<std::uint8_t> exponents;
  for (const ChangeFactors& sample : samples) {
    if (sample.rank == 0) {
      exponents.resize(exponents.size() + shape.tokens);
    } else {
      exponents.insert(exponents.end(), sample.token_exponents.begin(),
                       sample.token_exponents.end());
    }
  }
  const bool any = std::any_of(exponents.begin(), exponents.end(), [](auto e) { return e != 0; });
  return any ? WriteSymbols(EntropyCoder::kRans, exponents, kTokenExponentBits, out) : 0;
}

// What a reader knows of a column before its codes.
struct Place {
  std::span<std::int16_t> codes;
  int low_bits = 0;
  int table = 0;
};

// The samples' ranks, exponents and steps. False if the bits do not give them.
bool ReadSample(BitReader* reader, SampleShape shape, std::size_t rank, int last[2],
                ChangeFactors* sample, std::vector<Place>* places) {
  sample->rank = reader->Get(kRankBits);
  if (sample->rank > rank) return false;
  if (sample->rank == 0) return reader->ok();
  sample->exponent = static_cast<std::int8_t>(reader->Get(kExponentBits));
  if (sample->exponent < kProductExponentMin || sample->exponent > kProductExponentMax) {
    return false;
  }
  std::uint32_t step = 0;
  for (std::size_t k = 0; k < sample->rank; ++k) {
    const std::uint32_t more = reader->GetUnary(kColumnStepsMost);
    step += more;
    if ((k == 0 && more != 0) || step > std::uint32_t{kColumnStepsMost}) return false;
    sample->steps.push_back(static_cast<std::uint8_t>(step));
    for (int side = 0; side < 2; ++side) {
      Place place;
      place.low_bits = static_cast<int>(reader->GetUnary(kLowBitsMost));
      last[side] += reader->GetSigned(kClasses);
      if (!reader->ok() || last[side] < 0 || last[side] >= kClasses) return false;
      place.table = last[side];
      places->push_back(place);
    }
  }
  sample->left.resize(sample->rank * shape.tokens);
  sample->right.resize(sample->rank * shape.hidden);
  return true;
}

class SectionReader {
 public:
  SectionReader(SampleShape shape, std::size_t samples, std::size_t rank, std::string_view spec)
      : shape_(shape), rank_(rank), spec_(spec), samples_(samples) {}

  Status Read(std::span<const std::byte> tokens, std::span<const std::byte> side,
              std::span<const std::byte> streams);
  std::vector<ChangeFactors> Take() { return std::move(samples_); }

 private:
  Status ReadTokens(std::span<const std::byte> in);
  Status ReadSide(std::span<const std::byte> in);
  Status ReadStreams(std::span<const std::byte> in);

  const SampleShape shape_;
  const std::size_t rank_;
  const std::string_view spec_;
  std::vector<ChangeFactors> samples_;
  std::vector<Place> places_;
  Classes classes_;
};

Status SectionReader::ReadTokens(std::span<const std::byte> in) {
  std::vector<std::uint8_t> exponents(in.empty() ? 0 : samples_.size() * shape_.tokens);
  if (!in.empty()) {
    SHOAL_RETURN_IF_ERROR(ReadSymbols(in, kTokenExponentBits, exponents, spec_));
  }
  for (std::size_t i = 0; i < samples_.size(); ++i) {
    auto& own = samples_[i].token_exponents;
    own.resize(shape_.tokens);
    if (!in.empty()) std::copy_n(exponents.begin() + i * shape_.tokens, own.size(), own.begin());
  }
  return Status::Ok();
}

Status SectionReader::ReadSide(std::span<const std::byte> in) {
  BitReader reader(in);
  int last[2] = {kFirstClass, kFirstClass};
  for (ChangeFactors& sample : samples_) {
    if (!ReadSample(&reader, shape_, rank_, last, &sample, &places_)) {
      return Wrong(spec_, "a sample's rank or steps are broken");
    }
  }
  std::size_t at = 0;
  ForEachColumn(std::span(samples_), shape_, [&](std::span<std::int16_t> codes) {
    places_[at].codes = codes;
    classes_[static_cast<std::size_t>(places_[at].table)].symbols += codes.size();
    ++at;
  });
  for (Class& of : classes_) {
    if (of.symbols != 0) of.bits = static_cast<int>(reader.Get(kWidthBits)) + 1;
  }
  for (const Place& place : places_) {
    if (place.low_bits == 0) continue;
    for (std::int16_t& code : place.codes) {
      code = static_cast<std::int16_t>(reader.Get(place.low_bits));
    }
    if (!reader.ok()) break;
  }
  if (!reader.ok() || reader.bytes_used() != in.size() || !reader.RestIsZero()) {
    return Wrong(spec_, "the low bits of the codes are broken");
  }
  return Status::Ok();
}

Status SectionReader::ReadStreams(std::span<const std::byte> in) {
  for (int c = 0; c < kClasses; ++c) {
    const Class& of = classes_[static_cast<std::size_t>(c)];
    if (of.symbols == 0) continue;
    if (in.size() < kStreamSizeBytes) return Wrong(spec_, "the size of a code stream is cut off");
    const std::size_t bytes = LoadLittle<std::uint32_t>(in.data());
    in = in.subspan(kStreamSizeBytes);
    if (bytes > in.size()) return Wrong(spec_, "a code stream is cut off");
    std::vector<std::uint8_t> symbols(of.symbols);
    SHOAL_RETURN_IF_ERROR(ReadSymbols(in.first(bytes), of.bits, symbols, spec_));
    in = in.subspan(bytes);
    const int zero = 1 << (of.bits - 1);
    const std::uint8_t* from = symbols.data();
    for (const Place& place : places_) {
      if (place.table != c) continue;
      for (std::int16_t& code : place.codes) {
        code = static_cast<std::int16_t>(((*from++ - zero) << place.low_bits) + code);
      }
    }
  }
  return in.empty() ? Status::Ok() : Wrong(spec_, "bytes behind the code streams");
}

Status SectionReader::Read(std::span<const std::byte> tokens, std::span<const std::byte> side,
                           std::span<const std::byte> streams) {
  SHOAL_RETURN_IF_ERROR(ReadTokens(tokens));
  SHOAL_RETURN_IF_ERROR(ReadSide(side));
  return ReadStreams(streams);
}

}  // namespace

std::size_t ChangeSectionBytesMax(SampleShape shape, std::size_t samples, std::size_t rank) {
  const std::size_t columns = samples * rank;
  const std::size_t codes = columns * (std::size_t{shape.tokens} + shape.hidden);
  const std::size_t side_bits = samples * (kRankBits + kExponentBits) + columns * kColumnBitsMax +
                                kClasses * kWidthBits + codes * kLowBitsMost;
  const std::size_t of_class = kStreamSizeBytes + 1 + kSymbolBitsMost;
  return kSizesBytes +
         SymbolBytesMax(EntropyCoder::kRans, samples * shape.tokens, kTokenExponentBits) +
         (side_bits + 7) / 8 + kClasses * of_class + codes;
}

std::size_t WriteChangeSection(std::span<const ChangeFactors> samples, SampleShape shape,
                               std::span<std::byte> out) {
  const std::vector<Column> columns = DescribeColumns(samples, shape);
  const Classes classes = CountClasses(columns);
  std::size_t at = kSizesBytes;
  const std::size_t token_bytes = WriteTokens(samples, shape, out.subspan(at));
  at += token_bytes;
  BitWriter side;
  WriteSide(samples, columns, classes, &side);
  std::copy(side.bytes().begin(), side.bytes().end(), out.begin() + at);
  at += side.bytes().size();
  StoreLittle(out.data(), static_cast<std::uint32_t>(token_bytes));
  StoreLittle(out.data() + 4, static_cast<std::uint32_t>(side.bytes().size()));
  std::vector<std::uint8_t> symbols;
  for (int c = 0; c < kClasses; ++c) {
    const Class& of = classes[static_cast<std::size_t>(c)];
    if (of.symbols == 0) continue;
    symbols.resize(of.symbols);
    const int zero = 1 << (of.bits - 1);
    std::uint8_t* to = symbols.data();
    for (const Column& column : columns) {
      if (column.table != c) continue;
      for (const std::int16_t code : column.codes) {
        *to++ = static_cast<std::uint8_t>((code >> column.low_bits) + zero);
      }
    }
    const std::size_t bytes =
        WriteSymbols(EntropyCoder::kRans, symbols, of.bits, out.subspan(at + kStreamSizeBytes));
    StoreLittle(out.data() + at, static_cast<std::uint32_t>(bytes));
    at += kStreamSizeBytes + bytes;
  }
  return at;
}

Result<std::vector<ChangeFactors>> ReadChangeSection(std::span<const std::byte> in,
                                                     SampleShape shape, std::size_t samples,
                                                     std::size_t rank, std::string_view spec) {
  if (in.size() < kSizesBytes) return Wrong(spec, "the sizes are cut off");
  const auto body = in.subspan(kSizesBytes);
  const std::size_t token_bytes = LoadLittle<std::uint32_t>(in.data());
  const std::size_t side_bytes = LoadLittle<std::uint32_t>(in.data() + 4);
  if (token_bytes > body.size() || side_bytes > body.size() - token_bytes) {
    return Wrong(spec, "the parts are larger than the message");
  }
  SectionReader reader(shape, samples, rank, spec);
  SHOAL_RETURN_IF_ERROR(reader.Read(body.first(token_bytes), body.subspan(token_bytes, side_bytes),
                                    body.subspan(token_bytes + side_bytes)));
  return reader.Take();
}

}  // namespace shoal::compression
