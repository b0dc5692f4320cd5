// The version of all shoal programs.

#ifndef SHOAL_COMMON_VERSION_H_
#define SHOAL_COMMON_VERSION_H_

namespace shoal {

inline constexpr const char* kVersion = "0.1.0";

}  // namespace shoal

#endif  // SHOAL_COMMON_VERSION_H_
