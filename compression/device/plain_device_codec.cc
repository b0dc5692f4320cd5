#include "compression/device/plain_device_codec.h"

#include <utility>
#include <vector>

#include "compression/device/device_coding.h"
#include "compression/device/device_queue.h"

namespace shoal::compression {
namespace {

class PlainDeviceCodec final : public DeviceCodec {
 public:
  PlainDeviceCodec(std::shared_ptr<const PlainCodec> codec, std::unique_ptr<DeviceSection> section,
                   std::unique_ptr<DeviceQueue> queue)
      : codec_(std::move(codec)),
        section_(std::move(section)),
        queue_(std::move(queue)),
        scratch_(queue_.get()) {}

  const std::string& spec() const override { return codec_->spec(); }
  bool keeps_m() const override { return false; }
  std::size_t MImageBytes(SampleShape) const override { return 0; }
  double device_ms() const override { return queue_->busy_ms(); }
  std::size_t EncodedBytesMax(SampleShape shape, std::size_t samples) const override {
    return codec_->EncodedBytesMax(shape, samples);
  }

  Result<std::size_t> Encode(std::span<const DeviceSampleToEncode> samples, SampleShape shape,
                             const RandomKey& key, DeltaMode, std::span<std::byte> out,
                             std::span<std::byte* const>, CodingStats* stats,
                             void* stream) override {
    SHOAL_RETURN_IF_ERROR(CheckDeviceShape(shape, samples.size(), spec()));
    SHOAL_CHECK(out.size() >= EncodedBytesMax(shape, samples.size()));
    queue_->Use(stream);
    std::vector<DeviceSample> coded(samples.size());
    for (std::size_t i = 0; i < samples.size(); ++i) {
      SHOAL_CHECK(samples[i].values != nullptr && samples[i].m == nullptr);
      coded[i].x = samples[i].values;
      coded[i].index = static_cast<std::uint32_t>(i);
    }
    CodingStats seen;
    SHOAL_ASSIGN_OR_RETURN(const std::size_t bytes,
                           EncodeWhole(ContextFor(shape, key, samples.size()), section_.get(),
                                       coded, nullptr, out, stats == nullptr ? nullptr : &seen));
    if (stats != nullptr) stats->Add(seen);
    return bytes;
  }

  Status Decode(std::span<const std::byte> payload, std::span<const DeviceSampleToDecode> samples,
                SampleShape shape, const RandomKey& key, std::span<std::byte* const>,
                void* stream) override {
    SHOAL_RETURN_IF_ERROR(CheckDeviceShape(shape, samples.size(), spec()));
    queue_->Use(stream);
    std::vector<DeviceSample> wanted;
    for (std::size_t i = 0; i < samples.size(); ++i) {
      SHOAL_CHECK(!samples[i].delta);
      if (samples[i].values == nullptr) continue;
      DeviceSample sample;
      sample.values = samples[i].values;
      sample.index = static_cast<std::uint32_t>(i);
      wanted.push_back(sample);
    }
    const DeviceContext context = ContextFor(shape, key, samples.size());
    SHOAL_RETURN_IF_ERROR(section_->Stage(context, payload));
    return section_->Decode(context, wanted, false);
  }

 private:
  DeviceContext ContextFor(SampleShape shape, const RandomKey& key, std::size_t samples) {
    return {queue_.get(), &scratch_, shape, key, samples, spec()};
  }

  const std::shared_ptr<const PlainCodec> codec_;
  const std::unique_ptr<DeviceSection> section_;
  const std::unique_ptr<DeviceQueue> queue_;
  DeviceScratch scratch_;
};

}  // namespace

std::unique_ptr<DeviceCodec> NewPlainDeviceCodec(std::shared_ptr<const PlainCodec> codec,
                                                 std::unique_ptr<DeviceSection> section,
                                                 std::unique_ptr<DeviceQueue> queue) {
  return std::make_unique<PlainDeviceCodec>(std::move(codec), std::move(section), std::move(queue));
}

}  // namespace shoal::compression
