// DeviceImages: m images (m_format.h) made and read on a device, and changes that a section codes
// without knowing m. Images, values and errors are those of MFormat and delta_section.h.
//
// Internal to compression/. Thread: any, one call at a time.

#ifndef SHOAL_COMPRESSION_DEVICE_DEVICE_IMAGES_H_
#define SHOAL_COMPRESSION_DEVICE_DEVICE_IMAGES_H_

#include <cstddef>
#include <span>
#include <vector>

#include "compression/device/device_section.h"

namespace shoal::compression {

class DeviceImages {
 public:
  explicit DeviceImages(int bits) : bits_(bits) {}

  int bits() const { return bits_; }

  // Error unless every m is an image of finite values.
  Status Check(const DeviceContext& context, std::span<const DeviceSample> samples) const;

  // next_m of `values`, which become what the layers get.
  Status Make(const DeviceContext& context, std::span<DeviceSample> samples) const;

  // values = x - m; checks both.
  Status Subtract(const DeviceContext& context, std::span<const DeviceSample> samples) const;
  // next_m = m + values, the decoded changes, which become, where `wanted`, what the layers get.
  Status Advance(const DeviceContext& context, std::span<DeviceSample> samples, bool wanted) const;

 private:
  ImageJob JobFor(const DeviceContext& context, ImagePass pass, std::size_t samples) const;
  Result<std::vector<Extremes>> Run(const DeviceContext& context, ImagePass pass,
                                    std::span<const DeviceSample> samples) const;
  Status MakeHalves(const DeviceContext& context, std::span<DeviceSample> samples, ImagePass pass,
                    bool wanted) const;
  Status MakeCodes(const DeviceContext& context, std::span<const DeviceSample> samples) const;

  const int bits_;
};

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_DEVICE_DEVICE_IMAGES_H_
