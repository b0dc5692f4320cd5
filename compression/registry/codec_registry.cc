#include "compression/registry/codec_registry.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "common/command_line/spelling.h"
#include "compression/codecs/aqsgd/aqsgd_codec.h"
#include "compression/codecs/cocktail_codec.h"
#include "compression/codecs/codec_options.h"
#include "compression/codecs/direct/direct_entry.h"
#include "compression/codecs/dithered/dithered_entry.h"
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

std::vector<std::string> CodecNames() {
  std::vector<std::string> names;
  for (const Entry of : kEntries) names.emplace_back(of().name);
  return names;
}

Status CheckOptions(const CodecEntry& entry, const CodecSpec& spec) {
  if (!entry.entropy_coder) SHOAL_RETURN_IF_ERROR(CheckNoEntropyCoder(spec));
  return CheckKeys(spec, entry.keys);
}

// Takes the option `feedback` out of a spec that is not inside another one; what it says.
Result<bool> TakeFeedback(const CodecEntry& entry, CodecSpec* spec) {
  if (spec->Option("feedback").empty()) return false;
  if (entry.make_plain == nullptr) return SpecError(*spec, std::string(NoFeedback(entry, *spec)));
  SHOAL_ASSIGN_OR_RETURN(const std::size_t on, ChoiceOption(*spec, "feedback", {"off", "on"}));
  const std::string_view why = NoFeedback(entry, *spec);
  if (on == 1 && !why.empty()) return SpecError(*spec, std::string(why));
  std::erase_if(spec->options, [](const auto& option) { return option.first == "feedback"; });
  return on == 1;
}

// Of the codec and of all that its options name.
bool HasDeviceForm(const CodecEntry& entry, const CodecSpec& spec) {
  if (!entry.device_form || spec.Option("feedback") == "on") return false;
  if (entry.host_only != nullptr && entry.host_only(spec)) return false;
  return std::ranges::all_of(entry.nested_keys, [&](std::string_view key) {
    if (spec.Option(key).empty()) return true;
    const Result<CodecSpec> nested = ParseCodecSpec(spec.Option(key), '/');
    const CodecEntry* const inner = nested.ok() ? FindInsideCodec(nested->name) : nullptr;
    return inner != nullptr && HasDeviceForm(*inner, *nested);
  });
}

// Values that are no changes lead to nothing else.
Status OnlyChangesFollow(const CodecSpec& spec) {
  return SpecError(spec,
                   "of=values is for changes, as in aqsgd:delta=dithered:step=0.4/of=values,...; "
                   "leave it out");
}

// A codec with m is unbiased if all that it nests is, or keeps the values, none of that left to a
// default; its m has 16 bits, which is one. A guard would put other codecs in their place.
bool Unbiased(const CodecEntry& entry, const CodecSpec& spec) {
  if (entry.unbiased != nullptr) return entry.unbiased(spec);
  if (!entry.keeps_m || !spec.Option("m").empty()) return false;
  const Result<CodecSpec> changes = ParseCodecSpec(spec.Option(kChangesKey), '/');
  const bool follows = changes.ok() && changes->Option("of") == "values";
  if (!follows && spec.Option("guard") != "off") return false;
  return std::ranges::all_of(entry.nested_keys, [&](std::string_view key) {
    const Result<CodecSpec> nested = ParseCodecSpec(spec.Option(key), '/');
    const CodecEntry* const inner = nested.ok() ? FindInsideCodec(nested->name) : nullptr;
    return inner != nullptr && (inner->exact || Unbiased(*inner, *nested));
  });
}

}  // namespace

std::vector<const CodecEntry*> Codecs() {
  std::vector<const CodecEntry*> codecs;
  for (const Entry of : kEntries) codecs.push_back(&of());
  return codecs;
}

const CodecEntry* FindCodec(std::string_view name) {
  for (const Entry of : kEntries) {
    if (of().name == name) return &of();
  }
  return nullptr;
}

const CodecEntry* FindInsideCodec(std::string_view name) {
  const CodecEntry* const entry = FindCodec(name);
  return entry == nullptr || entry->inside == nullptr ? entry : &entry->inside();
}

