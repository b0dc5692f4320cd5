#include "storage/history/history_keeper.h"

#include <chrono>
#include <cstdio>
#include <utility>

#include "common/file.h"
#include "common/log.h"

namespace shoal::storage {
namespace {

// A crash loses so much; a file of 44 KB.
constexpr Duration kWriteEvery = std::chrono::minutes(10);

std::uint64_t More(std::uint64_t now, std::uint64_t before) {
  return now > before ? now - before : 0;
}

}  // namespace

Result<UsageHistory> OpenHistory(const std::string& path) {
  const Result<std::string> bytes = ReadFile(path, kHistoryFileBytesMax);
  if (bytes.status().code() == StatusCode::kNotFound) return UsageHistory();
  const bool too_large = bytes.status().code() == StatusCode::kResourceExhausted;
  if (!bytes.ok() && !too_large) return bytes.status();
  Result<UsageHistory> history =
      bytes.ok() ? UsageHistory::Parse(*bytes) : Result<UsageHistory>(DataLoss("it is too large"));
  if (history.ok()) return history;
  const std::string aside = path + ".damaged";
  const bool moved = std::rename(path.c_str(), aside.c_str()) == 0;
  SHOAL_LOG(kWarning, "storage", "history.damaged", {"error", history.status().message()},
            {"now", moved ? "begun anew; the old one lies in " + aside : "begun anew"});
  return UsageHistory();
}

HistoryKeeper::HistoryKeeper(Executor* control, Executor* store, std::string file,
                             UsageHistory history)
    : control_(control), store_(store), file_(std::move(file)), history_(std::move(history)) {}

void HistoryKeeper::Look(std::int64_t now_ms, const HistoryCounts& total, std::uint64_t step,
                         double loss) {
  SHOAL_ASSERT_ON(*control_);
  const TimePoint now = control_->clock().Now();
  if (!counted_) {
    counted_ = total;
    saved_at_ = now;
  }
  HistoryCounts more;
  more.trained_ms = More(total.trained_ms, counted_->trained_ms);
  more.micro_batches = More(total.micro_batches, counted_->micro_batches);
  more.sent_bytes = More(total.sent_bytes, counted_->sent_bytes);
  more.received_bytes = More(total.received_bytes, counted_->received_bytes);
  counted_ = total;
  const bool stepped = step != step_ && loss != 0;  // 0: not known
  step_ = step;
  history_.Add(now_ms, more, stepped ? std::optional(loss) : std::nullopt);
  unsaved_ = true;
  if (now - saved_at_ >= kWriteEvery) Save();
}

void HistoryKeeper::Save() {
  SHOAL_ASSERT_ON(*control_);
  if (!unsaved_) return;
  unsaved_ = false;
  saved_at_ = control_->clock().Now();
  store_->Post("history.save", [path = file_, bytes = history_.Bytes()] {
    const Status status = WriteFileAtomic(path, bytes, 0600);
    if (status.ok()) return;
    SHOAL_LOG(kWarning, "storage", "history.not_written", {"error", status.message()});
  });
}

Result<std::string> HistoryKeeper::Json(std::string_view query, std::int64_t now_ms) const {
  SHOAL_ASSERT_ON(*control_);
  return HistoryJson(history_, query, now_ms);
}

}  // namespace shoal::storage
