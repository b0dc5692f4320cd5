// What a spec stands for, for codecs that build on the same parts as MakeCodec's (device_codec.h).
//
// Internal to compression/. Pure. Thread: any.

#ifndef SHOAL_COMPRESSION_CODECS_CODEC_PARTS_H_
#define SHOAL_COMPRESSION_CODECS_CODEC_PARTS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "common/status.h"
#include "compression/codecs/aqsgd_codec.h"
#include "compression/codecs/low_rank_codec.h"
#include "compression/codecs/plain_codec.h"

namespace shoal::compression {

// `plain`, with or without feedback, `aqsgd` or `low_rank`.
struct CodecParts {
  std::shared_ptr<const PlainCodec> plain;
  bool feedback = false;
  std::optional<AqsgdParts> aqsgd;
  std::optional<LowRankParts> low_rank;
};

// As MakeCodec.
Result<CodecParts> ParseCodec(std::string_view spec, std::uint32_t hidden);

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_CODECS_CODEC_PARTS_H_
