#include "compression/device/on_device_codec.h"

#include <cstring>
#include <utility>
#include <vector>

#include "compression/device/device_codec.h"
#include "compression/device/forwarding_codec.h"

namespace shoal::compression {
namespace {

constexpr std::string_view kMSlot = "m";
constexpr std::string_view kNextMSlot = "next_m";
constexpr std::size_t kImageAlignment = 256;

// What one call works with: a codec, and the stream of its copies and kernels.
struct Coder {
  Coder(std::unique_ptr<DeviceQueue> queue, std::unique_ptr<DeviceCodec> made)
      : lane(std::move(queue)), codec(std::move(made)) {}
  void Settle() { lane.Settle(); }

  CopyLane lane;
  std::unique_ptr<DeviceCodec> codec;
};

// Where the parts of a message lie in the staging memory and on the device: m images, then what
// they become, and, on the host only, the payload.
class MessagePlaces {
 public:
  MessagePlaces(std::size_t samples, std::size_t image_bytes, std::size_t payload_bytes)
      : stride_((image_bytes + kImageAlignment - 1) / kImageAlignment * kImageAlignment),
        image_bytes_(image_bytes),
        images_(samples * stride_),
        payload_bytes_(payload_bytes) {}

  Status Reserve(CopyLane* lane) {
    SHOAL_ASSIGN_OR_RETURN(staging_, lane->Staging(images_ + payload_bytes_));
    if (images_ == 0) return Status::Ok();
    SHOAL_ASSIGN_OR_RETURN(m_, lane->scratch().Reserve(kMSlot, images_));
    SHOAL_ASSIGN_OR_RETURN(next_m_, lane->scratch().Reserve(kNextMSlot, images_));
    return Status::Ok();
  }

  std::span<std::byte> payload() { return {staging_ + images_, payload_bytes_}; }
  std::byte* NextM(std::size_t sample) { return next_m_ + sample * stride_; }
  // Copies an image of a sample to the device.
  const std::byte* Send(std::size_t sample, std::span<const std::byte> image, DeviceQueue* queue) {
    std::byte* const staged = staging_ + sample * stride_;
    std::byte* const at = m_ + sample * stride_;
    std::memcpy(staged, image.data(), image.size());
    queue->ToDevice(at, staged, image.size());
    return at;
  }
  // Next images come back into the places of those that were sent.
  void Fetch(std::size_t sample, DeviceQueue* queue) {
    queue->ToHost(staging_ + sample * stride_, NextM(sample), image_bytes_);
  }
  Buffer Fetched(std::size_t sample) const {
    return Buffer::CopyOf({staging_ + sample * stride_, image_bytes_});
  }

 private:
  const std::size_t stride_, image_bytes_, images_, payload_bytes_;
  std::byte* staging_ = nullptr;
  std::byte* m_ = nullptr;
  std::byte* next_m_ = nullptr;
};

class OnDeviceCodec final : public ForwardingCodec {
 public:
  OnDeviceCodec(std::shared_ptr<const MessageCodec> host, std::uint32_t hidden,
                std::shared_ptr<CopyLanes> lanes)
      : ForwardingCodec(std::move(host)), hidden_(hidden), lanes_(std::move(lanes)) {}

  // Makes the first coder: whether there is a form on a device shows then.
  Status Start() {
    SHOAL_ASSIGN_OR_RETURN(const auto coder, Take());
    return Status::Ok();
  }

  Result<std::size_t> Encode(std::span<const SampleToEncode> samples, SampleShape shape,
                             const RandomKey& key, DeltaMode mode, std::span<std::byte> out,
                             std::span<Buffer> next_m, CodingStats* stats) const override;
  Status Decode(std::span<const std::byte> payload, std::span<const SampleToDecode> samples,
                SampleShape shape, const RandomKey& key, std::span<Buffer> next_m) const override;

 private:
  Result<Borrowed<Coder>> Take() const {
    std::unique_ptr<Coder> coder = idle_.Take();
    if (coder == nullptr) {
      SHOAL_ASSIGN_OR_RETURN(auto copies, lanes_->Queue());
      SHOAL_ASSIGN_OR_RETURN(auto kernels, lanes_->Queue());
      SHOAL_ASSIGN_OR_RETURN(auto codec, NewDeviceCodec(spec(), hidden_, std::move(kernels)));
      coder = std::make_unique<Coder>(std::move(copies), std::move(codec));
    }
    coder->lane.queue().Use(nullptr);
    return Borrowed<Coder>(&idle_, std::move(coder));
  }
  // The image bytes of a message's samples.
  std::size_t ImageBytes(SampleShape shape) const { return keeps_m() ? MImageBytes(shape) : 0; }
  Status Collect(MessagePlaces* places, Coder* coder, std::span<Buffer> next_m,
                 const std::vector<bool>& wanted) const;

