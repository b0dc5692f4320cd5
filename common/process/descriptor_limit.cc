#include "common/process/descriptor_limit.h"

#include <sys/resource.h>

#include <algorithm>

namespace shoal {

void RaiseDescriptorLimit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const rlim_t wanted = std::min<rlim_t>(limit.rlim_max, kDescriptorsWanted);
  if (limit.rlim_cur >= wanted) return;
  limit.rlim_cur = wanted;
  // Where it cannot be raised, what shares it out (net/admission/connection_gate.h) goes by what
  // there is.
  (void)::setrlimit(RLIMIT_NOFILE, &limit);
}

std::size_t DescriptorLimit() {
  constexpr std::size_t kUsual = 1024;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return kUsual;
  return static_cast<std::size_t>(std::min<rlim_t>(limit.rlim_cur, kDescriptorsWanted));
}

}  // namespace shoal
