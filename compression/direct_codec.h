// DirectCodec: every value to b bits on its own (the DirectQ baseline and the backward codec of
// AQ-SGD: "Fine-tuning Language Models over Slow Networks using Activation Quantization with
// Guarantees", section 3, algorithm 1, lines for the backward pass).
//
// State kept: none. Bytes on the wire: 16 + 2 per bucket + b bits per value. Numerics:
// compression/bucket_code.h; decoded values are fp32 levels.

#ifndef SHOAL_COMPRESSION_DIRECT_CODEC_H_
#define SHOAL_COMPRESSION_DIRECT_CODEC_H_

#include <memory>

#include "compression/bucket_code.h"
#include "compression/codec.h"

namespace shoal::compression {

// `first_visit` marks the payloads as first visits of a codec that keeps m.
std::shared_ptr<const SampleCodec> NewDirectCodec(BucketCode code, bool first_visit);

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_DIRECT_CODEC_H_
