#include "compression/device/host_form_codec.h"

#include <utility>
#include <vector>

#include "common/memory/buffer.h"
#include "compression/api/stateful_codec.h"
#include "compression/device/forwarding_codec.h"

namespace shoal::compression {
namespace {

// Samples' values in the memory of the host.
struct HostCopies {
  Buffer values;
  std::vector<std::span<const float>> samples;

  Status Fetch(std::span<const std::span<const float>> from, CopyLanes* lanes) {
    std::size_t count = 0;
    for (const auto& sample : from) count += sample.size();
    values = Buffer(count * sizeof(float));
    std::span<float> rest = values.floats();
    for (const auto& sample : from) {
      SHOAL_RETURN_IF_ERROR(
          lanes->ToHost(sample, std::as_writable_bytes(rest.first(sample.size()))));
      samples.push_back(rest.first(sample.size()));
      rest = rest.subspan(sample.size());
    }
    return Status::Ok();
  }
};

class HostFormCodec final : public ForwardingCodec, public StatefulCodec {
 public:
  HostFormCodec(std::shared_ptr<const MessageCodec> host, std::shared_ptr<CopyLanes> lanes)
      : ForwardingCodec(std::move(host)), lanes_(std::move(lanes)) {}

  const StatefulCodec* stateful() const override {
    return host().stateful() == nullptr ? nullptr : this;
  }

  Result<std::size_t> Encode(std::span<const SampleToEncode> samples, SampleShape shape,
                             const RandomKey& key, DeltaMode mode, std::span<std::byte> out,
                             std::span<Buffer> next_m, CodingStats* stats) const override {
    std::vector<std::span<const float>> values;
    for (const SampleToEncode& sample : samples) values.push_back(sample.values);
    HostCopies copies;
    SHOAL_RETURN_IF_ERROR(copies.Fetch(values, lanes_.get()));
    std::vector<SampleToEncode> there(samples.begin(), samples.end());
    for (std::size_t i = 0; i < there.size(); ++i) there[i].values = copies.samples[i];
    return host().Encode(there, shape, key, mode, out, next_m, stats);
  }

  Status Decode(std::span<const std::byte> payload, std::span<const SampleToDecode> samples,
                SampleShape shape, const RandomKey& key, std::span<Buffer> next_m) const override {
    Buffer values(samples.size() * shape.values() * sizeof(float));
    std::vector<SampleToDecode> there(samples.begin(), samples.end());
    for (std::size_t i = 0; i < there.size(); ++i) {
      if (there[i].values.empty()) continue;
      there[i].values = values.floats().subspan(i * shape.values(), shape.values());
    }
    SHOAL_RETURN_IF_ERROR(host().Decode(payload, there, shape, key, next_m));
    for (std::size_t i = 0; i < there.size(); ++i) {
      SHOAL_RETURN_IF_ERROR(lanes_->ToDevice(std::as_bytes(there[i].values), samples[i].values));
    }
    return Status::Ok();
  }

  // ---- StatefulCodec ---------------------------------------------------------------------------

  Result<std::size_t> EncodeOnLink(const GradientMessage& message, const LowRankState& before,
                                   std::span<std::byte> out, LowRankState* next,
                                   CodingStats* stats) const override {
    HostCopies copies;
    SHOAL_RETURN_IF_ERROR(copies.Fetch(message.samples, lanes_.get()));
    GradientMessage there = message;
    there.samples = copies.samples;
    return host().stateful()->EncodeOnLink(there, before, out, next, stats);
  }
  bool LowRankAt(const LinkPosition& position, SampleShape shape,
                 std::size_t samples) const override {
    return host().stateful()->LowRankAt(position, shape, samples);
  }
  bool SaysLowRank(std::span<const std::byte> payload) const override {
    return host().stateful()->SaysLowRank(payload);
  }
  bool PassesOn(const LazySwitch& lazy) const override { return host().stateful()->PassesOn(lazy); }

 private:
  const std::shared_ptr<CopyLanes> lanes_;
};

}  // namespace

std::shared_ptr<const MessageCodec> NewHostFormCodec(std::shared_ptr<const MessageCodec> host,
                                                     std::shared_ptr<CopyLanes> lanes) {
  return std::make_shared<HostFormCodec>(std::move(host), std::move(lanes));
}

}  // namespace shoal::compression
