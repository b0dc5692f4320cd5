#include "compression/entropy/positions.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>

#include "common/bytes.h"

namespace shoal::compression {
namespace {

constexpr std::uint8_t kBitmap = 0;
constexpr std::uint8_t kRice = 1;  // plus the parameter
constexpr int kParameterMax = 24;

Status Wrong(std::string_view spec, const std::string& what) {
  return InvalidArgument("codec " + std::string(spec) + ": positions: " + what +
                         "; drop the message and ask for it again");
}

std::size_t BitmapBytes(std::size_t n) { return (n + 7) / 8; }

// Calls `visit` with the number of values between each position and the one before.
template <typename Visit>
void ForGaps(std::span<const std::uint32_t> positions, Visit visit) {
  std::uint32_t next = 0;
  for (const std::uint32_t position : positions) {
    visit(position - next);
    next = position + 1;
  }
}

struct RiceChoice {
  int parameter = 0;
  std::uint64_t bits = 0;
};

// The sum of all gaps, each shifted right by r; it fits, for gaps add up to positions at most.
std::uint32_t ShiftedGaps(std::span<const std::uint32_t> positions, int r) {
  std::uint32_t sum = positions.empty() ? 0 : positions[0] >> r;
  for (std::size_t i = 1; i < positions.size(); ++i) {
    sum += (positions[i] - positions[i - 1] - 1) >> r;
  }
  return sum;
}

// From r to r + 1 the ones fall by half of what is left and the low bits grow by one a gap: bits
// are convex in r, so the first minimum is the least.
RiceChoice BestParameter(std::span<const std::uint32_t> positions) {
  RiceChoice best;
  for (int r = 0; r <= kParameterMax; ++r) {
    const std::uint64_t bits =
        ShiftedGaps(positions, r) + positions.size() * (1 + static_cast<std::uint64_t>(r));
    if (r > 0 && bits >= best.bits) break;
    best = {r, bits};
  }
  return best;
}

// Bits from the lowest of the first byte on.
class GapWriter {
 public:
  explicit GapWriter(std::byte* out) : out_(out) {}

  void PutGap(std::uint32_t gap, int parameter) {
    std::uint32_t ones = gap >> parameter;
    for (; ones >= 7; ones -= 7) Put(0x7f, 7);
    const std::uint32_t low = gap & ((1U << parameter) - 1);
    Put(low << (ones + 1) | ((1U << ones) - 1), static_cast<int>(ones) + 1 + parameter);
  }
  void Finish() {
    for (; used_ > 0; used_ -= 8, held_ >>= 8) *out_++ = static_cast<std::byte>(held_);
  }

 private:
  // At most 32 bits.
  void Put(std::uint32_t value, int count) {
    held_ |= std::uint64_t{value} << used_;
    used_ += count;
    if (used_ < 32) return;
    StoreLittle(out_, static_cast<std::uint32_t>(held_));
    out_ += 4;
    held_ >>= 32;
    used_ -= 32;
  }

  std::byte* out_;
  std::uint64_t held_ = 0;
  int used_ = 0;
};

// Reading past the end gives zeros; `bits` then exceeds what is there.
class GapReader {
 public:
  explicit GapReader(std::span<const std::byte> in) : in_(in) {}

  std::uint64_t Gap(int parameter) {
    std::uint64_t ones = 0;
    while (true) {
      const int more = std::min(std::countr_one(Window()), kWindow);
      ones += static_cast<std::uint64_t>(more);
      bits_ += static_cast<std::uint64_t>(more);
      if (more < kWindow) break;
    }
    ++bits_;
    const std::uint64_t low = Window() & ((std::uint64_t{1} << parameter) - 1);
    bits_ += static_cast<std::uint64_t>(parameter);
    return ones << parameter | low;
  }
  bool PastTheEnd() const { return bits_ > 8 * in_.size(); }
  std::size_t bytes() const { return (bits_ + 7) / 8; }
  bool RestIsZero() const {
    return bits_ % 8 == 0 || std::to_integer<unsigned>(in_[bits_ / 8]) >> bits_ % 8 == 0;
  }

 private:
  static constexpr int kWindow = 56;

