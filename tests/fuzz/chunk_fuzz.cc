// Chunks of a bulk stream: the input is a row of messages (u16 length, bytes) of one direction.

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "common/bytes.h"
#include "net/links/chunk.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::uint64_t kFrameBytesMax = 1 << 20;
  std::span<const std::byte> rest = std::as_bytes(std::span(data, size));
  // The run and generation of an empty header, so that frames get past that check.
  shoal::net::FrameAssembler assembler(shoal::RunId{0}, 0, kFrameBytesMax);
  while (rest.size() >= 2) {
    const std::size_t length =
        std::min<std::size_t>(shoal::LoadLittle<std::uint16_t>(rest.data()), rest.size() - 2);
    const std::span<const std::byte> message = rest.subspan(2, length);
    rest = rest.subspan(2 + length);
    // In two slices: the cut may fall anywhere.
    const std::size_t cut = length / 3;
    const auto chunk = shoal::net::ParseChunk({message.subspan(0, cut), message.subspan(cut)});
    if (!chunk.ok()) continue;
    if (chunk->payload_bytes > message.size()) std::abort();
    const auto frame = assembler.Add(*chunk);
    if (!frame.ok()) return 0;
    if (*frame && (*frame)->payload.size() > kFrameBytesMax) std::abort();
  }
  return 0;
}
