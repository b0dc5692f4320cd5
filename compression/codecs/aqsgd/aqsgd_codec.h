// AqsgdCodec: sends the quantised change of a sample's activation against m, the activation that
// both ends last agreed on ("Fine-tuning Language Models over Slow Networks using Activation
// Quantization with Guarantees", section 3, algorithm 1).
//
// State kept: m per sample, as an image that enters and leaves as an argument (m_format.h). Bytes
// on the wire: 16, one section of changes and one of first visits, whichever there are.
// Numerics: m' = m + decoded change, one fp32 addition per value; with a 16-bit m it is rounded
// once to fp16, and that is the next m and what the receiver's layers get. The sender makes its
// next m by the same arithmetic from the codes it sends, so both ends hold the same bits.

#ifndef SHOAL_COMPRESSION_CODECS_AQSGD_AQSGD_CODEC_H_
#define SHOAL_COMPRESSION_CODECS_AQSGD_AQSGD_CODEC_H_

#include <cstdint>
#include <memory>
#include <string>

#include "compression/api/codec.h"
#include "compression/api/m_format.h"
#include "compression/codecs/codec_entry.h"
#include "compression/codecs/direct_codec.h"
#include "compression/codecs/plain_codec.h"

namespace shoal::compression {

struct AqsgdParts {
  std::string spec;
  MFormat m{16};
  std::shared_ptr<const PlainCodec> delta;        // of the changes
  std::shared_ptr<const PlainCodec> wide;         // the same in DeltaMode::kWideDelta
  std::shared_ptr<const PlainCodec> first_visit;  // of samples without m
  std::shared_ptr<const PlainCodec> full;         // of all samples in DeltaMode::kFull
  // Where errors follow the values, changes of any size have as small a one: nothing to guard.
  bool guarded = true;
  // `delta` and `wide` if they are DirectCodecs, or such under channel scales (`scaled`), and m has
  // 16 bits: coded in one pass over each block.
  std::shared_ptr<const DirectCodec> one_pass, wide_one_pass;
  bool scaled = false;

  // The bucket format of the changes if they are coded in one pass, else null.
  const BucketFormat* OnePass(DeltaMode mode) const {
    const auto& buckets = mode == DeltaMode::kWideDelta ? wide_one_pass : one_pass;
    return buckets == nullptr ? nullptr : &buckets->format();
  }
};

// What a spec stands for, on whatever machine its parts work.
Result<AqsgdParts> MakeAqsgdParts(const CodecSpec& spec, std::uint32_t hidden, MakeNested nested);

MessagePointer NewAqsgdCodec(AqsgdParts parts);

const CodecEntry& AqsgdEntry();

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_CODECS_AQSGD_AQSGD_CODEC_H_