  // At least the next kWindow bits.
  std::uint64_t Window() const {
    const std::size_t byte = bits_ / 8;
    if (byte + 8 <= in_.size()) return LoadLittle<std::uint64_t>(in_.data() + byte) >> bits_ % 8;
    std::byte last[8] = {};
    if (byte < in_.size()) std::memcpy(last, in_.data() + byte, in_.size() - byte);
    return LoadLittle<std::uint64_t>(last) >> bits_ % 8;
  }

  std::span<const std::byte> in_;
  std::uint64_t bits_ = 0;
};

Result<std::size_t> ReadBitmap(std::span<const std::byte> in, std::size_t n,
                               std::span<std::uint32_t> positions, std::string_view spec) {
  const std::size_t bytes = BitmapBytes(n);
  if (in.size() < bytes) {
    return Wrong(
        spec, std::to_string(in.size()) + " bytes left for a bitmap of " + std::to_string(bytes));
  }
  std::size_t found = 0;
  for (std::size_t at = 0; at < bytes; ++at) {
    for (auto byte = std::to_integer<unsigned>(in[at]); byte != 0; byte &= byte - 1, ++found) {
      const std::size_t position = at * 8 + static_cast<std::size_t>(std::countr_zero(byte));
      if (position >= n) return Wrong(spec, "padding bits of a bitmap are not 0");
      if (found < positions.size()) positions[found] = static_cast<std::uint32_t>(position);
    }
  }
  if (found == positions.size()) return bytes;
  return Wrong(spec, std::to_string(found) + " bits in a bitmap, expected " +
                         std::to_string(positions.size()));
}

Result<std::size_t> ReadGaps(std::span<const std::byte> in, int parameter, std::size_t n,
                             std::span<std::uint32_t> positions, std::string_view spec) {
  GapReader reader(in);
  std::uint64_t next = 0;
  for (std::uint32_t& position : positions) {
    const std::uint64_t gap = reader.Gap(parameter);
    if (reader.PastTheEnd()) return Wrong(spec, "the gaps end too early");
    if (gap >= n - next) return Wrong(spec, "a gap leads beyond the sample");
    position = static_cast<std::uint32_t>(next + gap);
    next += gap + 1;
  }
  if (reader.RestIsZero()) return reader.bytes();
  return Wrong(spec, "padding bits behind the gaps are not 0");
}

}  // namespace

std::size_t PositionBytesMax(std::size_t n) { return 1 + BitmapBytes(n); }

std::size_t WritePositions(std::span<const std::uint32_t> positions, std::size_t n,
                           std::byte* out) {
  const RiceChoice rice = BestParameter(positions);
  const std::size_t rice_bytes = static_cast<std::size_t>((rice.bits + 7) / 8);
  if (rice_bytes < BitmapBytes(n)) {
    out[0] = static_cast<std::byte>(kRice + rice.parameter);
    GapWriter writer(out + 1);
    ForGaps(positions, [&](std::uint32_t gap) { writer.PutGap(gap, rice.parameter); });
    writer.Finish();
    return 1 + rice_bytes;
  }
  out[0] = std::byte{kBitmap};
  std::memset(out + 1, 0, BitmapBytes(n));
  for (const std::uint32_t position : positions) {
    out[1 + position / 8] |= static_cast<std::byte>(1U << position % 8);
  }
  return 1 + BitmapBytes(n);
}

Result<std::size_t> ReadPositions(std::span<const std::byte> in, std::size_t n,
                                  std::span<std::uint32_t> positions, std::string_view spec) {
  SHOAL_CHECK(positions.size() <= n);
  if (in.empty()) return Wrong(spec, "no bytes");
  const auto form = std::to_integer<std::uint8_t>(in[0]);
  if (form > kRice + kParameterMax) {
    return Wrong(spec, "form " + std::to_string(form) + " is unknown, known are 0 (bitmap) and " +
                           std::to_string(kRice) + " to " + std::to_string(kRice + kParameterMax) +
                           " (gaps)");
  }
  Result<std::size_t> bytes = form == kBitmap
                                  ? ReadBitmap(in.subspan(1), n, positions, spec)
                                  : ReadGaps(in.subspan(1), form - kRice, n, positions, spec);
  if (!bytes.ok()) return bytes.status();
  return 1 + *bytes;
}

}  // namespace shoal::compression
