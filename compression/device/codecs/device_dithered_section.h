// Dithered quantisation (dithered_codec.h) on a device: energies, cells and values there; step,
// classes, channels and tables are chosen, and cells entropy-coded, on the CPU. Internal to
// compression/. Thread: as DeviceSection.

#ifndef SHOAL_COMPRESSION_DEVICE_CODECS_DEVICE_DITHERED_SECTION_H_
#define SHOAL_COMPRESSION_DEVICE_CODECS_DEVICE_DITHERED_SECTION_H_

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "compression/codecs/dithered/dithered_codec.h"
#include "compression/device/device_section.h"

namespace shoal::compression {

// A dithered section that takes its step from elsewhere.
class DeviceStepSection : public DeviceSection {
 public:
  // Encode of the samples that were sent last (SendSamples), as DitheredCodec::EncodeWithStep.
  virtual Result<std::size_t> EncodeWithStep(const DeviceContext& context,
                                             std::span<const double> energies, float step,
                                             std::span<std::byte> out) = 0;
};

// Energies of the values that the step of changes follows; empty: it follows the changes.
Result<std::vector<double>> FollowedEnergies(const DeviceContext& context,
                                             const DitheredCodec& codec);

// `codec` outlives the section.
std::unique_ptr<DeviceStepSection> NewDeviceStepSection(const DitheredCodec& codec);
std::unique_ptr<DeviceSection> NewDeviceDitheredSection(const DitheredCodec& codec);

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_DEVICE_CODECS_DEVICE_DITHERED_SECTION_H_