  const std::uint32_t hidden_;
  const std::shared_ptr<CopyLanes> lanes_;
  mutable IdleObjects<Coder> idle_;
};

// `next_m` of the wanted samples, from the device.
Status OnDeviceCodec::Collect(MessagePlaces* places, Coder* coder, std::span<Buffer> next_m,
                              const std::vector<bool>& wanted) const {
  DeviceQueue& queue = coder->lane.queue();
  for (std::size_t i = 0; i < next_m.size(); ++i) {
    if (wanted[i]) places->Fetch(i, &queue);
  }
  SHOAL_RETURN_IF_ERROR(queue.Wait());
  for (std::size_t i = 0; i < next_m.size(); ++i) {
    if (wanted[i]) next_m[i] = places->Fetched(i);
  }
  return Status::Ok();
}

Result<std::size_t> OnDeviceCodec::Encode(std::span<const SampleToEncode> samples,
                                          SampleShape shape, const RandomKey& key, DeltaMode mode,
                                          std::span<std::byte> out, std::span<Buffer> next_m,
                                          CodingStats* stats) const {
  SHOAL_CHECK(out.size() >= EncodedBytesMax(shape, samples.size()));
  SHOAL_ASSIGN_OR_RETURN(auto coder, Take());
  DeviceQueue& queue = coder->lane.queue();
  MessagePlaces places(samples.size(), ImageBytes(shape), EncodedBytesMax(shape, samples.size()));
  SHOAL_RETURN_IF_ERROR(places.Reserve(&coder->lane));
  std::vector<DeviceSampleToEncode> there(samples.size());
  std::vector<std::byte*> next(next_m.size());
  for (std::size_t i = 0; i < samples.size(); ++i) {
    SHOAL_CHECK(samples[i].values.size() == shape.values());
    there[i].values = samples[i].values.data();
    if (i < next.size()) next[i] = places.NextM(i);
    if (samples[i].m.empty()) continue;
    SHOAL_RETURN_IF_ERROR(CheckMImage(samples[i].m, shape));
    there[i].m = places.Send(i, samples[i].m, &queue);
  }
  const double before = coder->codec->device_ms();
  SHOAL_ASSIGN_OR_RETURN(
      const std::size_t bytes,
      coder->codec->Encode(there, shape, key, mode, places.payload(), next, stats, queue.stream()));
  SHOAL_RETURN_IF_ERROR(
      Collect(&places, coder.operator->(), next_m, std::vector<bool>(next_m.size(), true)));
  std::memcpy(out.data(), places.payload().data(), bytes);
  lanes_->AddDeviceTime(coder->codec->device_ms() - before);
  return bytes;
}

Status OnDeviceCodec::Decode(std::span<const std::byte> payload,
                             std::span<const SampleToDecode> samples, SampleShape shape,
                             const RandomKey& key, std::span<Buffer> next_m) const {
  SHOAL_ASSIGN_OR_RETURN(auto coder, Take());
  DeviceQueue& queue = coder->lane.queue();
  MessagePlaces places(samples.size(), ImageBytes(shape), payload.size());
  SHOAL_RETURN_IF_ERROR(places.Reserve(&coder->lane));
  if (!payload.empty()) std::memcpy(places.payload().data(), payload.data(), payload.size());
  std::vector<DeviceSampleToDecode> there(samples.size());
  std::vector<std::byte*> next(next_m.size());
  std::vector<bool> wanted(samples.size());
  for (std::size_t i = 0; i < samples.size(); ++i) {
    there[i].delta = samples[i].delta;
    wanted[i] = !samples[i].values.empty();
    if (i < next.size()) next[i] = places.NextM(i);
    if (!wanted[i]) continue;
    SHOAL_CHECK(samples[i].values.size() == shape.values());
    there[i].values = samples[i].values.data();
    if (!samples[i].delta || !keeps_m()) continue;
    SHOAL_RETURN_IF_ERROR(CheckMImage(samples[i].m, shape));
    there[i].m = places.Send(i, samples[i].m, &queue);
  }
  const double before = coder->codec->device_ms();
  SHOAL_RETURN_IF_ERROR(
      coder->codec->Decode(places.payload(), there, shape, key, next, queue.stream()));
  lanes_->AddDeviceTime(coder->codec->device_ms() - before);
  return Collect(&places, coder.operator->(), next_m, wanted);
}

}  // namespace

Result<std::shared_ptr<const MessageCodec>> NewOnDeviceCodec(
    std::shared_ptr<const MessageCodec> host, std::uint32_t hidden,
    std::shared_ptr<CopyLanes> lanes) {
  auto codec = std::make_shared<OnDeviceCodec>(std::move(host), hidden, std::move(lanes));
  SHOAL_RETURN_IF_ERROR(codec->Start());
  return std::shared_ptr<const MessageCodec>(std::move(codec));
}

}  // namespace shoal::compression
