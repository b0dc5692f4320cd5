#include "compression/entropy/symbol_stream.h"

#include <zstd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/memory/buffer.h"
#include "compression/entropy/bit_stream.h"
#include "compression/entropy/rans.h"
#include "compression/entropy/rans_table.h"
#include "compression/simd/kernels.h"

namespace shoal::compression {
namespace {

enum class Kind : std::uint8_t { kPacked = 0, kZstd = 1, kRans = 2 };

constexpr std::size_t kGroup = 8;
// Negative levels skip the entropy coder, higher ones gain 1 % at most.
constexpr int kZstdLevel = 1;

Status Wrong(std::string_view spec, const std::string& what) {
  return InvalidArgument("codec " + std::string(spec) + ": codes: " + what +
                         "; drop the message and ask for it again");
}

std::size_t PackedBytes(std::size_t n, int bits) {
  return (n + kGroup - 1) / kGroup * static_cast<std::size_t>(bits);
}

void WritePacked(std::span<const std::uint8_t> codes, int bits, std::byte* out) {
  const std::size_t groups = codes.size() / kGroup;
  if (groups > 0) PackCodes(codes.data(), groups, bits, out);
  const auto rest = codes.subspan(groups * kGroup);
  if (rest.empty()) return;
  std::uint8_t last[kGroup] = {};
  std::copy(rest.begin(), rest.end(), last);
  PackCodes(last, 1, bits, out + groups * static_cast<std::size_t>(bits));
}

Status ReadPacked(std::span<const std::byte> in, int bits, std::span<std::uint8_t> codes,
                  std::string_view spec) {
  if (in.size() != PackedBytes(codes.size(), bits)) {
    return Wrong(spec, std::to_string(in.size()) + " packed bytes, expected " +
                           std::to_string(PackedBytes(codes.size(), bits)));
  }
  const std::size_t groups = codes.size() / kGroup;
  if (groups > 0) UnpackCodes(in.data(), groups, bits, codes.data());
  const auto rest = codes.subspan(groups * kGroup);
  if (rest.empty()) return Status::Ok();
  std::uint8_t last[kGroup];
  UnpackCodes(in.data() + groups * static_cast<std::size_t>(bits), 1, bits, last);
  std::copy_n(last, rest.size(), rest.begin());
  const bool clean = std::all_of(last + rest.size(), last + kGroup, [](auto c) { return c == 0; });
  return clean ? Status::Ok() : Wrong(spec, "padding bits of the last group are not 0");
}

// zstd sees bytes that hold as many whole codes as fit: its entropy coder then works on tuples of
// codes, where single small ones would cost it at least a bit each and tempt it into matches.
std::size_t CodesPerByte(int bits) { return kGroup / static_cast<std::size_t>(bits); }

// Memory of codes that the process uses again: fresh pages would cost more than what is done here.
class Codes {
 public:
  explicit Codes(std::size_t size) : memory_(size) {}
  std::span<std::uint8_t> all() { return AsCodes(memory_.bytes()); }
  std::span<const std::uint8_t> all() const { return AsCodes(memory_.bytes()); }

