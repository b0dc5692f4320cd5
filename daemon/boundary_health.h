// BoundaryHealth: says in words when AQ-SGD does not do for this run what it should, from the
// figures of the boundaries, and what a GPU leaves to the host. Pure. Thread: any.

#ifndef SHOAL_DAEMON_BOUNDARY_HEALTH_H_
#define SHOAL_DAEMON_BOUNDARY_HEALTH_H_

#include <string>
#include <vector>

#include "daemon/status_snapshot.h"

namespace shoal::daemon {

struct HealthEntry {
  std::string code, text, fix;
};

// Codes: aqsgd_single_epoch, delta_guard, delta_large, gradient_delta_large, delta_store_misses,
// delta_mismatch, on_host.
std::vector<HealthEntry> BoundaryHealth(const StatusSnapshot& snapshot);

}  // namespace shoal::daemon

#endif  // SHOAL_DAEMON_BOUNDARY_HEALTH_H_
