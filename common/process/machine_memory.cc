#include "common/process/machine_memory.h"

#include <sys/sysinfo.h>

#include <algorithm>
#include <fstream>

namespace shoal {

std::uint64_t MachineMemoryBytes(std::span<const char* const> limit_files) {
  struct sysinfo info {};
  if (::sysinfo(&info) != 0) return 0;
  std::uint64_t bytes = std::uint64_t{info.totalram} * info.mem_unit;
  for (const char* const path : limit_files) {
    std::uint64_t limit = 0;
    if (std::ifstream(path) >> limit && limit > 0) bytes = std::min(bytes, limit);
  }
  return bytes;
}

}  // namespace shoal
