// RawCodec: values in fp32, fp16 or bf16.
//
// No paper. State kept: none. Bytes on the wire: 16 + 4 or 2 per value. fp16 carries one
// power-of-two exponent per message, so values beyond 65504 survive.

#ifndef SHOAL_COMPRESSION_CODECS_RAW_CODEC_H_
#define SHOAL_COMPRESSION_CODECS_RAW_CODEC_H_

#include <memory>

#include "compression/api/sample_layout.h"
#include "compression/codecs/plain_codec.h"

namespace shoal::compression {

std::shared_ptr<const PlainCodec> NewRawCodec(ValueType type);

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_CODECS_RAW_CODEC_H_
