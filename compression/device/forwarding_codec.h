// A MessageCodec of values on a device: what does not depend on where values lie is the answer of
// the codec of the host. Internal to compression/. Thread: any.

#ifndef SHOAL_COMPRESSION_DEVICE_FORWARDING_CODEC_H_
#define SHOAL_COMPRESSION_DEVICE_FORWARDING_CODEC_H_

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "common/status.h"
#include "compression/api/codec.h"

namespace shoal::compression {

class ForwardingCodec : public MessageCodec {
 public:
  const std::string& spec() const final { return host_->spec(); }
  bool keeps_m() const final { return host_->keeps_m(); }
  bool keeps_residual() const final { return host_->keeps_residual(); }
  bool guarded() const final { return host_->guarded(); }
  bool divisible() const final { return host_->divisible(); }
  std::size_t EncodedBytesMax(SampleShape shape, std::size_t samples) const final {
    return host_->EncodedBytesMax(shape, samples);
  }
  std::size_t MImageBytes(SampleShape shape) const final { return host_->MImageBytes(shape); }
  Status CheckMImage(std::span<const std::byte> image, SampleShape shape) const final {
    return host_->CheckMImage(image, shape);
  }
  DeltaMode SentMode(std::span<const std::byte> payload) const final {
    return host_->SentMode(payload);
  }

 protected:
  explicit ForwardingCodec(std::shared_ptr<const MessageCodec> host) : host_(std::move(host)) {}
  const MessageCodec& host() const { return *host_; }

 private:
  const std::shared_ptr<const MessageCodec> host_;
};

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_DEVICE_FORWARDING_CODEC_H_
