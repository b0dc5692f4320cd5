#include "compression/codecs/codec_registry.h"

#include <algorithm>
#include <string>
#include <utility>

#include "compression/codecs/aqsgd/aqsgd_codec.h"
#include "compression/codecs/cocktail_codec.h"
#include "compression/codecs/codec_options.h"
#include "compression/codecs/direct_codec.h"
#include "compression/codecs/dithered/dithered_codec.h"
#include "compression/codecs/feedback_codec.h"
#include "compression/codecs/learned_codec.h"
#include "compression/codecs/low_rank/low_rank_codec.h"
#include "compression/codecs/raw_codec.h"
#include "compression/codecs/shifted_codec.h"
#include "compression/codecs/tiles_codec.h"
#include "compression/codecs/topk_codec.h"

namespace shoal::compression {
namespace {

// Registration: a codec is known by its line here, in the order in which errors list them.
using Entry = const CodecEntry& (*)();
constexpr Entry kEntries[] = {
    RawEntry,       //
    DirectEntry,    //
    TilesEntry,     //
    TopKEntry,      //
    DitheredEntry,  //
    ShiftedEntry,   //
    LearnedEntry,   //
    CocktailEntry,  //
    LowRankEntry,   //
    AqsgdEntry,     //
};

// "a, b or c".
std::string Listed(const std::vector<std::string_view>& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i > 0) text += i + 1 == names.size() ? " or " : ", ";
    text += names[i];
  }
  return text;
}

std::string_view NoFeedback(const CodecEntry& entry, const CodecSpec& spec) {
  return entry.no_feedback == nullptr ? std::string_view() : entry.no_feedback(spec);
}

std::string KnownCodecs() {
  std::string text;
  std::vector<std::string_view> coded, fed_back;
  for (const Entry of : kEntries) {
    const CodecEntry& entry = of();
    text += (text.empty() ? "" : ", ") + std::string(entry.usage);
    if (entry.entropy_coder) coded.push_back(entry.name);
    if (NoFeedback(entry, {}).empty()) fed_back.push_back(entry.name);
  }
  return text + "; +zstd or +rans behind " + Listed(coded) +
         " adds an entropy coder; feedback=on in " + Listed(fed_back) +
         " is error feedback for gradients";
}

Status CheckOptions(const CodecEntry& entry, const CodecSpec& spec) {
  if (!entry.entropy_coder) SHOAL_RETURN_IF_ERROR(CheckNoEntropyCoder(spec));
  return CheckKeys(spec, entry.keys);
}

Result<NestedCodec> Nest(const CodecSpec& outer, std::string_view key, std::string_view text,
                         std::uint32_t hidden) {
  SHOAL_ASSIGN_OR_RETURN(const CodecSpec spec, ParseCodecSpec(text, '/'));
  if (!spec.Option("feedback").empty()) {
    const CodecEntry* const around = FindCodec(outer.name);
    SHOAL_CHECK(around != nullptr);
    return SpecError(outer, std::string(key) + "= names a codec without memory; " +
                                std::string(NoFeedback(*around, outer)));
  }
  const std::string name(key);
  const CodecEntry* const entry = FindCodec(spec.name);
  if (entry == nullptr || entry->make == nullptr) {
    return SpecError(outer, name + "=" + std::string(text) + "; allowed are " + name +
                                "=raw:dtype=..., " + name +
                                "=direct:bits=... and specs of tiles, topk and dithered, further " +
                                "options after '/', as in direct:bits=8/bucket=64");
  }
  const auto made = [&]() -> Result<PlainPointer> {
    SHOAL_RETURN_IF_ERROR(CheckOptions(*entry, spec));
    return entry->make(spec, hidden);
  }();
  if (!made.ok()) {
    return made.status().WithContext(name + " of '" + std::string(outer.text) + "'");
  }
  return NestedCodec{*made, entry};
}

// Takes the option `feedback` out of a spec that is not inside another one; what it says.
Result<bool> TakeFeedback(const CodecEntry& entry, CodecSpec* spec) {
  if (spec->Option("feedback").empty()) return false;
  if (entry.make == nullptr) return SpecError(*spec, std::string(NoFeedback(entry, *spec)));
  SHOAL_ASSIGN_OR_RETURN(const std::size_t on, ChoiceOption(*spec, "feedback", {"off", "on"}));
  const std::string_view why = NoFeedback(entry, *spec);
  if (on == 1 && !why.empty()) return SpecError(*spec, std::string(why));
  std::erase_if(spec->options, [](const auto& option) { return option.first == "feedback"; });
  return on == 1;
}

}  // namespace

const CodecEntry* FindCodec(std::string_view name) {
  for (const Entry of : kEntries) {
    if (of().name == name) return &of();
  }
  return nullptr;
}

Result<CodecParts> ParseCodec(std::string_view text, std::uint32_t hidden) {
  if (hidden < 1 || hidden > kHiddenMax) {
    return InvalidArgument("codec: hidden size " + std::to_string(hidden) +
                           " is outside 1 to 1048576");
  }
  SHOAL_ASSIGN_OR_RETURN(CodecSpec spec, ParseCodecSpec(text, ','));
  const CodecEntry* const entry = FindCodec(spec.name);
  if (entry == nullptr) {
    return SpecError(spec,
                     "unknown codec '" + std::string(spec.name) + "'; known are " + KnownCodecs());
  }
  SHOAL_ASSIGN_OR_RETURN(const bool feedback, TakeFeedback(*entry, &spec));
  SHOAL_RETURN_IF_ERROR(CheckOptions(*entry, spec));
  if (entry->compose != nullptr) return entry->compose(spec, hidden, Nest);
  CodecParts parts;
  parts.feedback = feedback;
  SHOAL_ASSIGN_OR_RETURN(parts.plain, entry->make(spec, hidden));
  return parts;
}

Result<std::shared_ptr<const MessageCodec>> MakeCodec(std::string_view spec, std::uint32_t hidden) {
  SHOAL_ASSIGN_OR_RETURN(CodecParts parts, ParseCodec(spec, hidden));
  if (parts.aqsgd != nullptr) return NewAqsgdCodec(*parts.aqsgd);
  if (parts.low_rank != nullptr) return NewLowRankCodec(*parts.low_rank);
  return parts.feedback ? NewFeedbackCodec(std::move(parts.plain))
                        : NewPlainMessageCodec(std::move(parts.plain));
}

Result<CodecTraits> TraitsOf(std::string_view text) {
  SHOAL_ASSIGN_OR_RETURN(const CodecSpec spec, ParseCodecSpec(text, ','));
  const CodecEntry* const entry = FindCodec(spec.name);
  if (entry == nullptr) return SpecError(spec, "unknown codec; known are " + KnownCodecs());
  CodecTraits traits;
  traits.exact = entry->exact;
  traits.unbiased = entry->unbiased != nullptr && entry->unbiased(spec);
  traits.feedback = NoFeedback(*entry, spec).empty();
  traits.entropy_coder = entry->entropy_coder;
  return traits;
}

}  // namespace shoal::compression
