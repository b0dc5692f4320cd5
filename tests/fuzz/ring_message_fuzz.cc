// Headers of ring messages from foreign hands: what is accepted is written back the same.

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "replica/collective/ring/ring_message.h"

using namespace shoal::collective;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::byte> message = std::as_bytes(std::span(data, size));
  const auto header = ReadRingHeader(message);
  if (!header.ok()) return 0;
  std::vector<std::byte> again(kRingHeaderBytes);
  WriteRingHeader(*header, again);
  if (!std::ranges::equal(again, message.first(kRingHeaderBytes))) abort();
  return 0;
}
