// LearnedCodec: b-bit codes for points of a table (learned_levels.h) in each bucket's own range.
//
// Source, of levels that are learned: learned_levels.h. Rounding is to the nearest point, so what
// is not sent wants error feedback. State kept: none; the table is part of the spec. Bytes on the
// wire: 24 + 8 per bucket + b bits per value or, with an entropy coder, what its codes need.

#ifndef SHOAL_COMPRESSION_CODECS_LEARNED_CODEC_H_
#define SHOAL_COMPRESSION_CODECS_LEARNED_CODEC_H_

#include <cstdint>
#include <memory>
#include <span>

#include "compression/codecs/learned_levels.h"
#include "compression/codecs/plain_codec.h"
#include "compression/entropy/symbol_stream.h"

namespace shoal::compression {

// `levels`: a LevelTable of 1 to 5 bits. `bucket` divides the hidden size of every message.
std::shared_ptr<const PlainCodec> NewLearnedCodec(LevelTable levels, std::uint32_t bucket,
                                                  EntropyCoder coder);

const CodecEntry& LearnedEntry();

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_CODECS_LEARNED_CODEC_H_
