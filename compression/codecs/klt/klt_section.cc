#include "compression/codecs/klt/klt_section.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <string>
#include <vector>

#include "compression/entropy/symbol_stream.h"

namespace shoal::compression {
namespace {

constexpr std::size_t kHeadBytes = 4;  // u16 rank, u8 exponent, u8 bits of a code
constexpr int kReflectorBitsMax = 8;

// Visits the codes that count, in the order in which they are sent.
template <typename Codes, typename Visit>
void ForEachCode(Codes& codes, Visit visit) {
  for (std::size_t k = 0; k < codes.rank; ++k) {
    for (std::size_t h = k + 1; h < codes.hidden; ++h) visit(codes.codes[k * codes.hidden + h]);
  }
}

}  // namespace

std::size_t ReflectorBytesMax(std::size_t rank, std::uint32_t hidden) {
  return kHeadBytes +
         SymbolBytesMax(EntropyCoder::kRans, ReflectorCodeCount(rank, hidden), kReflectorBitsMax);
}

std::size_t WriteReflectors(const ReflectorCodes& codes, std::span<std::byte> out) {
  if (codes.rank == 0) return 0;
  int most = 0;
  ForEachCode(codes, [&](std::int8_t code) { most = std::max(most, std::abs(int{code})); });
  const int bits = std::bit_width(static_cast<unsigned>(most)) + 1;
  std::vector<std::uint8_t> symbols;
  symbols.reserve(ReflectorCodeCount(codes.rank, codes.hidden));
  ForEachCode(codes, [&](std::int8_t code) {
    symbols.push_back(static_cast<std::uint8_t>(code + (1 << (bits - 1))));
  });
  out[0] = static_cast<std::byte>(codes.rank & 0xff);
  out[1] = static_cast<std::byte>(codes.rank >> 8);
  out[2] = static_cast<std::byte>(codes.exponent);
  out[3] = static_cast<std::byte>(bits);
  return kHeadBytes + WriteSymbols(EntropyCoder::kRans, symbols, bits, out.subspan(kHeadBytes));
}

Result<ReflectorCodes> ReadReflectors(std::span<const std::byte> in, std::size_t rank_most,
                                      std::uint32_t hidden, std::string_view spec) {
  ReflectorCodes codes;
  codes.hidden = hidden;
  if (in.empty()) return codes;
  const auto wrong = [&](const char* what) {
    return InvalidArgument("codec " + std::string(spec) + ": " + what +
                           "; drop the message and ask for it again");
  };
  if (in.size() < kHeadBytes) return wrong("the reflectors are cut off");
  const auto byte = [&](std::size_t i) { return std::to_integer<std::size_t>(in[i]); };
  codes.rank = byte(0) + 256 * byte(1);
  if (codes.rank == 0 || codes.rank > rank_most || codes.rank >= hidden) {
    return wrong("the message has more reflectors than its spec allows");
  }
  if (byte(2) > kReflectorExponentMost || byte(3) < 1 || byte(3) > kReflectorBitsMax) {
    return wrong("the scale of the reflectors is broken");
  }
  codes.exponent = static_cast<int>(byte(2));
  const int bits = static_cast<int>(byte(3));
  std::vector<std::uint8_t> symbols(ReflectorCodeCount(codes.rank, hidden));
  SHOAL_RETURN_IF_ERROR(ReadSymbols(in.subspan(kHeadBytes), bits, symbols, spec));
  codes.codes.resize(codes.rank * hidden);
  const std::uint8_t* from = symbols.data();
  bool small = true;
  ForEachCode(codes, [&](std::int8_t& code) {
    const int value = *from++ - (1 << (bits - 1));
    small = small && value >= -kReflectorCodeMost;
    code = static_cast<std::int8_t>(value);
  });
  if (!small) return wrong("a code of the reflectors is out of range");
  return codes;
}

}  // namespace shoal::compression
