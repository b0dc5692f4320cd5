// `direct` with all its scales: per bucket, per channel (`bucket=channel`), or per bucket under a
// scale per channel (`channels=on`). Internal to compression/. Pure. Thread: any.

#ifndef SHOAL_COMPRESSION_CODECS_DIRECT_DIRECT_ENTRY_H_
#define SHOAL_COMPRESSION_CODECS_DIRECT_DIRECT_ENTRY_H_

#include <cstdint>
#include <string_view>

#include "common/status.h"
#include "compression/api/codec_spec.h"
#include "compression/codecs/codec_entry.h"

namespace shoal::compression {

// With whatever scales its options ask for. `aqsgd` without delta= codes changes with the same.
Result<PlainPointer> MakeDirect(const CodecSpec& spec, std::uint32_t hidden);
// CodecEntry::no_changes.
std::string_view NoChangesOfDirect(const CodecSpec& spec);

const CodecEntry& DirectEntry();

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_CODECS_DIRECT_DIRECT_ENTRY_H_
