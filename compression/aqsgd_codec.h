// AqsgdCodec: quantises the change of a sample's activation since its last visit ("Fine-tuning
// Language Models over Slow Networks using Activation Quantization with Guarantees", AQ-SGD,
// section 3, algorithm 1).
//
// State kept: m per sample and boundary on both ends (not here: m goes in and comes out), fp16
// with one exponent per sample. Bytes on the wire: 16 + 2 per bucket + b bits per value, on a
// first visit those of the first-visit codec. Numerics: delta = values - m coded as in
// compression/bucket_code.h; value = m + decoded delta in fp32, rounded once to fp16: that is the
// next m and what the receiver gets. The sender makes its next m by the same arithmetic from the
// codes it sends, so both ends hold the same bits.

#ifndef SHOAL_COMPRESSION_AQSGD_CODEC_H_
#define SHOAL_COMPRESSION_AQSGD_CODEC_H_

#include <memory>

#include "compression/bucket_code.h"
#include "compression/codec.h"

namespace shoal::compression {

// `first_visit` codes samples without m; it keeps no m itself and marks its payloads.
std::shared_ptr<const SampleCodec> NewAqsgdCodec(BucketCode code,
                                                 std::shared_ptr<const SampleCodec> first_visit);

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_AQSGD_CODEC_H_
