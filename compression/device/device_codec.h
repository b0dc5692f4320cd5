// DeviceCodec: MessageCodec for values and m that lie in the memory of a GPU.
//
// Payloads and images are those of MessageCodec with the same spec, to the bit, in both
// directions, so ends with and without a GPU work together. Packed bytes are all that crosses the
// bus. On the device: scales, rounding, packing, m; a bucket is read once and stays in the
// registers of a warp until its codes, the next m and the scale are written. On the CPU: headers,
// checks of foreign bytes and the entropy coders, whose coders work on the symbols of a whole
// message (docs/algorithms/gpu.md).
//
// Everything happens in the order of `stream`, a cudaStream_t (null: the default stream), on the
// device that was current when the codec was made and must be current in every call; a call
// returns when its results are there. Thread: any, one call at a time per codec.

#ifndef SHOAL_COMPRESSION_DEVICE_DEVICE_CODEC_H_
#define SHOAL_COMPRESSION_DEVICE_DEVICE_CODEC_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "common/status.h"
#include "compression/api/codec.h"

namespace shoal::compression {

class DeviceQueue;

// shape.values() values and MImageBytes(shape) bytes of device memory; images are aligned to 16
// bytes (cudaMalloc aligns to 256).
struct DeviceSampleToEncode {
  const float* values = nullptr;
  const std::byte* m = nullptr;  // null: a first visit
};
struct DeviceSampleToDecode {
  float* values = nullptr;  // null: not wanted
  bool delta = false;       // the sender built on m
  const std::byte* m = nullptr;
};

class DeviceCodec {
 public:
  virtual ~DeviceCodec() = default;

  // As MessageCodec.
  virtual const std::string& spec() const = 0;
  virtual bool keeps_m() const = 0;
  virtual std::size_t EncodedBytesMax(SampleShape shape, std::size_t samples) const = 0;
  virtual std::size_t MImageBytes(SampleShape shape) const = 0;
  // Time of the device that its calls took; 0 where nobody measures it (device_queue.h).
  virtual double device_ms() const { return 0; }

  // As MessageCodec::Encode; `stats` (may be null) get the same numbers, for a pass over an eighth
  // of the values and, where nothing is kept decoded, decoding. `out` is memory of the host, best
  // page-locked; `next_m` has an image of device memory per sample if keeps_m(), apart from
  // `samples`' m, and is of no use after an error.
  virtual Result<std::size_t> Encode(std::span<const DeviceSampleToEncode> samples,
                                     SampleShape shape, const RandomKey& key, DeltaMode mode,
                                     std::span<std::byte> out, std::span<std::byte* const> next_m,
                                     CodingStats* stats, void* stream) = 0;

  // As MessageCodec::Decode; `payload` is memory of the host, `next_m` as in Encode.
  virtual Status Decode(std::span<const std::byte> payload,
                        std::span<const DeviceSampleToDecode> samples, SampleShape shape,
                        const RandomKey& key, std::span<std::byte* const> next_m, void* stream) = 0;
};

// As MakeCodec. Unavailable, with the reason, where there is no device or the build has no CUDA;
// unimplemented for a spec that has no form on a device (CodecTraits).
Result<std::unique_ptr<DeviceCodec>> MakeDeviceCodec(std::string_view spec, std::uint32_t hidden);
// The same on any queue.
Result<std::unique_ptr<DeviceCodec>> NewDeviceCodec(std::string_view spec, std::uint32_t hidden,
                                                    std::unique_ptr<DeviceQueue> queue);

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_DEVICE_DEVICE_CODEC_H_
