// MFormat: the bytes of an m image (docs/WIRE.md, "m image").
//
// 16 bits: fp16 values with one power-of-two exponent per sample; what is stored is what the
// receiver's layers get. 8, 4 or 2 bits ("m z bits" in the AQ-SGD paper, section 4): mid-rise codes
// with one bf16 scale per sample and channel (hidden position, absmax over the sample's tokens);
// the layers get m + change unrounded, and the error of coding m again is part of the next change.
// Internal to compression/. Pure. Thread: any.

#ifndef SHOAL_COMPRESSION_API_M_FORMAT_H_
#define SHOAL_COMPRESSION_API_M_FORMAT_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "common/memory/buffer.h"
#include "common/status.h"
#include "compression/api/codec.h"

namespace shoal::compression {

inline constexpr std::uint8_t kMImageVersion = 2;
inline constexpr std::size_t kMImageHeaderBytes = 16;

class MFormat {
 public:
  explicit MFormat(int bits) : bits_(bits) {}

  int bits() const { return bits_; }
  std::size_t Bytes(SampleShape shape) const;
  // Size and header.
  Status Check(std::span<const std::byte> image, SampleShape shape) const;
  // Check, and that every value it stands for is finite.
  Status CheckAll(std::span<const std::byte> image, SampleShape shape, std::string_view spec) const;

  // The values of an image that passed CheckAll.
  void Read(std::span<const std::byte> image, SampleShape shape, std::span<float> values) const;
  // An image of `values`, which become what the layers get. Error if one is not finite or too
  // large.
  Result<Buffer> Make(std::span<float> values, SampleShape shape, std::string_view spec) const;

  // 16 bits only: parts of images that are read and written in one pass.
  static int Exponent(std::span<const std::byte> image);
  static const std::byte* Halves(std::span<const std::byte> image) {
    return image.data() + kMImageHeaderBytes;
  }
  void WriteHeader(int exponent, SampleShape shape, std::byte* image) const;

 private:
  Result<Buffer> MakeHalves(std::span<float> values, SampleShape shape,
                            std::string_view spec) const;
  Result<Buffer> MakeCodes(std::span<const float> values, SampleShape shape,
                           std::string_view spec) const;
  int bits_;
};

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_API_M_FORMAT_H_
