// Bits in front of bytes: the first bit is the lowest of the first byte.
//
// For the few bytes of a message that hold tables; values go through rANS or packing.
// Internal to compression/. Thread: any; one object belongs to one thread.

#ifndef SHOAL_COMPRESSION_ENTROPY_BIT_STREAM_H_
#define SHOAL_COMPRESSION_ENTROPY_BIT_STREAM_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace shoal::compression {

class BitWriter {
 public:
  // The low `count` bits of `value`, 0 to 32 of them.
  void Put(std::uint32_t value, int count) {
    for (int i = 0; i < count; ++i) {
      if (used_ % 8 == 0) bytes_.push_back(std::byte{0});
      bytes_.back() |= static_cast<std::byte>((value >> i & 1U) << used_ % 8);
      ++used_;
    }
  }
  // `value` ones, then a zero.
  void PutUnary(std::uint32_t value) {
    for (std::uint32_t i = 0; i < value; ++i) Put(1, 1);
    Put(0, 1);
  }
  // A small number of either sign, in unary: 0, -1, 1, -2, 2 ... are 0, 1, 2, 3, 4 ...
  void PutSigned(int value) {
    PutUnary(static_cast<std::uint32_t>(value < 0 ? -2 * value - 1 : 2 * value));
  }
  const std::vector<std::byte>& bytes() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
  std::size_t used_ = 0;
};

// Reading past the end gives zeros and is remembered.
class BitReader {
 public:
  explicit BitReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  std::uint32_t Get(int count) {
    std::uint32_t value = 0;
    for (int i = 0; i < count; ++i, ++used_) {
      if (used_ >= 8 * bytes_.size()) {
        short_ = true;
        continue;
      }
      value |= (std::to_integer<std::uint32_t>(bytes_[used_ / 8]) >> used_ % 8 & 1U) << i;
    }
    return value;
  }
  // Ones in front of a zero, at most `most`: more count as reading past the end.
  std::uint32_t GetUnary(std::uint32_t most) {
    std::uint32_t value = 0;
    while (!short_ && Get(1) == 1) {
      if (++value > most) short_ = true;
    }
    return value;
  }
  // What PutSigned wrote, of a magnitude of at most `most`; -most - 1 counts as reading past the
  // end.
  int GetSigned(int most) {
    const std::uint32_t z = GetUnary(2 * static_cast<std::uint32_t>(most));
    const int half = static_cast<int>(z / 2);
    return z % 2 != 0 ? -half - 1 : half;
  }
  // Whether every bit read so far was there.
  bool ok() const { return !short_; }
  // Bytes of which at least one bit was read.
  std::size_t bytes_used() const { return (used_ + 7) / 8; }
  // Whether the bits left in the last byte used are zero.
  bool RestIsZero() const {
    if (short_ || used_ % 8 == 0) return true;
    return std::to_integer<unsigned>(bytes_[used_ / 8]) >> used_ % 8 == 0;
  }

 private:
  std::span<const std::byte> bytes_;
  std::size_t used_ = 0;
  bool short_ = false;
};

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_ENTROPY_BIT_STREAM_H_
