// RawCodec: values as they are, in fp32, fp16 or bf16. No paper.
//
// State kept: none. Bytes on the wire: 16 + 4 or 2 per value. fp16 carries one power-of-two
// exponent per sample, so that values beyond 65504 survive; fp16 and bf16 round to nearest even.

#ifndef SHOAL_COMPRESSION_RAW_CODEC_H_
#define SHOAL_COMPRESSION_RAW_CODEC_H_

#include <memory>

#include "compression/codec.h"
#include "compression/sample_layout.h"

namespace shoal::compression {

// `first_visit` marks the payloads as first visits of a codec that keeps m.
std::shared_ptr<const SampleCodec> NewRawCodec(ValueType type, bool first_visit);

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_RAW_CODEC_H_
