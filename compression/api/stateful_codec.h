// StatefulCodec: a codec of gradients whose sender remembers something per link, from one
// micro-batch to the next, where a MessageCodec remembers per sample or nothing.
//
// What it remembers enters Encode and leaves it: the caller keeps one LowRankState per (link,
// direction), stages what came out, adopts it when the micro-batch counts, and drops it when a step
// is aborted; encoding again from the old one gives the same bytes. So the messages of a link are
// encoded one after the other. The receiver needs none of it: every message says how it was coded.
// It is a MessageCodec as well (MessageCodec::stateful): that one's Encode has no memory and sends
// what the codec sends outside its own domain; its Decode takes every message. Pure. Thread: any.

#ifndef SHOAL_COMPRESSION_API_STATEFUL_CODEC_H_
#define SHOAL_COMPRESSION_API_STATEFUL_CODEC_H_

#include <cstddef>
#include <span>
#include <vector>

#include "common/status.h"
#include "compression/api/codec.h"
#include "compression/api/epilogue.h"
#include "compression/api/lazy_switch.h"
#include "compression/api/matrix_shape.h"

namespace shoal::compression {

// Empty at the start of a run, after a cut has moved, and wherever it was lost: nothing but the
// error that it held is missing then.
struct LowRankState {
  MatrixShape shape;         // of the last low-rank message
  std::vector<float> q;      // its Q, columns x rank, where the next one begins
  std::vector<float> error;  // what the last message left out, row-major; empty: nothing
  MatrixShape error_shape;
  LazySwitch lazy;

  bool operator==(const LowRankState&) const = default;
};

// A micro-batch's gradients as they reach the sender.
struct GradientMessage {
  std::span<const std::span<const float>> samples;  // shape.values() each
  SampleShape shape;
  RandomKey key;
  LinkPosition position;
  // SampleActivations of the activations that the gradients belong to; empty: not known.
  std::span<const float> activations;
};

class StatefulCodec {
 public:
  virtual ~StatefulCodec() = default;

  // As MessageCodec::Encode, into `out` of at least its EncodedBytesMax. `before` is not changed;
  // `*next`, another object, becomes the memory for the link's next message (what it held is
  // overwritten, its storage is used again). After an error it is of no use and `before` still
  // holds.
  virtual Result<std::size_t> EncodeOnLink(const GradientMessage& message,
                                           const LowRankState& before, std::span<std::byte> out,
                                           LowRankState* next, CodingStats* stats) const = 0;

  // Whether a message of `samples` samples at `position` is low rank: both ends can say so.
  virtual bool LowRankAt(const LinkPosition& position, SampleShape shape,
                         std::size_t samples) const = 0;
  // Whether `payload`, foreign bytes, says that it is low rank. Decode checks the rest.
  virtual bool SaysLowRank(std::span<const std::byte> payload) const = 0;
  // Whether a memory with this switch passes on what messages leave out.
  virtual bool PassesOn(const LazySwitch& lazy) const = 0;
};

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_API_STATEFUL_CODEC_H_
