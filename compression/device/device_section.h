// DeviceSection: one section (docs/WIRE.md, "Payloads") coded on a device, and the memory and the
// steps that all kinds of sections share.
//
// A kind is, side by side in codecs/: a class (device_bucket_section.h, ...), what a lane does for
// its jobs (lane_*.h), and kernels (*.cu); its jobs are in jobs/. Internal to compression/. Thread:
// any, one call at a time.

#ifndef SHOAL_COMPRESSION_DEVICE_DEVICE_SECTION_H_
#define SHOAL_COMPRESSION_DEVICE_DEVICE_SECTION_H_

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compression/api/codec.h"
#include "compression/api/sample_layout.h"
#include "compression/codecs/plain_codec.h"
#include "compression/device/device_queue.h"

namespace shoal::compression {

// Device memory that grows with what is asked of it and is kept between messages. A slot is a name:
// who uses the same one shares its memory.
class DeviceScratch {
 public:
  explicit DeviceScratch(DeviceQueue* queue) : queue_(queue) {}
  ~DeviceScratch();
  DeviceScratch(const DeviceScratch&) = delete;
  DeviceScratch& operator=(const DeviceScratch&) = delete;

  // At least `bytes` bytes, of any content if the slot had to grow.
  Result<std::byte*> Reserve(std::string_view slot, std::size_t bytes);
  // What the slot has; null before the first Reserve.
  std::byte* Get(std::string_view slot) const;
  // Scratch memory of its own for a section inside of another one; lives as long as this.
  DeviceScratch* Inside(std::string_view section);

 private:
  struct Part {
    std::byte* memory = nullptr;
    std::size_t bytes = 0;
  };
  DeviceQueue* queue_;
  std::map<std::string, Part, std::less<>> slots_;
  std::map<std::string, std::unique_ptr<DeviceScratch>, std::less<>> inside_;
};

// Slots of more than one kind: the samples and extremes of the job that runs, and the section that
// is on the device.
inline constexpr std::string_view kSamplesSlot = "samples";
inline constexpr std::string_view kExtremesSlot = "extremes";
inline constexpr std::string_view kScalesSlot = "scales";
inline constexpr std::string_view kCodesSlot = "codes";

struct DeviceContext {
  DeviceQueue* queue;
  DeviceScratch* scratch;
  SampleShape shape;
  RandomKey key;
  std::size_t samples;  // of the section
  std::string_view spec;
  float magnitude_most = kMagnitudeMax;  // of the values of buckets
  // Of changes: the values that they lead to, by sample, on the device; empty: none.
  std::span<const float* const> followed = {};
};

// Sends the samples of a job, clears their extremes, and fetches them.
Status SendSamples(const DeviceContext& context, std::span<const DeviceSample> samples);
void FetchExtremes(const DeviceContext& context, std::span<Extremes> extremes);

// The sums of squares of all tokens that were sent last, in order. Uses kScalesSlot.
Result<std::vector<double>> TokenEnergies(const DeviceContext& context);

// A job over the samples that were sent last.
template <typename Job>
Job JobOf(const DeviceContext& context, std::size_t samples) {
  Job job;
  job.values = static_cast<std::uint32_t>(context.shape.values());
  job.count = static_cast<std::uint32_t>(samples);
  job.samples = reinterpret_cast<const DeviceSample*>(context.scratch->Get(kSamplesSlot));
  job.extremes = reinterpret_cast<Extremes*>(context.scratch->Get(kExtremesSlot));
  return job;
}

// Error if a job met an m image that is not one (of `bits` bits a value).
Status CheckImages(std::span<const Extremes> extremes, int bits, std::string_view spec);

// Encode and Stage leave the section on the device, from where Decode reads it, until another
// section of the same scratch memory comes.
class DeviceSection {
 public:
  virtual ~DeviceSection() = default;

  // Whether it codes x - m and makes next_m in the same pass, for 16-bit images. Only then may
  // `delta` be true.
  virtual bool fuses_delta() const { return false; }

  // Writes the section of all its samples (`x`; sample i at index i) to `out`, at least
  // EncodedBytesMax of host memory, and returns its bytes. With `delta` codes x - m, makes next_m,
  // and sets the samples' exponents. Errors are those of PlainCodec::Encode.
  virtual Result<std::size_t> Encode(const DeviceContext& context, std::span<DeviceSample> samples,
                                     bool delta, std::span<std::byte> out) = 0;

  // Checks a foreign section as PlainCodec::Decode does, and sends it to the device. What Decode
  // can find out only there it may leave to it.
  virtual Status Stage(const DeviceContext& context, std::span<const std::byte> section) = 0;
  // Decodes these samples (`index` says which) of the section that is on the device to their
  // `values`. With `delta` makes next_m from m, and `values`, where not null, what it stands for.
  virtual Status Decode(const DeviceContext& context, std::span<DeviceSample> samples,
                        bool delta) = 0;
};

// Makes the section of a codec, which outlives it; unimplemented if the codec has no form on a
// device.
using MakeSection = Result<std::unique_ptr<DeviceSection>> (*)(const PlainCodec& codec);

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_DEVICE_DEVICE_SECTION_H_
