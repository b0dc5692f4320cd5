// Hexadecimal digits. Thread: any.

#ifndef SHOAL_COMMON_HEX_H_
#define SHOAL_COMMON_HEX_H_

namespace shoal {

// Of a digit in either case; -1: it is none.
constexpr int HexValue(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace shoal

#endif  // SHOAL_COMMON_HEX_H_
