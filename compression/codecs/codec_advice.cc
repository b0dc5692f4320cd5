#include "compression/api/codec_advice.h"

#include "compression/api/codec_spec.h"
#include "compression/codecs/codec_entry.h"
#include "compression/codecs/codec_registry.h"

namespace shoal::compression {
namespace {

constexpr std::uint32_t kChannelBits = 6;  // fewer cost, with scales per channel

// Of this spec and of those inside it.
void AdviseScales(std::string_view key, const CodecSpec& spec, Advice* advice) {
  const auto bits = SpecNumber(spec.Option("bits")).value_or(UINT32_MAX);
  if (spec.Option("bucket") == "channel" && bits < kChannelBits) {
    AddAdvice(key, spec,
              "one scale per channel for all tokens costs 11 to 14 % at 2 bits forward and 4 "
              "backward, a scale per bucket 0.5 %; leave out bucket=channel",
              advice);
  }
  for (const auto& [name, value] : spec.options) {
    if (value.find(':') == std::string_view::npos) continue;
    if (const auto nested = ParseCodecSpec(value, '/'); nested.ok()) {
      AdviseScales(name, *nested, advice);
    }
  }
}

// No sample is visited twice, so that nothing is ever fed back.
void AdviseFeedback(const CodecChoice& choice, const CodecSpec& spec, Advice* advice) {
  const bool once = choice.epochs > 0 && choice.epochs <= 1;
  if (!once || spec.Option("feedback") != "on") return;
  AddAdvice("backward", spec,
            "no sample is visited twice in this run, so nothing is fed back; take "
            "dithered:step=0.5, which needs no store",
            advice);
}

}  // namespace

void AddAdvice(std::string_view key, const CodecSpec& spec, const std::string& what,
               Advice* advice) {
  advice->push_back(std::string(key) + " = \"" + std::string(spec.text) + "\": " + what);
}

std::vector<std::string> CodecAdvice(const CodecChoice& choice) {
  Advice advice;
  if (choice.boundaries == 0) return advice;
  if (const auto forward = ParseCodecSpec(choice.forward, ','); forward.ok()) {
    AdviseScales("forward", *forward, &advice);
    const CodecEntry* const entry = FindCodec(forward->name);
    if (entry != nullptr && entry->advise_forward != nullptr) {
      entry->advise_forward(choice, *forward, &advice);
    }
  }
  if (const auto backward = ParseCodecSpec(choice.backward, ','); backward.ok()) {
    AdviseScales("backward", *backward, &advice);
    AdviseFeedback(choice, *backward, &advice);
    const CodecEntry* const entry = FindCodec(backward->name);
    if (entry != nullptr && entry->advise_backward != nullptr) {
      entry->advise_backward(choice, *backward, &advice);
    }
  }
  return advice;
}

}  // namespace shoal::compression
