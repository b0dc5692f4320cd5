// A codec with memory per link as tests of single micro-batches want it.

#ifndef SHOAL_TESTS_UNIT_COMPRESSION_ON_LINK_H_
#define SHOAL_TESTS_UNIT_COMPRESSION_ON_LINK_H_

#include <gtest/gtest.h>

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "compression/api/codec.h"
#include "compression/api/stateful_codec.h"

namespace shoal::compression {

// One link: its codec and the memory of its sender.
class OnLink {
 public:
  OnLink(const std::string& spec, SampleShape shape)
      : codec_(MakeCodec(spec, shape.hidden).value()), shape_(shape) {
    position_ = {2, 1, 1, 0};  // all of the step is epilogue
  }

  const MessageCodec& codec() const { return *codec_; }
  const LowRankState& state() const { return state_; }
  void Adopt(LowRankState state) { state_ = std::move(state); }
  LinkPosition& position() { return position_; }

  struct Sent {
    std::vector<std::byte> payload;
    LowRankState next;
    CodingStats stats;
    Status status;
  };
  // Does not adopt the next memory.
  Sent Encode(const std::vector<std::vector<float>>& samples, const RandomKey& key = {},
              std::span<const float> activations = {}) const {
    const std::vector<std::span<const float>> views(samples.begin(), samples.end());
    Sent sent;
    sent.payload.resize(codec_->EncodedBytesMax(shape_, samples.size()));
    const auto bytes =
        codec_->stateful()->EncodeOnLink({views, shape_, key, position_, activations}, state_,
                                         sent.payload, &sent.next, &sent.stats);
    sent.status = bytes.ok() ? Status::Ok() : bytes.status();
    sent.payload.resize(bytes.ok() ? *bytes : 0);
    return sent;
  }

  Result<std::vector<std::vector<float>>> Decode(std::span<const std::byte> payload,
                                                 std::size_t count,
                                                 const RandomKey& key = {}) const {
    std::vector<std::vector<float>> values(count, std::vector<float>(shape_.values()));
    std::vector<SampleToDecode> samples;
    for (auto& sample : values) samples.push_back({sample, false, {}});
    SHOAL_RETURN_IF_ERROR(codec_->Decode(payload, samples, shape_, key, {}));
    return values;
  }

  // Encodes one sample, adopts the next memory and gives what arrives.
  std::vector<float> Send(const std::vector<float>& sample, const RandomKey& key = {},
                          std::span<const float> activations = {}) {
    Sent sent = Encode({sample}, key, activations);
    EXPECT_TRUE(sent.status.ok()) << sent.status.ToString();
    state_ = std::move(sent.next);
    return Decode(sent.payload, 1, key).value()[0];
  }

 private:
  std::shared_ptr<const MessageCodec> codec_;
  SampleShape shape_;
  LowRankState state_;
  LinkPosition position_;
};

}  // namespace shoal::compression

#endif  // SHOAL_TESTS_UNIT_COMPRESSION_ON_LINK_H_
