// WarmUp: the steps that a method exchanges exactly before it sends bits of moments, whose variance
// stands still from then on. Pure. Thread: any.

#ifndef SHOAL_REPLICA_METHODS_WARM_UP_H_
#define SHOAL_REPLICA_METHODS_WARM_UP_H_

#include <cstdint>
#include <string>

#include "common/status.h"
#include "compression/api/codec_spec.h"

namespace shoal::replica {

struct WarmUp {
  std::uint64_t start = 0;  // first step that is not an exact average; 0: see StartOf

  // With `start` 0, an eighth of the run, 10 to 1000, but never before the learning rate has grown
  // to its peak: a variance that stands still from within that time is too small for the rest.
  std::uint64_t StartOf(std::uint64_t run_steps, std::uint64_t rate_warm_up = 0) const;
  // With the step of a run in place of 0; a start behind the end of the run is that end.
  WarmUp OfRun(std::uint64_t run_steps, std::uint64_t rate_warm_up) const;
  std::string Option() const;  // "start=auto", "start=50"
};

// Of the option `start`; without one it is auto.
Result<WarmUp> ParseWarmUp(const compression::CodecSpec& spec);

}  // namespace shoal::replica

#endif  // SHOAL_REPLICA_METHODS_WARM_UP_H_
