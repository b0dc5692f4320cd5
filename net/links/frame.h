// Frame: one message on a bulk link, as the rest of shoal sees it. The wire form is
// proto/bulk.proto and docs/WIRE.md.

#ifndef SHOAL_NET_LINKS_FRAME_H_
#define SHOAL_NET_LINKS_FRAME_H_

#include <cstdint>
#include <string>
#include <vector>

#include "common/ids.h"
#include "common/memory/buffer.h"

namespace shoal::net {

enum class FrameKind : std::uint32_t {
  kActivation = 1,  // forward, stage s to s + 1
  kGradient = 2,    // backward, stage s + 1 to s
  kResend = 3,      // receiver of an activation or gradient: send these samples in full
  kInventory = 4,   // what this end's delta store has for the boundary: payload, see pipeline
  kGroup = 5,       // collective traffic: tag and payload
  kEvicted = 6,     // samples this end no longer has m for
  kEvaluation = 7,  // activations of validation rows, forward; backward: they were taken
  kState = 8,       // of a stage, to a member of its group that lacks it
  kSpotCheck = 9,   // m images that activations, which follow on the same link, build on
  kReceived = 10,   // receiver of gradients with m: of this micro-batch nothing is lacking
};

struct FrameSample {
  SampleId sample;
  std::uint64_t base_version = 0;  // 0: first visit
  std::uint64_t base_checksum = 0;
};

struct Frame {
  FrameKind kind = FrameKind::kActivation;
  RunId run;
  std::uint64_t generation = 0;
  MicroBatchId micro_batch;
  std::uint64_t tag = 0;
  std::string codec;
  std::uint32_t tokens = 0;
  std::uint32_t hidden = 0;
  std::vector<FrameSample> samples;
  Buffer payload;
};

// The same, with a payload of its own.
inline Frame CopyOf(const Frame& frame) {
  return {frame.kind,       frame.run,
          frame.generation, frame.micro_batch,
          frame.tag,        frame.codec,
          frame.tokens,     frame.hidden,
          frame.samples,    Buffer::CopyOf(frame.payload.bytes())};
}

}  // namespace shoal::net

#endif  // SHOAL_NET_LINKS_FRAME_H_
