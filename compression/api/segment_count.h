// Into how many messages a micro-batch is divided on its way over a boundary, and what is then kept
// of a sample: every segment of it has an image of its own. Pure. Thread: any.

#ifndef SHOAL_COMPRESSION_API_SEGMENT_COUNT_H_
#define SHOAL_COMPRESSION_API_SEGMENT_COUNT_H_

#include <cstdint>

#include "compression/api/codec.h"

namespace shoal::compression {

inline constexpr std::uint32_t kSegmentsMax = 4;
// Of fp32 in a segment, all rows together. The same on all peers (docs/WIRE.md, "Segments").
inline constexpr std::uint64_t kSegmentBytesMin = 1ull << 20;

// For micro-batches of up to `rows` samples of `whole`: the most segments, of 4, 2 and 1, that
// have whole tokens and at least `bytes_min` of fp32 in all rows; one if the codec's messages
// cannot be divided.
std::uint32_t SegmentCount(const MessageCodec& codec, SampleShape whole, std::uint32_t rows,
                           std::uint64_t bytes_min = kSegmentBytesMin);

// Bytes of the images of one sample, m or residual, that a store keeps at one end of a boundary;
// 0 for codecs without either.
std::uint64_t KeptBytes(const MessageCodec& codec, SampleShape whole, std::uint32_t rows,
                        std::uint64_t bytes_min = kSegmentBytesMin);

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_API_SEGMENT_COUNT_H_
