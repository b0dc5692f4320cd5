#include "scheduler/tracking/run_activity.h"

#include <cmath>
#include <utility>

namespace shoal::scheduler {

Result<std::unique_ptr<RunActivity>> RunActivity::Open(const std::string& directory, Parts parts) {
  const std::string file = directory + "/history.bin";
  SHOAL_ASSIGN_OR_RETURN(storage::UsageHistory history, storage::OpenHistory(file));
  return std::unique_ptr<RunActivity>(new RunActivity(std::move(parts), file, std::move(history)));
}

RunActivity::RunActivity(Parts parts, std::string file, storage::UsageHistory history)
    : parts_(std::move(parts)),
      keeper_(parts_.control, parts_.store, std::move(file), std::move(history)) {}

void RunActivity::Applied(std::uint64_t step, double loss, std::uint64_t micro_batches) {
  SHOAL_ASSERT_ON(*parts_.control);
  step_ = step;
  loss_ = loss;
  total_.micro_batches += micro_batches;
}

void RunActivity::Tick(bool training, const Members& members) {
  SHOAL_ASSERT_ON(*parts_.control);
  const TimePoint now = parts_.control->clock().Now();
  const bool first = !ticked_at_;
  if (training && !first) trained_ += now - *ticked_at_;
  ticked_at_ = now;
  if (first || now - looked_at_ >= kLookEvery) {
    looked_at_ = now;
    total_.trained_ms = static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::milliseconds>(trained_).count());
    keeper_.Look(parts_.now_ms(), total_, step_, loss_);
  }
  if (metering_ || (!first && now - metered_at_ < kMeterEvery)) return;
  metered_at_ = now;
  metering_ = true;
  // The members' texts are parsed where nobody waits.
  parts_.store->Post("activity.meter", [this, meter = meter_, members = members()] {
    const double sent_bytes = meter->Look(members).sent_bytes;
    parts_.control->Post("activity.metered", [this, sent_bytes] {
      metering_ = false;
      total_.sent_bytes = static_cast<std::uint64_t>(std::llround(sent_bytes));
    });
  });
}

Result<std::string> RunActivity::Json(std::string_view query) const {
  SHOAL_ASSERT_ON(*parts_.control);
  return keeper_.Json(query, parts_.now_ms());
}

}  // namespace shoal::scheduler
