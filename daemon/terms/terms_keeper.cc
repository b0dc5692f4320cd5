#include "daemon/terms/terms_keeper.h"

#include <algorithm>
#include <utility>

#include "common/file.h"
#include "common/log.h"

namespace shoal::daemon {
namespace {

constexpr Duration kLookEvery = std::chrono::seconds(1);
constexpr Duration kAskEvery = std::chrono::seconds(4);
// A crash loses the count of so much.
constexpr Duration kSaveEvery = std::chrono::minutes(10);
constexpr std::uint64_t kSaveBytes = 256'000'000;
constexpr std::uint64_t kSaveBytesMin = 1'000'000;
constexpr std::uint64_t kSavesPerBudget = 500;
constexpr Duration kNewest = std::chrono::minutes(1);
constexpr Duration kSleepMin = std::chrono::seconds(2);

}  // namespace

TermsKeeper::TermsKeeper(Executor* control, Executor* store, std::string file,
                         const Machine* machine, UsageLedger ledger, Owner* owner)
    : control_(control),
      store_(store),
      file_(std::move(file)),
      machine_(machine),
      owner_(owner),
      lives_(std::make_shared<bool>(true)),
      ledger_(std::move(ledger)) {}

TermsKeeper::~TermsKeeper() { *lives_ = false; }

void TermsKeeper::Close() {
  SHOAL_ASSERT_ON(*control_);
  *lives_ = false;
}

std::int64_t TermsKeeper::now_ms() const {
  SHOAL_ASSERT_ON(*control_);
  return machine_ != nullptr ? machine_->UnixMs() : 0;
}

void TermsKeeper::Begin(const std::string& gpu_user) {
  SHOAL_ASSERT_ON(*control_);
  if (machine_ == nullptr) return Decide();
  saved_at_ = counted_at_ = asked_at_ = control_->clock().Now();
  const TermSettings settings = owner_->Terms(now_ms());
  // Seen before anything begins: what would end at once had better not begin.
  const ProgramSight programs = machine_->Look(settings.exclusive);
  last_program_ = programs.running;
  observed_.hidden = programs.hidden;
  if (program_.Update(!last_program_.empty(), asked_at_)) observed_.program = last_program_;
  const bool on_battery = machine_->OnBattery();
  battery_.Update(on_battery, asked_at_ - kBatteryDelay);
  observed_.on_battery = battery_.Update(on_battery, asked_at_);
  (void)GpuUserThatCounts(gpu_user, asked_at_ - kGpuUserDelay);
  observed_.gpu_user = GpuUserThatCounts(gpu_user, asked_at_);
  Look();
}

void TermsKeeper::Look() {
  SHOAL_ASSERT_ON(*control_);
  Count();
  AskMachine();
  const UnixSeconds now = now_ms() / 1000;
  const bool clock_says =
      now / 60 != decided_minute_ || (allowed_.next_change && now >= *allowed_.next_change);
  if (clock_says || BudgetRunsOut()) Decide();
  NoticeSleep();
  SaveSometimes();
  owner_->OnSecond(now_ms());
  control_->PostAfter("daemon.terms", kLookEvery, [this, lives = lives_] {
    if (*lives) Look();
  });
}

bool TermsKeeper::BudgetRunsOut() const {
  if (allowed_.budget_bytes == 0 || !allowed_.trains()) return false;
  return MonthBytes() + Reserve(allowed_.budget_bytes) >= allowed_.budget_bytes;
}

std::uint64_t TermsKeeper::MonthBytes() const {
  const Usage month = ledger_.Month(machine_->calendar().At(now_ms() / 1000));
  return month.sent_bytes + month.received_bytes;
}

// The stage, and a minute of steps, until it is saved. A stage of more than half the budget would
// never train.
std::uint64_t TermsKeeper::Reserve(std::uint64_t budget) const {
  std::uint64_t bytes = owner_->HandoverBytes();
  if (bytes == 0) return 0;
  for (const auto& [when, added] : newest_bytes_) bytes += added;
  return std::min(bytes, budget / 2);
}

void TermsKeeper::StopByBudget(std::uint64_t budget) {
  const Calendar& calendar = machine_->calendar();
  const UnixSeconds resets = calendar.NextMonth(calendar.At(now_ms() / 1000));
  if (stop_ && (stop_->budget != budget || stop_->resets != resets)) stop_.reset();
  observed_.month_bytes = MonthBytes();
  observed_.reserve_bytes = stop_ ? stop_->reserve : Reserve(budget);
  const std::uint64_t with_reserve = observed_.month_bytes + observed_.reserve_bytes;
  if (stop_ || budget == 0 || with_reserve < budget) return;
  stop_ = {budget, observed_.reserve_bytes, std::max(budget, with_reserve), resets};
}

bool TermsKeeper::BudgetSpent() const {
  SHOAL_ASSERT_ON(*control_);
  return stop_ && MonthBytes() >= stop_->most;
}

// Steady time stands still meanwhile.
void TermsKeeper::NoticeSleep() {
  const TimePoint now = control_->clock().Now();
  const Duration boot = machine_->SinceBoot();
  const auto before = std::exchange(awake_, std::pair{now, boot});
  if (!before) return;
  const Duration slept = (boot - before->second) - (now - before->first);
  if (slept < kSleepMin) return;
  SHOAL_LOG(kInfo, "daemon", "slept", {"for", FormatDuration(slept)});
  owner_->OnSlept(slept);
}

void TermsKeeper::Decide() {
  SHOAL_ASSERT_ON(*control_);
  const TermSettings settings = owner_->Terms(now_ms());
  const Allowed before = allowed_;
  if (machine_ == nullptr) {
    allowed_.upload = settings.upload;
    allowed_.download = settings.download;
  } else {
    const UnixSeconds now = now_ms() / 1000;
    StopByBudget(settings.budget_bytes);
    if (settings.exclusive.empty()) observed_.program.clear();
    if (!settings.gpu_free) {
      observed_.gpu_user.clear();
      gpu_.Forget();
    }
    allowed_ = ::shoal::daemon::Decide(settings, observed_, machine_->calendar(), now);
    decided_minute_ = now / 60;
  }
  if (allowed_ == before) return;
  if (allowed_.pause_text != before.pause_text || allowed_.upload != before.upload ||
      allowed_.download != before.download) {
    SHOAL_LOG(kInfo, "daemon", "terms",
              {"now", allowed_.rules.empty() ? "no rule holds" : allowed_.rules.front()},
              {"upload", FormatRate(allowed_.upload)}, {"download", FormatRate(allowed_.download)});
  }
  owner_->OnTerms();
}

void TermsKeeper::AskMachine() {
  const TimePoint now = control_->clock().Now();
  if (asks_ || now - asked_at_ < kAskEvery) return;
  asks_ = true;
  asked_at_ = now;
  std::vector<std::string> programs = owner_->Terms(now_ms()).exclusive;
  store_->Post("terms.look", [this, lives = lives_, machine = machine_, control = control_,
                              programs = std::move(programs)] {
    const ProgramSight sight = machine->Look(programs);
    const bool on_battery = machine->OnBattery();
    control->Post("terms.seen", [this, lives, sight, on_battery] {
      if (*lives) OnAnswer(sight, on_battery);
    });
  });
}

void TermsKeeper::OnAnswer(const ProgramSight& programs, bool on_battery) {
  asks_ = false;
  const TimePoint now = control_->clock().Now();
  if (!programs.running.empty()) last_program_ = programs.running;
  const std::string counts = program_.Update(!programs.running.empty(), now) ? last_program_ : "";
  const bool battery = battery_.Update(on_battery, now);
  if (counts == observed_.program && battery == observed_.on_battery &&
      programs.hidden == observed_.hidden) {
    return;
  }
  observed_.hidden = programs.hidden;
  observed_.program = counts;
  observed_.on_battery = battery;
  Decide();
}

std::string TermsKeeper::GpuUserThatCounts(const std::string& program, TimePoint now) {
  const std::optional<Duration> free = owner_->Terms(now_ms()).gpu_free;
  if (!free) return "";
  gpu_.EndAfter(*free);
  if (!program.empty()) last_gpu_user_ = program;
  return gpu_.Update(!program.empty(), now) ? last_gpu_user_ : "";
}

void TermsKeeper::OnGpuUser(const std::string& program) {
  SHOAL_ASSERT_ON(*control_);
  if (machine_ == nullptr) return;
  const std::string counts = GpuUserThatCounts(program, control_->clock().Now());
  if (counts == observed_.gpu_user) return;
  observed_.gpu_user = counts;
  Decide();
}

// What was added since the last look counts for today.
void TermsKeeper::Count() {
  SHOAL_ASSERT_ON(*control_);
  if (machine_ == nullptr) return;
  const TimePoint now = control_->clock().Now();
  const Usage all = owner_->Measured();
  const auto more = [](std::uint64_t now_at, std::uint64_t before) {
    return now_at > before ? now_at - before : 0;
  };
  Usage added;
  added.sent_bytes = more(all.sent_bytes, counted_.sent_bytes);
  added.received_bytes = more(all.received_bytes, counted_.received_bytes);
  added.micro_batches = more(all.micro_batches, counted_.micro_batches);
  added.energy_joules = more(all.energy_joules, counted_.energy_joules);
  if (owner_->Trains()) {
    added.trained_ms = static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::milliseconds>(now - counted_at_).count());
  }
  counted_ = all;
  counted_at_ = now;
  while (!newest_bytes_.empty() && now - newest_bytes_.front().first > kNewest) {
    newest_bytes_.pop_front();
  }
  if (added == Usage{}) return;
  newest_bytes_.emplace_back(now, added.sent_bytes + added.received_bytes);
  ledger_.Add(machine_->calendar().At(now_ms() / 1000), added);
  unsaved_ = true;
  unsaved_bytes_ += added.sent_bytes + added.received_bytes;
}

