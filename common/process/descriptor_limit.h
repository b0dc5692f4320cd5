// How many files and connections this process may have open.

#ifndef SHOAL_COMMON_PROCESS_DESCRIPTOR_LIMIT_H_
#define SHOAL_COMMON_PROCESS_DESCRIPTOR_LIMIT_H_

#include <cstddef>

namespace shoal {

// Raises the limit of this process as far as it may, at most to kDescriptorsWanted. First thing
// that a daemon does.
void RaiseDescriptorLimit();
// The limit that holds now.
std::size_t DescriptorLimit();

inline constexpr std::size_t kDescriptorsWanted = 65536;

}  // namespace shoal

#endif  // SHOAL_COMMON_PROCESS_DESCRIPTOR_LIMIT_H_
