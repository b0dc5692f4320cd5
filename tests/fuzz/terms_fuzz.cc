// Settings of an owner's terms as people type them, orders of the page, and the files of what
// taking part cost and of its history: whatever is accepted decides within bounds, and what is
// written reads back the same.

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "daemon/terms/page_order.h"
#include "daemon/terms/terms.h"
#include "daemon/terms/usage_ledger.h"
#include "storage/history/usage_history.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace shoal::daemon;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const UnixSeconds now = 1'767'567'600;
  for (const std::string& key : TermKeys()) {
    TermSettings settings;
    if (!ApplyTerm(key, text, &settings).ok()) continue;
    const Allowed allowed = Decide(settings, {}, SystemCalendar(), now);
    if (allowed.next_change && *allowed.next_change <= now) abort();
    if (allowed.trains() != allowed.pause_text.empty()) abort();
  }
  if (const auto ledger = UsageLedger::Parse(text); ledger.ok()) {
    const std::string written = ledger->Text();
    if (UsageLedger::Parse(written).value().Text() != written) abort();
    if (ledger->Month(SystemCalendar().At(now)).sent_bytes > 1ull << 62) abort();
  }
  if (const auto order = ParsePageOrder(text); order.ok()) {
    if (order->command == "resume" && !order->arguments.empty()) abort();
    if (order->arguments.size() > 64) abort();
  }
  if (auto history = shoal::storage::UsageHistory::Parse(text); history.ok()) {
    if (history->Bytes() != text) abort();
    if (!shoal::storage::HistoryJson(*history, "span=7d", now * 1000).ok()) abort();
    history->Add(now * 1000, {1, 1, ~0ull, 1}, 1.0);
    if (!shoal::storage::UsageHistory::Parse(history->Bytes()).ok()) abort();
  }
  return 0;
}
