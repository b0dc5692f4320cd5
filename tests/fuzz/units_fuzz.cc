// Units and ids as people type them: whatever is accepted must print, and read back the same.

#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "common/ids.h"
#include "common/units.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (auto rate = shoal::ParseRate(text); rate.ok() && shoal::FormatRate(*rate).empty()) abort();
  if (auto bytes = shoal::ParseBytes(text); bytes.ok() && shoal::FormatBytes(*bytes).empty()) {
    abort();
  }
  if (auto time = shoal::ParseDuration(text); time.ok() && shoal::FormatDuration(*time).empty()) {
    abort();
  }
  if (auto run = shoal::RunId::FromHex(text); run.ok()) {
    if (shoal::RunId::FromHex(run->ToHex()).value() != *run) abort();
  }
  if (auto peer = shoal::PeerId::FromHex(text); peer.ok()) {
    if (shoal::PeerId::FromHex(peer->ToHex()).value() != *peer) abort();
  }
  return 0;
}
