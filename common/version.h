// The version of all shoal programs.

#ifndef SHOAL_COMMON_VERSION_H_
#define SHOAL_COMMON_VERSION_H_

namespace shoal {

// The newest version of CHANGELOG.md, without [Unreleased].
extern const char* const kVersion;

}  // namespace shoal

#endif  // SHOAL_COMMON_VERSION_H_
