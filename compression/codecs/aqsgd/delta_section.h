// Delta sections: the changes of samples against their m, coded and added (aqsgd_codec.h).
//
// Two ways that give the same bytes and images: block by block in one pass (bucket codes, 16-bit
// m), or over whole samples (any codec, any m). Internal to compression/. Pure. Thread: any.

#ifndef SHOAL_COMPRESSION_CODECS_AQSGD_DELTA_SECTION_H_
#define SHOAL_COMPRESSION_CODECS_AQSGD_DELTA_SECTION_H_

#include <cstddef>
#include <span>
#include <string_view>

#include "compression/api/codec.h"
#include "compression/api/m_format.h"
#include "compression/codecs/bucket_section.h"
#include "compression/codecs/plain_codec.h"

namespace shoal::compression {

struct DeltaContext {
  SampleShape shape;
  RandomKey key;
  std::string_view spec;
};

// Changes in buckets; `scaled`: under a scale per channel, as ScaledCodec writes them.
struct OnePassFormat {
  const BucketFormat& buckets;
  bool scaled = false;
};

Result<std::size_t> EncodeDeltasOnePass(const OnePassFormat& format,
                                        std::span<const SampleToEncode> samples,
                                        const DeltaContext& context, std::span<std::byte> out,
                                        std::span<Buffer> next_m, CodingStats* stats);
Status DecodeDeltasOnePass(const OnePassFormat& format, std::span<const std::byte> section,
                           std::span<const SampleToDecode> samples, const DeltaContext& context,
                           std::span<Buffer> next_m);

Result<std::size_t> EncodeDeltas(const PlainCodec& codec, const MFormat& m,
                                 std::span<const SampleToEncode> samples,
                                 const DeltaContext& context, std::span<std::byte> out,
                                 std::span<Buffer> next_m, CodingStats* stats);
Status DecodeDeltas(const PlainCodec& codec, const MFormat& m, std::span<const std::byte> section,
                    std::span<const SampleToDecode> samples, const DeltaContext& context,
                    std::span<Buffer> next_m);

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_CODECS_AQSGD_DELTA_SECTION_H_
