#include "compression/device/device_coding.h"

#include <cstdint>
#include <string>
#include <vector>

#include "compression/api/sample_layout.h"
#include "compression/codecs/coding_sample.h"
#include "compression/device/device_stats.h"

namespace shoal::compression {
namespace {

// Positions in a sample are 32-bit numbers on the device.
constexpr std::size_t kDeviceValuesMax = (std::size_t{1} << 31) - 8;
constexpr std::string_view kValuesSlot = "values";
constexpr int kNoImageBits = 16;  // of samples without m, whose images nobody reads

}  // namespace

Status CheckDeviceShape(SampleShape shape, std::size_t samples, std::string_view spec) {
  const std::vector<std::size_t> sizes(samples, shape.values());
  SHOAL_RETURN_IF_ERROR(CheckSamples(shape, std::span<const std::size_t>(sizes), false, spec));
  if (shape.values() <= kDeviceValuesMax) return Status::Ok();
  return InvalidArgument("codec " + std::string(spec) + ": a sample of " +
                         std::to_string(shape.values()) + " values; a device takes " +
                         std::to_string(kDeviceValuesMax) + " at most, use the CPU");
}

Status CheckImageAddress(const std::byte* image, std::size_t sample, std::string_view spec) {
  if (image != nullptr && reinterpret_cast<std::uintptr_t>(image) % 16 == 0) return Status::Ok();
  return InvalidArgument("codec " + std::string(spec) + ": the m image of sample " +
                         std::to_string(sample) + (image == nullptr ? " is missing" : "") +
                         (image == nullptr ? "" : " is not aligned to 16 bytes") +
                         "; allocate it with cudaMalloc");
}

// The decoded values are needed for m and for statistics: one sample after the other, so that those
// of one are all the memory that this takes.
Result<std::size_t> EncodeWhole(const DeviceContext& context, DeviceSection* section,
                                std::span<DeviceSample> samples, const DeviceImages* images,
                                std::span<std::byte> out, CodingStats* stats) {
  SHOAL_ASSIGN_OR_RETURN(const std::size_t bytes, section->Encode(context, samples, false, out));
  if (images == nullptr && stats == nullptr) return bytes;
  SHOAL_ASSIGN_OR_RETURN(
      std::byte* const values,
      context.scratch->Reserve(kValuesSlot, context.shape.values() * sizeof(float)));
  for (DeviceSample& sample : samples) {
    sample.values = reinterpret_cast<float*>(values);
    SHOAL_RETURN_IF_ERROR(section->Decode(context, {&sample, 1}, false));
    if (images != nullptr) SHOAL_RETURN_IF_ERROR(images->Make(context, {&sample, 1}));
    if (stats == nullptr) continue;
    if (sample.m != nullptr) SHOAL_RETURN_IF_ERROR(images->Check(context, {&sample, 1}));
    SHOAL_RETURN_IF_ERROR(CountOnDevice(context, images == nullptr ? kNoImageBits : images->bits(),
                                        kStatsBlock, {&sample, 1}, stats));
  }
  return bytes;
}

}  // namespace shoal::compression
