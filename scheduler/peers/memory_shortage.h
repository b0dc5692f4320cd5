// What a run says while no peers fit its stages. Pure. Thread: any.

#ifndef SHOAL_SCHEDULER_PEERS_MEMORY_SHORTAGE_H_
#define SHOAL_SCHEDULER_PEERS_MEMORY_SHORTAGE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "scheduler/config/run_config.h"

namespace shoal::scheduler {

struct PeerMemory {
  std::string label;
  std::uint64_t bytes = 0;  // 0: unknown, which counts as enough
};

// The most demanding stage that too few of `peers` have the memory for, who has too little, and
// what to change. Empty if config.stage_bytes leave no such stage.
std::string MemoryShortageText(const RunConfig& config, std::vector<PeerMemory> peers);

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_PEERS_MEMORY_SHORTAGE_H_
