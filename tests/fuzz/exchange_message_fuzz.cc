// Messages inside a stage group from foreign hands: headers, and payloads of `onebit`, of which
// what is accepted seals and encodes to the same again. Codecs have a fuzz target of their own.

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <vector>

#include "replica/collective/chunk_coders.h"
#include "replica/collective/exchange_message.h"

namespace {

using namespace shoal::collective;

void FuzzMessage(std::span<const std::byte> bytes) {
  const auto header = ParseMessageHeader(bytes);
  if (!header.ok()) return;
  std::vector<std::byte> again(bytes.begin(), bytes.end());
  SealMessage(*header, again);
  if (!CheckMessagePayload(again).ok()) abort();
  const auto parsed = ParseMessageHeader(again);
  if (!parsed.ok() || !(*parsed == *header)) abort();
  // All but the checksum, which a foreign message has wrong, comes back.
  if (std::memcmp(again.data(), bytes.data(), kMessageHeaderBytes - 8) != 0) abort();
}

// The first byte chooses the number of values, the second the bucket.
void FuzzOneBit(std::span<const std::byte> bytes) {
  if (bytes.size() < 2) return;
  const unsigned count = 1 + std::to_integer<unsigned>(bytes[0]);
  const unsigned bucket = std::to_integer<unsigned>(bytes[1]);
  const std::string spec = bucket == 0 ? "onebit" : "onebit:bucket=" + std::to_string(bucket);
  const auto coder = MakeChunkCoder(spec, 16);
  if (!coder.ok()) abort();
  std::vector<float> values(count);
  if (!(*coder)->Decode(bytes.subspan(2), {}, values).ok()) return;
  for (const float value : values) {
    if (!std::isfinite(value)) abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  FuzzMessage(bytes);
  FuzzOneBit(bytes);
  return 0;
}
