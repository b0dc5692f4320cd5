// The faults of `shoal chaos`: which come, and what each of them cost. Pure. Thread: any.

#ifndef SHOAL_CLIENT_CHAOS_FAULTS_H_
#define SHOAL_CLIENT_CHAOS_FAULTS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "client/chaos_options.h"
#include "common/status.h"

namespace shoal::client {

// As options and reports name them.
enum class FaultKind : std::uint8_t {
  kKill,       // SIGKILL of a peer, which is started again after a while
  kStop,       // SIGSTOP of a peer, SIGCONT after a while
  kScheduler,  // SIGKILL of the scheduler, which is started again
  kPause,      // `shoal pause` of a peer, then `shoal resume`
  kThrottle,   // a slow line of a peer, then none
  kCut,        // nothing comes to a peer or from it, and nobody is told
  kDiskFull,   // nothing more fits into a peer's folder
};
std::string FaultKindName(FaultKind kind);
// Invalid argument for names that are none.
Result<std::vector<FaultKind>> ParseFaultKinds(const std::vector<std::string>& names);

struct Fault {
  FaultKind kind = FaultKind::kKill;
  std::size_t peer = 0;     // not for the scheduler
  double seconds = 0;       // until it is undone
  double wait_seconds = 0;  // before it
};
class FaultSource {
 public:
  FaultSource(std::vector<FaultKind> kinds, std::size_t peers, std::uint64_t seed)
      : kinds_(std::move(kinds)), peers_(peers), random_(seed) {}
  Fault Next();

 private:
  const std::vector<FaultKind> kinds_;
  const std::size_t peers_;
  std::mt19937_64 random_;
};

// What a fault cost, by the run's step as it is seen from time to time. It is over with the second
// further step: the first may have been under way when the fault came.
struct FaultCost {
  Fault fault;
  std::string role;              // "stage 1, pipeline 0", "spare", "scheduler"
  std::uint64_t step = 0;        // applied when it came
  bool whole = true;             // all pipelines trained then: every stage had another holder
  std::uint64_t steps_lost = 0;  // trained again
  // The longest time without a further step; steps that are trained again are none.
  double seconds_to_next_step = 0;

  FaultCost(Fault of, std::string at, std::uint64_t applied)
      : fault(of), role(std::move(at)), step(applied), most_(applied) {}
  // The run is at this step, so long after the fault.
  void See(std::uint64_t now, double seconds);
  bool over() const { return most_ >= step + 2; }

 private:
  std::uint64_t most_ = 0;  // steps seen
  double progress_ = 0;     // seconds at the newest of them
};

struct KindSummary {
  std::size_t faults = 0;
  double median_seconds = 0, most_seconds = 0;  // to the next step
  std::uint64_t steps_lost = 0;
};
// By kind name.
std::map<std::string, KindSummary> Summarise(const std::vector<FaultCost>& costs);

}  // namespace shoal::client

#endif  // SHOAL_CLIENT_CHAOS_FAULTS_H_
