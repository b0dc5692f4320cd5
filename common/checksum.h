// XXH3-64 of bytes: detects accidents (mismatched m, torn records), not attackers.

#ifndef SHOAL_COMMON_CHECKSUM_H_
#define SHOAL_COMMON_CHECKSUM_H_

#include <cstddef>
#include <cstdint>
#include <span>

namespace shoal {

std::uint64_t Checksum64(std::span<const std::byte> bytes);
// Continues `seed` (an earlier checksum) over more bytes; order matters.
std::uint64_t Checksum64(std::span<const std::byte> bytes, std::uint64_t seed);

}  // namespace shoal

#endif  // SHOAL_COMMON_CHECKSUM_H_
