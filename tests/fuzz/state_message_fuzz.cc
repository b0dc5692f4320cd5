// Messages with a stage's state from foreign hands: what is accepted lies in the stage and is as
// long as it says.

#include <cstdint>
#include <cstdlib>
#include <span>

#include "replica/state/state_message.h"

using namespace shoal::replica;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::size_t kStateSize = 1000;
  const auto parsed = ParseStateMessage(std::as_bytes(std::span(data, size)), kStateSize);
  if (!parsed.ok()) return 0;
  if (parsed->first + parsed->values > kStateSize) abort();
  if (NewStateMessage(*parsed).size() != size) abort();
  return 0;
}
