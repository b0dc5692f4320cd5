// Messages about units of parameters: whatever comes, the parser ends, and what it takes is sealed
// to the same bytes again.

#include <cstdlib>
#include <cstring>
#include <vector>

#include "replica/collective/units/unit_message.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::vector<std::byte> message(size);
  if (size > 0) std::memcpy(message.data(), data, size);
  const auto header = shoal::collective::ParseUnitMessage(message);
  if (!header.ok()) return 0;
  std::vector<std::byte> again = message;
  shoal::collective::SealUnitMessage(*header, again);
  if (again != message) std::abort();
  return 0;
}
