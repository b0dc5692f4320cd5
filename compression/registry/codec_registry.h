// The list of codecs, and which one a spec names. Internal to compression/; from outside: MakeCodec
// and TraitsOf (codec.h). Pure. Thread: any.

#ifndef SHOAL_COMPRESSION_REGISTRY_CODEC_REGISTRY_H_
#define SHOAL_COMPRESSION_REGISTRY_CODEC_REGISTRY_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "common/status.h"
#include "compression/codecs/codec_entry.h"

namespace shoal::compression {

// All, in the order in which errors list them.
std::vector<const CodecEntry*> Codecs();
// The entry of this name, or null.
const CodecEntry* FindCodec(std::string_view name);
// What a name stands for inside of another spec.
const CodecEntry* FindInsideCodec(std::string_view name);

// A spec whose codec takes its options; their values are the codec's to check. Views into the text.
struct ParsedCodec {
  const CodecEntry* entry = nullptr;
  CodecSpec spec;  // without `feedback`
  bool feedback = false;
};
Result<ParsedCodec> ParseCodec(std::string_view text, std::uint32_t hidden);
// MakeNested, of all codecs.
Result<NestedCodec> NestCodec(const CodecSpec& outer, std::string_view key, std::string_view text,
                              std::uint32_t hidden);

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_REGISTRY_CODEC_REGISTRY_H_
