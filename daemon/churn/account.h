// Account: what became of the time of the machines that were there. Each machine spends all of its
// time on one thing; time that goes to a step is known to be useful, or not, only later. Thread:
// one.

#ifndef SHOAL_DAEMON_CHURN_ACCOUNT_H_
#define SHOAL_DAEMON_CHURN_ACCOUNT_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/clock.h"

namespace shoal::daemon {

enum class Spent : std::uint8_t {
  kTraining,   // the step in progress
  kDetection,  // somebody of the plan is gone: until all know it and the scheduler plans again
  kTransfer,   // saves, fetches, catches up, or waits for those who do
  kIdle,       // has no place, or there are too few machines for a pipeline
};
inline constexpr std::size_t kSpentKinds = 4;

// An applied step.
struct StepWorth {
  std::uint64_t step = 0;
  std::uint32_t micro_batches = 0;
  // Machine-seconds: those that it takes without churn, on all of the run's pipelines, and more for
  // first visits that churn caused.
  double useful_s = 0, first_s = 0;
};

// Machine-seconds; the parts add up to `all`.
struct Balance {
  double all = 0;
  double useful = 0;
  double detection = 0, transfer = 0, idle = 0;
  double repeated = 0;    // applied steps that were trained again
  double unfinished = 0;  // steps that began and were not applied
  double first_visits = 0;
  // Else, what useful steps took longer than without churn; below 0 where fewer pipelines, which
  // fill and empty less often, outweigh that.
  double slower = 0;
  std::uint64_t micro_batches = 0, steps = 0, repeated_steps = 0;

  double Parts() const {
    return useful + detection + transfer + idle + repeated + unfinished + first_visits + slower;
  }
  double Share(double part) const { return all > 0 ? part / all : 0; }
};

class Account {
 public:
  // `machine` does this from now on.
  void Set(std::size_t machine, Spent on, TimePoint now);
  void Leave(std::size_t machine, TimePoint now);
  // What was before does not count, nor do steps before `first_step`.
  void Begin(std::uint64_t first_step, TimePoint now);

  // The step in progress is applied, or comes to nothing.
  void Applied(const StepWorth& worth, TimePoint now);
  void Unfinished(TimePoint now);
  // Steps from `step` on are trained again.
  void BackTo(std::uint64_t step);

  // Up to now, without the step in progress.
  Balance At(TimePoint now);
  // The time of the machines that were there, by another sum.
  double Presence(TimePoint now) const;

 private:
  struct ChurnMachine {
    bool there = false;
    Spent on = Spent::kIdle;
    TimePoint since{}, came{};
  };
  struct Kept {
    StepWorth worth;
    double cost = 0;
  };
  void Settle(TimePoint now);
  void Spend(ChurnMachine* machine, TimePoint now);

  std::vector<ChurnMachine> machines_;
  TimePoint began_{};
  std::uint64_t first_step_ = 0;
  std::array<double, kSpentKinds> spent_{};
  double attempt_ = 0;  // of the step in progress
  double unfinished_ = 0, repeated_ = 0, gone_ = 0;
  std::uint64_t repeated_steps_ = 0;
  std::vector<Kept> kept_;  // in order of steps
};

}  // namespace shoal::daemon

#endif  // SHOAL_DAEMON_CHURN_ACCOUNT_H_
