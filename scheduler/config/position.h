// Position: where somebody is in a plan.

#ifndef SHOAL_SCHEDULER_CONFIG_POSITION_H_
#define SHOAL_SCHEDULER_CONFIG_POSITION_H_

#include <cstdint>
#include <utility>

namespace shoal::scheduler {

using Position = std::pair<std::uint32_t, std::uint32_t>;  // pipeline, stage

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_CONFIG_POSITION_H_
