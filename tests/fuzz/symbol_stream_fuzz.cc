// Code streams from foreign hands. Input: a byte for the width, one for the number of codes, then
// the stream. What is read must be in range and, written again, be read as the same.

#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "compression/entropy/rans.h"
#include "compression/entropy/symbol_stream.h"

namespace {

using shoal::compression::EntropyCoder;
using shoal::compression::ReadSymbols;
using shoal::compression::SymbolBytesMax;
using shoal::compression::WriteSymbols;

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const int bits = 2 + data[0] % 7;
  // A third of the streams has as many lanes as long ones have.
  const std::size_t few = data[1];
  const std::size_t n = data[0] % 3 == 0 ? shoal::compression::kRansManySymbols + few : few;
  std::vector<std::uint8_t> codes(n);
  // Exactly the bytes given, so that reading one too many is seen.
  const auto all = std::as_bytes(std::span(data, size));
  const std::vector<std::byte> in(all.begin() + 2, all.end());
  if (!ReadSymbols(in, bits, codes, "fuzz").ok()) return 0;
  for (const std::uint8_t code : codes) {
    if (code >> bits != 0) abort();
  }
  for (const EntropyCoder coder : {EntropyCoder::kNone, EntropyCoder::kZstd, EntropyCoder::kRans}) {
    std::vector<std::byte> out(SymbolBytesMax(coder, n, bits));
    out.resize(WriteSymbols(coder, codes, bits, out));
    std::vector<std::uint8_t> again(n);
    if (!ReadSymbols(out, bits, again, "fuzz").ok() || again != codes) abort();
  }
  return 0;
}
