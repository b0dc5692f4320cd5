#include "compression/api/codec_advice.h"

#include <algorithm>

#include "compression/api/codec_spec.h"
#include "compression/codecs/codec_entry.h"
#include "compression/registry/codec_registry.h"

namespace shoal::compression {
namespace {

// Of this spec and of those inside it.
void AdviseCosts(std::string_view key, const CodecSpec& spec, const CodecEntry* entry,
                 Advice* advice) {
  if (entry == nullptr) return;
  const std::string_view cost =
      entry->known_cost == nullptr ? std::string_view() : entry->known_cost(spec);
  if (!cost.empty()) AddAdvice(key, spec, std::string(cost), advice);
  for (const auto& [name, value] : spec.options) {
    if (std::ranges::find(entry->nested_keys, name) == entry->nested_keys.end()) continue;
    if (const auto nested = ParseCodecSpec(value, '/'); nested.ok()) {
      AdviseCosts(name, *nested, FindInsideCodec(nested->name), advice);
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

std::vector<std::string> CodecAdvice(const CodecChoice& choice) {
  Advice advice;
  if (choice.boundaries == 0) return advice;
  if (const auto forward = ParseCodecSpec(choice.forward, ','); forward.ok()) {
    const CodecEntry* const entry = FindCodec(forward->name);
    AdviseCosts("forward", *forward, entry, &advice);
    if (entry != nullptr && entry->advise_forward != nullptr) {
      entry->advise_forward(choice, *forward, &advice);
    }
  }
  if (const auto backward = ParseCodecSpec(choice.backward, ','); backward.ok()) {
    const CodecEntry* const entry = FindCodec(backward->name);
    AdviseCosts("backward", *backward, entry, &advice);
    AdviseFeedback(choice, *backward, &advice);
    if (entry != nullptr && entry->advise_backward != nullptr) {
      entry->advise_backward(choice, *backward, &advice);
    }
  }
  return advice;
}

}  // namespace shoal::compression
