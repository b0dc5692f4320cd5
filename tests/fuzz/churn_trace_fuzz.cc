// A trace of machines that come and go, in either form: whatever is read keeps its promises.

#include <cstdint>
#include <cstdlib>
#include <set>

#include "daemon/churn/trace.h"

namespace {

void Check(const shoal::daemon::ChurnTrace& trace) {
  std::set<std::uint32_t> there;
  shoal::Duration last{};
  for (const shoal::daemon::ChurnEvent& event : trace.events) {
    if (event.at < last || event.at > trace.length || event.machine >= trace.machines) std::abort();
    last = event.at;
    const bool changed =
        event.comes ? there.insert(event.machine).second : there.erase(event.machine) > 0;
    if (!changed || there.size() > shoal::daemon::kTraceMachinesMax) std::abort();
  }
  const double whole = shoal::daemon::WholePipelines(trace, 4, 16, {});
  const double late = shoal::daemon::WholePipelines(trace, 4, 16, std::chrono::seconds(9));
  if (!(late >= 0 && late <= whole + 1e-9 && whole <= 1 + 1e-9)) std::abort();
  if (shoal::daemon::Compress(trace, 7).events.size() != trace.events.size()) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const std::uint64_t seed : {0u, 1u}) {
    const auto trace = shoal::daemon::ParseTrace(text, seed);
    if (trace.ok()) Check(*trace);
  }
  return 0;
}
