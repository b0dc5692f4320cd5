// What `shoal chaos` found, and how it is printed.

#ifndef SHOAL_CLIENT_CHAOS_REPORT_H_
#define SHOAL_CLIENT_CHAOS_REPORT_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "client/chaos_faults.h"
#include "client/chaos_leaks.h"
#include "client/chaos_options.h"

namespace shoal::client {

struct ChaosReport {
  std::vector<FaultCost> faults;
  std::vector<double> losses;       // of the disturbed run, by step
  std::size_t compared_losses = 0;  // of them, with those of the undisturbed run
  std::size_t equal_losses = 0;     // of those compared
  bool ledger_right = false;        // every sample was counted once (shoal swarm audit)
  double tolerance = 0;             // relative, within which they count as equal; 0: to the bit
  std::string trouble;              // why it ended early; empty: it did not
  std::string directory;            // with all logs; empty: removed
  bool may_lose = false;            // stages have one member each
  std::uint64_t samples_per_step = 0;
  std::map<std::string, std::string>
      skipped;                           // kinds of faults that are not possible here, and why
  std::vector<HoldingsChange> holdings;  // of members that lived long enough

  // The ledger is right, every fault ended with a further step, none that came while all pipelines
  // trained cost a step,
  // nothing that a member holds grew steadily, and all losses are those of the undisturbed run.
  bool Held() const;
};

void PrintFault(double at_seconds, const FaultCost& cost);  // one line on standard error
void PrintChaos(const ChaosReport& report);
void PrintChaosJson(const ChaosOptions& options, const ChaosReport& report);

}  // namespace shoal::client

#endif  // SHOAL_CLIENT_CHAOS_REPORT_H_
