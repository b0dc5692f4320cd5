// Shares of a group's reduction by its members' lines. Pure. Thread: any.

#ifndef SHOAL_PIPELINE_RUNNER_REDUCTION_SHARES_H_
#define SHOAL_PIPELINE_RUNNER_REDUCTION_SHARES_H_

#include <cstdint>
#include <span>
#include <vector>

#include "pipeline/core/runner_types.h"

namespace shoal::pipeline {

// By member, for ExchangeRequest::shares; empty: equal ones. A line whose upload is not known
// counts as the fastest of those that are, since nothing has slowed it down yet; a download that is
// not known as no limit. The same for the same rates on every machine.
std::vector<double> SharesByRates(std::span<const LineRate> rates);

}  // namespace shoal::pipeline

#endif  // SHOAL_PIPELINE_RUNNER_REDUCTION_SHARES_H_
