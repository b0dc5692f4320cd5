// What `aqsgd` registers: its options, the parts that they stand for, and what is known of costs.

#include <algorithm>
#include <string>
#include <utility>

#include "compression/codecs/aqsgd/aqsgd_codec.h"
#include "compression/codecs/codec_entry.h"
#include "compression/codecs/codec_options.h"
#include "compression/codecs/direct/direct_entry.h"
#include "compression/codecs/scaled/scaled_codec.h"

namespace shoal::compression {
namespace {

constexpr char kFirstVisitDefault[] = "raw:dtype=fp16";

// Fewer bits than these cost training loss.
constexpr std::uint32_t kFirstVisitBits = 4;  // even in one epoch
constexpr std::uint32_t kManyBoundaries = 5;  // errors of 2-bit changes add up over them

// How changes are coded: the codec, what to write of it in the canonical spec, and what a codec of
// more bits takes over.
struct Changes {
  PlainPointer codec;
  std::string options;
  EntropyCoder coder = EntropyCoder::kNone;
  std::uint32_t bucket = 0;
  bool scaled = false;
};

Status Contracts(const CodecSpec& outer, std::string_view why) {
  return why.empty() ? Status::Ok()
                     : SpecError(outer, "changes cannot be coded so: " + std::string(why));
}

Result<Changes> NamedChanges(const CodecSpec& spec, std::uint32_t hidden, MakeNested nested) {
  constexpr std::string_view kBeside[] = {kChangesKey, "m", "first_visit", "guard"};
  SHOAL_RETURN_IF_ERROR(CheckNoEntropyCoder(spec));
  SHOAL_RETURN_IF_ERROR(CheckKeys(spec, kBeside));
  const std::string_view text = spec.Option(kChangesKey);
  SHOAL_ASSIGN_OR_RETURN(const NestedCodec delta, nested(spec, kChangesKey, text, hidden));
  SHOAL_ASSIGN_OR_RETURN(const CodecSpec inner, ParseCodecSpec(text, '/'));
  if (delta.entry->no_changes != nullptr) {
    SHOAL_RETURN_IF_ERROR(Contracts(spec, delta.entry->no_changes(inner)));
  }
  Changes changes;
  changes.codec = delta.codec;
  changes.options = "delta=" + Nested(delta.codec->spec());
  changes.bucket = DefaultBucket(hidden);
  changes.scaled = HasChannelScales(inner);
  return changes;
}

Result<Changes> OwnChanges(const CodecSpec& spec, std::uint32_t hidden) {
  Changes changes;
  SHOAL_ASSIGN_OR_RETURN(changes.codec, MakeDirect(spec, hidden));
  SHOAL_RETURN_IF_ERROR(Contracts(spec, NoChangesOfDirect(spec)));
  changes.options = SpecOptions(changes.codec->spec());
  SHOAL_ASSIGN_OR_RETURN(changes.coder, EntropyOption(spec));
  changes.scaled = HasChannelScales(spec);
  changes.bucket = DefaultBucket(hidden);
  if (spec.Option("bucket") == "channel") return changes;
  SHOAL_ASSIGN_OR_RETURN(changes.bucket, BucketOption(spec, hidden));
  return changes;
}

// The codec if it codes buckets, under channel scales or not, else null.
std::shared_ptr<const DirectCodec> AsBuckets(const PlainPointer& codec) {
  if (codec->kind() == &ScaledCodec::kKind) {
    return AsBuckets(std::static_pointer_cast<const ScaledCodec>(codec)->inner());
  }
  if (codec->kind() != &DirectCodec::kKind && codec->kind() != &DirectCodec::kStepKind) {
    return nullptr;
  }
  return std::static_pointer_cast<const DirectCodec>(codec);
}

// As exact as bits of a bucket's scale go, for whatever has no wider form of its own.
PlainPointer MostBits(const Changes& changes) {
  PlainPointer codec = MidRiseCodec(kCodeBitsMax, changes.bucket, changes.coder);
  return WithChannelScales(std::move(codec), changes.scaled);
}

std::uint32_t Bits(const CodecSpec& spec) {
  return SpecNumber(spec.Option("bits")).value_or(UINT32_MAX);
}

void AdviseForward(const CodecChoice& choice, const CodecSpec& spec, Advice* advice) {
  const auto add = [&](const std::string& what) { AddAdvice("forward", spec, what, advice); };
  if (choice.epochs > 0 && choice.epochs <= 1) {
    add("no sample is visited twice in this run, so no change is ever sent; take tiles:bits=4 or "
        "direct:bits=8, which need no store");
  }
  if (choice.fresh_masks) {
    add("fresh dropout masks change every activation, so changes never shrink; take dropout = 0 or "
        "dropout_masks = \"keyed\"");
  }
  if (spec.Option("m") == "2") add("m in 2 bits costs 4.3 % without guard; m=8 costs nothing");
  if (Bits(spec) <= 2 && choice.boundaries >= kManyBoundaries) {
    add("errors add up over " + std::to_string(choice.boundaries) +
        " boundaries, 2 bits cost 1.6 to 2.3 % there; take bits=3");
  }
  const auto first = ParseCodecSpec(spec.Option("first_visit"), '/');
  if (first.ok() && Bits(*first) < kFirstVisitBits) {
    add("first visits in 4 bits cost 0.2 to 0.4 %, fewer bits more; take first_visit=tiles:bits=4 "
        "or direct:bits=8");
  }
}

void AdviseBackward(const CodecChoice& choice, const CodecSpec& spec, Advice* advice) {
  if (choice.epochs <= 0 || choice.epochs > 1) return;
  AddAdvice("backward", spec,
            "no sample is visited twice in this run, so no change of a gradient is ever sent; take "
            "dithered:step=0.4,klt=64,channels=on, which needs no store",
            advice);
}

Result<MessagePointer> Make(const CodecSpec& spec, std::uint32_t hidden, MakeNested nested) {
  SHOAL_ASSIGN_OR_RETURN(AqsgdParts parts, MakeAqsgdParts(spec, hidden, nested));
  return NewAqsgdCodec(std::move(parts));
}

constexpr std::string_view kKeys[] = {"bits",  "bucket", "first_visit", "levels",
                                      "scale", "step",   "rounding",    "channels",
                                      "m",     "guard",  kChangesKey};
constexpr std::string_view kNestedKeys[] = {kChangesKey, "first_visit"};

}  // namespace

Result<AqsgdParts> MakeAqsgdParts(const CodecSpec& spec, std::uint32_t hidden, MakeNested nested) {
  const bool named = !spec.Option(kChangesKey).empty();
  SHOAL_ASSIGN_OR_RETURN(const Changes changes,
                         named ? NamedChanges(spec, hidden, nested) : OwnChanges(spec, hidden));
  AqsgdParts parts;
  parts.delta = changes.codec;
  SHOAL_ASSIGN_OR_RETURN(const std::size_t m, ChoiceOption(spec, "m", {"16", "8", "4", "2"}));
  parts.m = MFormat(16 >> m);
  parts.wide = parts.delta->Wider();
  if (parts.wide == nullptr) parts.wide = MostBits(changes);
  if (parts.m.bits() == 16) {
    parts.one_pass = AsBuckets(parts.delta);
    if (parts.one_pass != nullptr) parts.wide_one_pass = AsBuckets(parts.wide);
    parts.scaled = changes.scaled;
  }
  std::string_view first = spec.Option("first_visit");
  if (first.empty()) first = kFirstVisitDefault;
  SHOAL_ASSIGN_OR_RETURN(const NestedCodec first_visit, nested(spec, "first_visit", first, hidden));
  parts.first_visit = first_visit.codec;
  // All samples of a step as exact values would be many times what the run sends otherwise.
  parts.full = first_visit.entry->exact ? MostBits(changes) : parts.first_visit;
  parts.spec = "aqsgd" + std::string(EntropySuffix(changes.coder)) + ":" + changes.options +
               ",first_visit=" + Nested(parts.first_visit->spec());
  SHOAL_ASSIGN_OR_RETURN(const std::size_t guard, ChoiceOption(spec, "guard", {"on", "off"}));
  parts.guarded = guard == 0 && !parts.delta->follows_values();
  if (guard != 0) parts.spec += ",guard=off";
  if (parts.m.bits() != 16) parts.spec += ",m=" + std::to_string(parts.m.bits());
  return parts;
}

const CodecEntry& AqsgdEntry() {
  static constexpr CodecEntry kEntry{
      .name = "aqsgd",
      .usage = "aqsgd:bits=1..8[,as direct][,m=16|8|4|2][,first_visit=SPEC] or aqsgd:delta=SPEC",
      .keys = kKeys,
      .nested_keys = kNestedKeys,
      .entropy_coder = true,
      .keeps_m = true,
      .device_form = true,
      .make = Make,
      .no_feedback = [](const CodecSpec&) -> std::string_view {
        return "aqsgd needs no feedback, for what its changes leave out of m is in the next "
               "change; leave feedback out";
      },
      .host_only = HasStep,
      .known_cost = CostOfChannelScales,
      .advise_forward = AdviseForward,
      .advise_backward = AdviseBackward,
  };
  return kEntry;
}

}  // namespace shoal::compression
