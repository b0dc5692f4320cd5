// CocktailCodec: top-k of a random subset of the values, the same subset on all members.
//
// Source: Wang, Lu, Yuan, Chen, Liang, De Sa, Re and Zhang, "CocktailSGD: Fine-tuning Foundation
// Models over 500Mbps Networks" (ICML 2023): random subset, top-k of it by magnitude, few-bit
// values. What is not sent has to be kept by error feedback (an exchange's, say). State kept: none.
// The subset of a message of n values: every value i with i mod stride = o, o drawn by counter from
// (seed, step) alone, so that contributions and sums of a round have the same one.
// Bytes on the wire: a section of `topk` of the subset (docs/WIRE.md).

#ifndef SHOAL_COMPRESSION_CODECS_COCKTAIL_CODEC_H_
#define SHOAL_COMPRESSION_CODECS_COCKTAIL_CODEC_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "compression/api/codec.h"
#include "compression/codecs/plain_codec.h"
#include "compression/entropy/symbol_stream.h"

namespace shoal::compression {

// Which values of a message travel: first, first + stride, ...
struct StridedSubset {
  std::size_t first = 0, stride = 1;
  std::size_t count(std::size_t values) const {
    return first < values ? (values - first - 1) / stride + 1 : 0;
  }
};
// The subset of `values` values (at least one of which is in it).
StridedSubset SubsetOf(const RandomKey& key, std::size_t stride, std::size_t values);

const CodecEntry& CocktailEntry();

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_CODECS_COCKTAIL_CODEC_H_
