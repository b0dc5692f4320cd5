// LowRankCodec: gradients of a micro-batch as two thin factors in the pipeline's epilogue, by
// another codec elsewhere (Song et al., "Optimus-CC: Efficient Large NLP Model Training with 3D
// Parallelism Aware Communication Compression", ASPLOS 2023, section 5; the factors: low_rank.h).
//
// The matrix is (samples x tokens) x hidden. State kept at the sender alone, per (link, direction):
// the last Q and, while lazy error propagation is on, what the last message left out
// (stateful_codec.h). Bytes on the wire: docs/WIRE.md, "lowrank".
//
// Internal to compression/. Pure. Thread: any.

#ifndef SHOAL_COMPRESSION_CODECS_LOW_RANK_LOW_RANK_CODEC_H_
#define SHOAL_COMPRESSION_CODECS_LOW_RANK_LOW_RANK_CODEC_H_

#include <cstdint>
#include <memory>

#include "compression/api/codec.h"
#include "compression/api/sample_layout.h"
#include "compression/codecs/codec_entry.h"
#include "compression/codecs/plain_codec.h"

namespace shoal::compression {

enum class Lazy : std::uint8_t { kAuto, kOn, kOff };

struct LowRankParts {
  std::uint32_t rank = 16;               // 1 to kRankMax
  bool epilogue = true;                  // false: every message is low rank
  Lazy lazy = Lazy::kAuto;               // kAuto: as LazySwitch says
  ValueType factors = ValueType::kFp16;  // or kFp32
  std::shared_ptr<const PlainCodec> otherwise;
};

// A codec with stateful().
MessagePointer NewLowRankCodec(LowRankParts parts);

const CodecEntry& LowRankEntry();

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_CODECS_LOW_RANK_LOW_RANK_CODEC_H_
