// Evidence of a micro-batch from foreign hands: frames that fit, changed by the input, or made of
// it. What is accepted can be decoded or is refused; nothing is read beyond its end.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>

#include "common/checksum.h"
#include "compression/api/value_home.h"
#include "pipeline/boundary/evidence.h"

using namespace shoal;
using namespace shoal::pipeline;

namespace {

class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size) : data_(data), size_(size) {}
  std::uint8_t Byte() { return at_ < size_ ? data_[at_++] : 0; }
  bool empty() const { return at_ == size_; }
  Buffer Bytes(std::size_t most) {
    Buffer bytes(std::min(most, size_ - at_));
    if (!bytes.empty()) std::memcpy(bytes.data(), data_ + at_, bytes.size());
    at_ += bytes.size();
    return bytes;
  }

 private:
  const std::uint8_t* const data_;
  const std::size_t size_;
  std::size_t at_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const auto codec = compression::MakeCodec("aqsgd:bits=2", 8).value();
  DirectionConfig direction;
  direction.codec = codec;
  direction.sample = {2, 8};
  direction.segments = Divide(*codec, direction.sample, 2, 1);
  const MicroBatchPlan plan{0, {SampleId{1}, SampleId{2}}};
  EvidenceReceiver receiver(direction, {4, 0}, plan);
  const std::size_t image_bytes = codec->MImageBytes(direction.segments.shape);
  Input input(data, size);
  while (!input.empty()) {
    const std::uint8_t what = input.Byte();
    net::Frame frame;
    frame.kind = (what & 1) != 0 ? net::FrameKind::kSpotCheck : net::FrameKind::kActivation;
    frame.micro_batch = {4, 0};
    frame.tag = (what >> 1) & 3;
    frame.codec = codec->spec();
    frame.tokens = (what & 1) != 0 ? input.Byte() & 3 : direction.segments.shape.tokens;
    frame.hidden = direction.segments.shape.hidden;
    frame.payload = input.Bytes(input.Byte() * image_bytes / 64);
    for (std::uint8_t i = input.Byte() & 3; i > 0 && (what & 1) == 0; --i) {
      net::FrameSample sample;
      sample.sample = SampleId{input.Byte() & 3u};
      sample.base_version = input.Byte() & 1;
      sample.base_checksum = Checksum64(frame.payload.bytes());
      frame.samples.push_back(sample);
    }
    if (!receiver.OnFrame(std::move(frame)).ok()) return 0;
  }
  if (receiver.complete()) DigestOf(receiver.Take());
  return 0;
}