 private:
  Buffer memory_;
};

// Two codes of `bits` bits in each byte; a last one alone in its.
Codes Join(std::span<const std::uint8_t> codes, int bits) {
  Codes pairs((codes.size() + 1) / 2);
  JoinBytes(codes.data(), codes.size() / 2, bits, pairs.all().data());
  if (codes.size() % 2 != 0) pairs.all().back() = codes.back();
  return pairs;
}

// False if a bit is set that belongs to none of the two codes, or a last byte has one too many.
bool Split(std::span<const std::uint8_t> pairs, int bits, std::span<std::uint8_t> codes) {
  const std::uint8_t all = SplitBytes(pairs.data(), codes.size() / 2, bits, codes.data());
  if (all >> bits >> bits != 0) return false;
  if (codes.size() % 2 == 0) return true;
  codes.back() = pairs.back();
  return pairs.back() >> bits == 0;
}

// CodesPerByte is more than 1.
Codes JoinCodes(std::span<const std::uint8_t> codes, int bits) {
  const std::size_t per = CodesPerByte(bits);
  Codes joined = Join(codes, bits);
  for (std::size_t together = 2; together < per; together *= 2) {
    joined = Join(joined.all(), bits * static_cast<int>(together));
  }
  return joined;
}

// False if a bit is set that belongs to no code.
bool SplitCodes(Codes joined, int bits, std::span<std::uint8_t> codes) {
  const std::size_t per = CodesPerByte(bits);
  if (per == 1) {
    std::copy_n(joined.all().begin(), codes.size(), codes.begin());
    return std::all_of(codes.begin(), codes.end(), [&](auto code) { return code >> bits == 0; });
  }
  for (std::size_t together = per / 2; together > 1; together /= 2) {
    Codes split((codes.size() + together - 1) / together);
    if (!Split(joined.all(), bits * static_cast<int>(together), split.all())) return false;
    joined = std::move(split);
  }
  return Split(joined.all(), bits, codes);
}

// Memory of zstd that a thread uses again: it takes longer to make than a message to code.
struct FreeContext {
  void operator()(ZSTD_CCtx* context) const { ZSTD_freeCCtx(context); }
  void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
};
ZSTD_CCtx* Compressor() {
  thread_local const std::unique_ptr<ZSTD_CCtx, FreeContext> context([] {
    ZSTD_CCtx* made = ZSTD_createCCtx();
    SHOAL_CHECK(made != nullptr);
    ZSTD_CCtx_setParameter(made, ZSTD_c_compressionLevel, kZstdLevel);
    // Codes repeat by chance only: the less time goes to looking for matches the better.
    ZSTD_CCtx_setParameter(made, ZSTD_c_hashLog, ZSTD_cParam_getBounds(ZSTD_c_hashLog).lowerBound);
    ZSTD_CCtx_setParameter(made, ZSTD_c_minMatch, 7);
    return made;
  }());
  return context.get();
}
ZSTD_DCtx* Decompressor() {
  thread_local const std::unique_ptr<ZSTD_DCtx, FreeContext> context(ZSTD_createDCtx());
  SHOAL_CHECK(context != nullptr);
  return context.get();
}

// Bytes of a zstd frame in `out`, or 0 if it does not fit there.
std::size_t WriteZstd(std::span<const std::uint8_t> codes, int bits, std::span<std::byte> out) {
  const Codes joined = CodesPerByte(bits) == 1 ? Codes(0) : JoinCodes(codes, bits);
  const auto in = CodesPerByte(bits) == 1 ? codes : joined.all();
  const std::size_t bytes =
      ZSTD_compress2(Compressor(), out.data(), out.size(), in.data(), in.size());
  return ZSTD_isError(bytes) != 0 ? 0 : bytes;
}

Status ReadZstd(std::span<const std::byte> in, int bits, std::span<std::uint8_t> codes,
                std::string_view spec) {
  const std::size_t per = CodesPerByte(bits);
  const std::size_t bytes = (codes.size() + per - 1) / per;
  if (ZSTD_getFrameContentSize(in.data(), in.size()) != bytes ||
      ZSTD_findFrameCompressedSize(in.data(), in.size()) != in.size()) {
    return Wrong(spec, "not one zstd frame of " + std::to_string(bytes) + " bytes");
  }
  Codes joined(bytes);
  const std::size_t got =
      ZSTD_decompressDCtx(Decompressor(), joined.all().data(), bytes, in.data(), in.size());
  if (got != bytes) {
    return Wrong(spec, ZSTD_isError(got) != 0
                           ? std::string("zstd says '") + ZSTD_getErrorName(got) + "'"
                           : std::to_string(got) + " bytes in the zstd frame, expected " +
                                 std::to_string(bytes));
  }
  if (SplitCodes(std::move(joined), bits, codes)) return Status::Ok();
  return Wrong(spec, "bits are set that belong to no code of " + std::to_string(bits) + " bits");
}

// The frequencies that levels stand for. A coder needs two symbols, so a single one gets company.
std::array<std::uint16_t, 256> TableOf(std::span<std::uint8_t> levels) {
  std::size_t present = 0;
  std::size_t last = 0;
  for (std::size_t s = 0; s < levels.size(); ++s) {
    if (levels[s] == kLevelAbsent) continue;
    ++present;
    last = s;
  }
  if (present < 2) levels[last ^ 1] = kLevelMax;
  std::array<std::uint16_t, 256> frequencies{};
  FrequenciesOf(levels, kRansTotal, std::span(frequencies).first(levels.size()));
  return frequencies;
}

// An upper estimate of the rANS bytes of codes with these counts and frequencies.
std::size_t EstimateRans(std::span<const std::uint32_t, 256> counts,
                         const std::array<std::uint16_t, 256>& frequencies) {
  std::uint64_t eighths = 0;
  for (std::size_t s = 0; s < counts.size(); ++s) {
    if (counts[s] != 0) eighths += std::uint64_t{counts[s]} * LevelOf(frequencies[s], kRansTotal);
  }
  return static_cast<std::size_t>(eighths / 64);
}

// Table, words and states in `out`, or 0 bytes if they do not fit there.
std::size_t WriteRans(std::span<const std::uint8_t> codes, int bits, std::span<std::byte> out) {
  if (codes.empty()) return 0;
  const std::size_t alphabet = std::size_t{1} << bits;
  const auto counts = CountCodes(codes, alphabet);
  std::array<std::uint8_t, 256> levels;
  for (std::size_t s = 0; s < alphabet; ++s) levels[s] = LevelOf(counts[s], codes.size());
  BitWriter table_bits;
  WriteLevels(std::span(levels).first(alphabet), &table_bits);
  const auto frequencies = TableOf(std::span(levels).first(alphabet));
  const std::size_t table_bytes = table_bits.bytes().size();
  // Levels are within 5 % of a bit's probability; no need to code what will be thrown away.
  const std::size_t estimate = EstimateRans(counts, frequencies);
  if (table_bytes + estimate - estimate / 16 >= out.size()) return 0;

  RansEncodeTable table;
  table.Set(std::span(frequencies).first(alphabet), 0);
  RansLanes lanes(RansLanesFor(codes.size()));
  const auto words = std::make_unique_for_overwrite<std::byte[]>(2 * codes.size() + kRansSlack);
  const std::byte* end =
      RansEncode(&table, nullptr, codes.data(), codes.size(), &lanes, words.get());
  const auto word_bytes = static_cast<std::size_t>(end - words.get());
  const std::size_t bytes = table_bytes + word_bytes + lanes.bytes();
  if (bytes > out.size()) return 0;
  std::memcpy(out.data(), table_bits.bytes().data(), table_bytes);
  std::memcpy(out.data() + table_bytes, words.get(), word_bytes);
  lanes.Store(out.data() + table_bytes + word_bytes);
  return bytes;
}

Status ReadRans(std::span<const std::byte> in, int bits, std::span<std::uint8_t> codes,
                std::string_view spec) {
  std::array<std::uint8_t, 256> all_levels;
  const auto levels = std::span(all_levels).first(std::size_t{1} << bits);
  BitReader reader(in);
  if (!ReadLevels(&reader, levels) || !reader.RestIsZero() ||
      std::all_of(levels.begin(), levels.end(), [](auto l) { return l == kLevelAbsent; })) {
    return Wrong(spec, "the rANS table is broken");
  }
  const auto frequencies = TableOf(levels);
  auto slots = std::make_unique_for_overwrite<std::uint32_t[]>(kRansTotal);
  FillRansSlots(std::span(frequencies).first(levels.size()), slots.get());

  RansLanes lanes(RansLanesFor(codes.size()));
  const auto words = in.subspan(reader.bytes_used());
  if (words.size() < lanes.bytes() || !lanes.Load(words.data() + words.size() - lanes.bytes())) {
    return Wrong(spec, "the rANS states are broken");
  }
  const std::byte* begin = words.data();
  const std::byte* end = RansDecode(slots.get(), nullptr, nullptr, codes.size(), &lanes, begin,
                                    begin + (words.size() - lanes.bytes()), codes.data());
  if (end == begin && lanes.AtStart()) return Status::Ok();
  return Wrong(spec, "the rANS words do not give " + std::to_string(codes.size()) + " codes");
}

}  // namespace

Result<EntropyCoder> ParseEntropyCoder(std::string_view suffix) {
  if (suffix.empty()) return EntropyCoder::kNone;
  if (suffix == "zstd") return EntropyCoder::kZstd;
  if (suffix == "rans") return EntropyCoder::kRans;
  return InvalidArgument("entropy coder '+" + std::string(suffix.substr(0, 32)) +
                         "' is unknown; allowed are +zstd, +rans or none");
}

std::string_view EntropySuffix(EntropyCoder coder) {
  switch (coder) {
    case EntropyCoder::kNone: return "";
    case EntropyCoder::kZstd: return "+zstd";
    case EntropyCoder::kRans: return "+rans";
  }
  return "";
}

std::size_t SymbolBytesMax(EntropyCoder, std::size_t n, int bits) {
  return 1 + PackedBytes(n, bits);
}

std::size_t WriteSymbols(EntropyCoder coder, std::span<const std::uint8_t> codes, int bits,
                         std::span<std::byte> out) {
  SHOAL_CHECK(bits >= 1 && bits <= 8);
  SHOAL_CHECK(out.size() >= SymbolBytesMax(coder, codes.size(), bits));
  const std::size_t packed = PackedBytes(codes.size(), bits);
  const auto body = out.subspan(1, packed);
  // One byte less than packed, so that what is not smaller does not fit.
  const auto smaller = body.first(packed - std::min<std::size_t>(packed, 1));
  if (coder == EntropyCoder::kZstd) {
    if (const std::size_t bytes = WriteZstd(codes, bits, smaller); bytes != 0) {
      out[0] = static_cast<std::byte>(Kind::kZstd);
      return 1 + bytes;
    }
  }
  if (coder == EntropyCoder::kRans) {
    if (const std::size_t bytes = WriteRans(codes, bits, smaller); bytes != 0) {
      out[0] = static_cast<std::byte>(Kind::kRans);
      return 1 + bytes;
    }
  }
  out[0] = static_cast<std::byte>(Kind::kPacked);
  WritePacked(codes, bits, body.data());
  return 1 + packed;
}

Status ReadSymbols(std::span<const std::byte> in, int bits, std::span<std::uint8_t> codes,
                   std::string_view spec) {
  SHOAL_CHECK(bits >= 1 && bits <= 8);
  if (in.empty()) return Wrong(spec, "no bytes");
  const auto body = in.subspan(1);
  switch (static_cast<Kind>(in[0])) {
    case Kind::kPacked: return ReadPacked(body, bits, codes, spec);
    case Kind::kZstd: return ReadZstd(body, bits, codes, spec);
    case Kind::kRans: return ReadRans(body, bits, codes, spec);
  }
  return Wrong(spec, "kind " + std::to_string(std::to_integer<int>(in[0])) +
                         " is unknown, known are 0 (packed), 1 (zstd) and 2 (rANS)");
}

}  // namespace shoal::compression