Result<NestedCodec> NestCodec(const CodecSpec& outer, std::string_view key, std::string_view text,
                              std::uint32_t hidden) {
  SHOAL_ASSIGN_OR_RETURN(const CodecSpec spec, ParseCodecSpec(text, '/'));
  if (!spec.Option("feedback").empty()) {
    const CodecEntry* const around = FindCodec(outer.name);
    SHOAL_CHECK(around != nullptr);
    return SpecError(outer, std::string(key) + "= names a codec without memory; " +
                                std::string(NoFeedback(*around, outer)));
  }
  const std::string name(key);
  const CodecEntry* const entry = FindInsideCodec(spec.name);
  if (entry != nullptr && entry->only_changes && key != kChangesKey) {
    return SpecError(outer, name + "=" + std::string(text) + ": " + std::string(spec.name) +
                                " is for changes, as in aqsgd:delta=" + std::string(spec.name) +
                                ":..., for what it leaves out is lost elsewhere; take another " +
                                "codec here");
  }
  if (entry == nullptr || entry->make_plain == nullptr) {
    return SpecError(outer, name + "=" + std::string(text) + "; allowed are " + name +
                                "=raw:dtype=..., " + name +
                                "=direct:bits=... and specs of tiles, topk" +
                                (key == kChangesKey ? ", dithered and lowrank" : " and dithered") +
                                ", further options after '/', as in direct:bits=8/bucket=64");
  }
  const auto made = [&]() -> Result<PlainPointer> {
    SHOAL_RETURN_IF_ERROR(CheckOptions(*entry, spec));
    return entry->make_plain(spec, hidden);
  }();
  if (!made.ok()) {
    return made.status().WithContext(name + " of '" + std::string(outer.text) + "'");
  }
  if (key != kChangesKey && (*made)->follows_values()) return OnlyChangesFollow(outer);
  return NestedCodec{*made, entry};
}

Result<ParsedCodec> ParseCodec(std::string_view text, std::uint32_t hidden) {
  if (hidden < 1 || hidden > kHiddenMax) {
    return InvalidArgument("codec: hidden size " + std::to_string(hidden) +
                           " is outside 1 to 1048576");
  }
  ParsedCodec parsed;
  SHOAL_ASSIGN_OR_RETURN(parsed.spec, ParseCodecSpec(text, ','));
  parsed.entry = FindCodec(parsed.spec.name);
  if (parsed.entry == nullptr) {
    return SpecError(parsed.spec, "unknown codec '" + std::string(parsed.spec.name) + "'" +
                                      DidYouMean(parsed.spec.name, CodecNames()) + "; known are " +
                                      KnownCodecs());
  }
  SHOAL_ASSIGN_OR_RETURN(parsed.feedback, TakeFeedback(*parsed.entry, &parsed.spec));
  SHOAL_RETURN_IF_ERROR(CheckOptions(*parsed.entry, parsed.spec));
  return parsed;
}

Result<MessagePointer> MakeCodec(std::string_view text, std::uint32_t hidden) {
  SHOAL_ASSIGN_OR_RETURN(const ParsedCodec parsed, ParseCodec(text, hidden));
  if (parsed.entry->make != nullptr) return parsed.entry->make(parsed.spec, hidden, NestCodec);
  SHOAL_ASSIGN_OR_RETURN(PlainPointer plain, parsed.entry->make_plain(parsed.spec, hidden));
  if (plain->follows_values()) return OnlyChangesFollow(parsed.spec);
  return parsed.feedback ? NewFeedbackCodec(std::move(plain))
                         : NewPlainMessageCodec(std::move(plain));
}

Result<CodecTraits> TraitsOf(std::string_view text) {
  SHOAL_ASSIGN_OR_RETURN(const CodecSpec spec, ParseCodecSpec(text, ','));
  const CodecEntry* const entry = FindCodec(spec.name);
  if (entry == nullptr) return SpecError(spec, "unknown codec; known are " + KnownCodecs());
  CodecTraits traits;
  traits.exact = entry->exact;
  traits.lossless = entry->lossless != nullptr && entry->lossless(spec);
  traits.unbiased = Unbiased(*entry, spec);
  traits.keeps_m = entry->keeps_m;
  traits.feedback = NoFeedback(*entry, spec).empty();
  traits.entropy_coder = entry->entropy_coder;
  traits.device_form = HasDeviceForm(*entry, spec);
  return traits;
}

}  // namespace shoal::compression
