// TermsKeeper: looks at clock and machine every second, decides what the owner's terms allow, and
// counts what taking part costs.

#ifndef SHOAL_DAEMON_TERMS_TERMS_KEEPER_H_
#define SHOAL_DAEMON_TERMS_TERMS_KEEPER_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "common/executor.h"
#include "daemon/terms/lasting.h"
#include "daemon/terms/machine.h"
#include "daemon/terms/terms.h"
#include "daemon/terms/usage_ledger.h"

namespace shoal::daemon {

// Thread: control.
class TermsKeeper {
 public:
  class Owner {
   public:
    virtual ~Owner() = default;
    virtual TermSettings Terms(std::int64_t now_ms) const = 0;  // that are in force
    // Since this process began, without trained_ms.
    virtual Usage Measured() const = 0;
    virtual bool Trains() const = 0;
    // Most that saving the stage may send, for a pause that loses no step; 0: there is nothing to
    // save.
    virtual std::uint64_t HandoverBytes() const { return 0; }
    virtual void OnTerms() = 0;  // allowed() has changed
    virtual void OnSecond(std::int64_t now_ms) = 0;
    virtual void OnSlept(Duration slept) = 0;  // the machine, and nothing ran
  };

  // `store` reads /proc and writes the ledger to `file`. Without a machine only caps are kept.
  TermsKeeper(Executor* control, Executor* store, std::string file, const Machine* machine,
              UsageLedger ledger, Owner* owner);
  ~TermsKeeper();

  // Looks at once, then every second. `gpu_user`: who else works on the GPU already.
  void Begin(const std::string& gpu_user = "");
  // Who else works on the GPU now; empty: nobody.
  void OnGpuUser(const std::string& program);
  // After settings have changed: says OnTerms if that changes what is allowed.
  void Decide();
  // Up to this moment.
  void Count();
  // The budget paused this peer, and the hand-over has taken what was kept for it.
  bool BudgetSpent() const;
  // Counts and writes what is not yet written.
  void Save();
  // Looks no more.
  void Close();

  std::int64_t now_ms() const;
  const Allowed& allowed() const {
    SHOAL_ASSERT_ON(*control_);
    return allowed_;
  }
  const UsageLedger& ledger() const {
    SHOAL_ASSERT_ON(*control_);
    return ledger_;
  }
  // "18:00", as of now.
  std::string NameOf(std::int64_t then_ms) const;

 private:
  void Look();
  void SaveSometimes();
  void AskMachine();
  void OnAnswer(const ProgramSight& programs, bool on_battery);
  std::string GpuUserThatCounts(const std::string& program, TimePoint now);
  bool BudgetRunsOut() const;
  std::uint64_t MonthBytes() const;
  std::uint64_t Reserve(std::uint64_t budget) const;
  void StopByBudget(std::uint64_t budget);
  void NoticeSleep();

  Executor* const control_;
  Executor* const store_;
  const std::string file_;
  const Machine* const machine_;
  Owner* const owner_;
  const std::shared_ptr<bool> lives_;  // what is posted asks

  UsageLedger ledger_;
  Usage counted_;  // of Measured
  std::uint64_t unsaved_bytes_ = 0;
  bool unsaved_ = false;
  TimePoint saved_at_{}, counted_at_{}, asked_at_{};
  bool asks_ = false;
  Lasting program_{Duration::zero(), kResumeDelay}, battery_{kBatteryDelay, kResumeDelay};
  Lasting gpu_{kGpuUserDelay, kResumeDelay};
  TermObservations observed_;
  std::string last_program_, last_gpu_user_;
  std::deque<std::pair<TimePoint, std::uint64_t>> newest_bytes_;  // of a minute
  // Until the month or the budget is another: what is left is not for a new stage.
  struct BudgetStop {
    std::uint64_t budget = 0, reserve = 0, most = 0;  // most: used bytes, with the hand-over
    UnixSeconds resets = 0;
  };
  std::optional<BudgetStop> stop_;
  Allowed allowed_;
  std::int64_t decided_minute_ = -1;
  std::optional<std::pair<TimePoint, Duration>> awake_;  // the last look, by both clocks
};

}  // namespace shoal::daemon

#endif  // SHOAL_DAEMON_TERMS_TERMS_KEEPER_H_
