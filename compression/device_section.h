// DeviceSection: one section (docs/WIRE.md, "Payloads") coded on a device.
//
// Encode and Stage leave the section's scales and codes in the scratch memory, from where Decode
// reads them. Internal to compression/. Thread: any, one call at a time.

#ifndef SHOAL_COMPRESSION_DEVICE_SECTION_H_
#define SHOAL_COMPRESSION_DEVICE_SECTION_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "compression/bucket_section.h"
#include "compression/codec.h"
#include "compression/device_queue.h"
#include "compression/plain_codec.h"

namespace shoal::compression {

// Device memory that grows with what is asked of it and is kept between messages.
class DeviceScratch {
 public:
  enum Slot { kSamples, kExtremes, kScales, kCodes, kValues, kSlots };

  explicit DeviceScratch(DeviceQueue* queue) : queue_(queue) {}
  ~DeviceScratch();
  DeviceScratch(const DeviceScratch&) = delete;
  DeviceScratch& operator=(const DeviceScratch&) = delete;

  // At least `bytes` bytes, of any content if the slot had to grow.
  Status Reserve(Slot slot, std::size_t bytes);
  std::byte* Get(Slot slot) const { return slots_[slot].memory; }

 private:
  struct Part {
    std::byte* memory = nullptr;
    std::size_t bytes = 0;
  };
  DeviceQueue* queue_;
  Part slots_[kSlots];
};

struct DeviceContext {
  DeviceQueue* queue;
  DeviceScratch* scratch;
  SampleShape shape;
  RandomKey key;
  std::size_t samples;  // of the section
  std::string_view spec;
};

// Sends the samples of a job, clears their extremes, and fetches them.
Status SendSamples(const DeviceContext& context, std::span<const DeviceSample> samples);
void FetchExtremes(const DeviceContext& context, std::span<Extremes> extremes);
RawJob RawJobOf(const DeviceContext& context, std::size_t samples);

class DeviceSection {
 public:
  // Unimplemented if the codec has no form on a device. `codec` outlives the section.
  static Result<DeviceSection> Of(const PlainCodec& codec);

  std::string_view spec() const { return codec_->spec(); }
  // Whether the section can hold changes that are coded against m in the same pass.
  bool has_buckets() const { return format_ != nullptr; }

  // Writes the section of all its samples, sample i at index i, to `out` and returns its bytes.
  // `delta`: codes x - m and makes next_m.
  Result<std::size_t> Encode(const DeviceContext& context, std::span<DeviceSample> samples,
                             bool delta, std::span<std::byte> out);

  // Checks a foreign section and sends it to the device.
  Status Stage(const DeviceContext& context, std::span<const std::byte> section);
  // Decodes these samples of the section that is on the device.
  Status Decode(const DeviceContext& context, std::span<DeviceSample> samples, bool delta) const;

 private:
  explicit DeviceSection(const PlainCodec& codec) : codec_(&codec) {}

  BucketJob BucketJobOf(const DeviceContext& context, std::size_t samples, bool delta) const;
  Status RunBuckets(const DeviceContext& context, std::span<const DeviceSample> samples, bool delta,
                    std::span<Extremes> extremes) const;
  Status MoveExponents(const DeviceContext& context, std::span<DeviceSample> samples,
                       std::span<const Extremes> extremes) const;
  Result<std::size_t> EncodeBuckets(const DeviceContext& context, std::span<DeviceSample> samples,
                                    bool delta, std::span<std::byte> out) const;
  Result<std::size_t> FetchSection(const DeviceContext& context, std::span<std::byte> out) const;
  Result<std::size_t> EncodeRaw(const DeviceContext& context, std::span<DeviceSample> samples,
                                std::span<std::byte> out);
  PayloadHeader RawHeader(const DeviceContext& context) const;
  Status StageBuckets(const DeviceContext& context, std::span<const std::byte> section) const;

  const PlainCodec* codec_;
  const BucketFormat* format_ = nullptr;  // null: raw
  ValueType type_ = ValueType::kFp32;     // of raw
  int exponent_ = 0;                      // of the raw section that is on the device
};

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_DEVICE_SECTION_H_
