// Foreign text: what a peer says of itself, how deep it nests, and how it is shown.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "common/nesting.h"
#include "common/text.h"
#include "scheduler/peers/peer_status.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::string clean = shoal::CleanText(text, 100);
  if (clean.size() > 100 || shoal::CleanText(clean, 100) != clean) std::abort();
  const auto status = shoal::scheduler::FitPeerStatus(text);
  if (status.ok()) {
    // What fits is not changed by fitting again, and nests no deeper than allowed.
    const auto again = shoal::scheduler::FitPeerStatus(*status);
    if (!again.ok() || *again != *status) std::abort();
  }
  (void)shoal::TomlKeysNestDeeper(text, shoal::kTomlKeyPartsMax);
  return 0;
}
