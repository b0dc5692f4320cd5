// Fixed-endian loads and stores for byte layouts that leave the process.

#ifndef SHOAL_COMMON_BYTES_H_
#define SHOAL_COMMON_BYTES_H_

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstring>

namespace shoal {

static_assert(std::endian::native == std::endian::little, "big-endian hosts are not supported");

template <std::integral T>
T LoadLittle(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

template <std::integral T>
void StoreLittle(std::byte* to, T value) {
  std::memcpy(to, &value, sizeof(T));
}

template <std::unsigned_integral T>
T LoadBig(const std::byte* from) {
  T value = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i) {
    value = static_cast<T>((value << 8) | std::to_integer<T>(from[i]));
  }
  return value;
}

template <std::unsigned_integral T>
void StoreBig(std::byte* to, T value) {
  for (std::size_t i = sizeof(T); i-- > 0;) {
    to[i] = static_cast<std::byte>(value & 0xff);
    value = static_cast<T>(value >> 8);
  }
}

}  // namespace shoal

#endif  // SHOAL_COMMON_BYTES_H_
