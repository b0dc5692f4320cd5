// What state for shadows takes of the upload of who holds it. Pure.

#ifndef SHOAL_REPLICA_STATE_STATE_SHARE_H_
#define SHOAL_REPLICA_STATE_STATE_SHARE_H_

#include <algorithm>
#include <cstddef>

namespace shoal::replica {

// What steps leave of a line, about; what artefacts get, too.
inline constexpr double kStateShareMin = 0.2;

// Part of a holder's upload, while so many members of its group hold the stage, and so many shadows
// lack it; at least one of each. A stage that is slow slows the steps of all. So a few newcomers
// get what steps leave of a line, and more where many wait for few.
inline double StateShareOf(std::size_t holders, std::size_t shadows) {
  const auto waiting = static_cast<double>(shadows);
  return std::max(kStateShareMin, waiting / (static_cast<double>(holders) + waiting));
}

}  // namespace shoal::replica

#endif  // SHOAL_REPLICA_STATE_STATE_SHARE_H_
