// The list of codecs, and what a spec stands for. Internal to compression/; from outside: MakeCodec
// and TraitsOf (codec.h). Pure. Thread: any.

#ifndef SHOAL_COMPRESSION_CODECS_CODEC_REGISTRY_H_
#define SHOAL_COMPRESSION_CODECS_CODEC_REGISTRY_H_

#include <cstdint>
#include <string_view>

#include "common/status.h"
#include "compression/codecs/codec_entry.h"

namespace shoal::compression {

// The entry of this name, or null.
const CodecEntry* FindCodec(std::string_view name);

// As MakeCodec, in parts, for codecs that are built of the same ones (device_codec.h).
Result<CodecParts> ParseCodec(std::string_view spec, std::uint32_t hidden);

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_CODECS_CODEC_REGISTRY_H_
