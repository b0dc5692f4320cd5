// What `powersgd:...` of `[replica] method` says: which gradients of a stage group go as factors
// (replica/collective/power_sgd.h). Pure. Thread: any.

#ifndef SHOAL_REPLICA_METHODS_POWER_SGD_OPTIONS_H_
#define SHOAL_REPLICA_METHODS_POWER_SGD_OPTIONS_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "common/status.h"

namespace shoal::replica {

struct PowerSgdOptions {
  std::uint32_t rank = 16;     // 1 to kRankMax
  std::uint32_t start = 10;    // steps that are exchanged exactly first, 2 or more
  std::string stages = "all";  // stage_selection.h

  // "powersgd:rank=16,start=10,stages=all".
  std::string Spec() const;
};

inline constexpr std::string_view kPowerSgdKeys[] = {"rank", "start", "stages"};

// Takes "powersgd[:rank=N][,start=N][,stages=...]" apart; stages inside a spec are separated by
// '/'. An unknown option or value is an error that lists what is allowed.
Result<PowerSgdOptions> ParsePowerSgd(std::string_view spec);

}  // namespace shoal::replica

#endif  // SHOAL_REPLICA_METHODS_POWER_SGD_OPTIONS_H_
