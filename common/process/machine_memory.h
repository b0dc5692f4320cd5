// How much memory this process may have.

#ifndef SHOAL_COMMON_PROCESS_MACHINE_MEMORY_H_
#define SHOAL_COMMON_PROCESS_MACHINE_MEMORY_H_

#include <cstdint>
#include <span>

namespace shoal {

// Where a container's limit is, as the two versions of control groups have it.
inline constexpr const char* kMemoryLimitFiles[] = {"/sys/fs/cgroup/memory.max",
                                                    "/sys/fs/cgroup/memory/memory.limit_in_bytes"};

// Bytes of the machine's memory, or fewer where one of the files says so; 0: unknown. A file that
// is not there, or has no number ("max"), limits nothing.
std::uint64_t MachineMemoryBytes(std::span<const char* const> limit_files = kMemoryLimitFiles);

}  // namespace shoal

#endif  // SHOAL_COMMON_PROCESS_MACHINE_MEMORY_H_