void TermsKeeper::SaveSometimes() {
  const std::uint64_t budget = allowed_.budget_bytes;
  const std::uint64_t bytes =
      budget > 0 ? std::clamp(budget / kSavesPerBudget, kSaveBytesMin, kSaveBytes) : kSaveBytes;
  if (!unsaved_ || (counted_at_ - saved_at_ < kSaveEvery && unsaved_bytes_ < bytes)) return;
  Save();
}

void TermsKeeper::Save() {
  SHOAL_ASSERT_ON(*control_);
  if (machine_ == nullptr) return;
  Count();
  if (!unsaved_) return;
  unsaved_ = false;
  unsaved_bytes_ = 0;
  saved_at_ = counted_at_;
  store_->Post("terms.save", [path = file_, text = ledger_.Text()] {
    const Status status = WriteFileAtomic(path, text, 0600);
    if (status.ok()) return;
    SHOAL_LOG(kWarning, "daemon", "usage.not_written", {"error", status.message()});
  });
}

std::string TermsKeeper::NameOf(std::int64_t then_ms) const {
  SHOAL_ASSERT_ON(*control_);
  if (machine_ == nullptr) return "";
  return NameOfTime(machine_->calendar(), now_ms() / 1000, (then_ms + 999) / 1000);
}

}  // namespace shoal::daemon
