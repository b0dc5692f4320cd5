#include "compression/api/codec_advice.h"

#include <optional>

#include "compression/api/codec_spec.h"

namespace shoal::compression {
namespace {

constexpr std::uint32_t kChannelBits = 6;     // fewer cost, with scales per channel
constexpr std::uint32_t kBackwardBits = 4;    // fewer cost, rounded without dither
constexpr std::uint32_t kDirectBits = 6;      // fewer cost, without m
constexpr std::uint32_t kFirstVisitBits = 4;  // fewer cost, even in one epoch
constexpr std::uint32_t kManyBoundaries = 5;  // errors of 2-bit changes add up over them

std::uint32_t Bits(const CodecSpec& spec) {
  return SpecNumber(spec.Option("bits")).value_or(UINT32_MAX);
}

std::string Named(std::string_view key, std::string_view text) {
  return std::string(key) + " = \"" + std::string(text) + "\": ";
}

void CheckScales(std::string_view key, const CodecSpec& spec, std::vector<std::string>* advice) {
  if (spec.Option("bucket") != "channel" || Bits(spec) >= kChannelBits) return;
  advice->push_back(Named(key, spec.text) +
                    "one scale per channel for all tokens costs 11 to 14 % at 2 bits forward and 4 "
                    "backward, a scale per bucket 0.5 %; leave out bucket=channel");
}

void CheckAqsgd(const CodecChoice& choice, const CodecSpec& spec,
                std::vector<std::string>* advice) {
  const std::string name = Named("forward", spec.text);
  if (choice.epochs > 0 && choice.epochs <= 1) {
    advice->push_back(name +
                      "no sample is visited twice in this run, so no change is ever sent; "
                      "take tiles:bits=4 or direct:bits=8, which need no store");
  }
  if (choice.fresh_masks) {
    advice->push_back(name +
                      "fresh dropout masks change every activation, so changes never "
                      "shrink; take dropout = 0 or dropout_masks = \"keyed\"");
  }
  if (spec.Option("m") == "2") {
    advice->push_back(name + "m in 2 bits costs 3 to 4 %; m=8 costs nothing");
  }
  if (Bits(spec) <= 2 && choice.boundaries >= kManyBoundaries) {
    advice->push_back(name + "errors add up over " + std::to_string(choice.boundaries) +
                      " boundaries, 2 bits cost 2 to 3 % there; take bits=3");
  }
  if (const std::string_view first = spec.Option("first_visit"); !first.empty()) {
    const auto nested = ParseCodecSpec(first, '/');
    if (nested.ok() && Bits(*nested) < kFirstVisitBits) {
      advice->push_back(name +
                        "first visits in fewer than 4 bits cost 1 to 4 %; take "
                        "first_visit=tiles:bits=4 or direct:bits=8");
    }
    if (nested.ok()) CheckScales("first_visit", *nested, advice);
  }
  if (const std::string_view delta = spec.Option("delta"); !delta.empty()) {
    const auto nested = ParseCodecSpec(delta, '/');
    if (nested.ok()) CheckScales("delta", *nested, advice);
  }
}

void CheckLeftOut(const CodecChoice& choice, const CodecSpec& spec,
                  std::vector<std::string>* advice) {
  const bool feedback = spec.Option("feedback") == "on";
  const bool once = choice.epochs > 0 && choice.epochs <= 1;
  if (feedback && once) {
    advice->push_back(Named("backward", spec.text) +
                      "no sample is visited twice in this run, so nothing is fed back; take "
                      "dithered:step=0.5, which needs no store");
  } else if (spec.name == "topk" && !feedback) {
    advice->push_back(Named("backward", spec.text) +
                      "what topk leaves out of gradients is lost, which biases every step; " +
                      (once ? "" : "add feedback=on over many epochs, or ") +
                      "take dithered:step=0.5");
  }
}

}  // namespace

std::vector<std::string> CodecAdvice(const CodecChoice& choice) {
  std::vector<std::string> advice;
  if (choice.boundaries == 0) return advice;
  if (const auto forward = ParseCodecSpec(choice.forward, ','); forward.ok()) {
    CheckScales("forward", *forward, &advice);
    if (forward->name == "aqsgd") CheckAqsgd(choice, *forward, &advice);
    if (forward->name == "direct" && Bits(*forward) < kDirectBits) {
      advice.push_back(Named("forward", choice.forward) +
                       "activations without m cost 14 % at 3 bits and 27 % at 2; take "
                       "aqsgd:bits=3, or direct:bits=8 for a single epoch");
    }
  }
  if (const auto backward = ParseCodecSpec(choice.backward, ','); backward.ok()) {
    CheckScales("backward", *backward, &advice);
    CheckLeftOut(choice, *backward, &advice);
    if (backward->name == "direct" && Bits(*backward) < kBackwardBits &&
        backward->Option("feedback") != "on") {
      advice.push_back(Named("backward", choice.backward) +
                       "rounding gradients this coarsely biases every step; dithered:step=1 needs "
                       "about 2 bits and does not");
    }
  }
  return advice;
}

}  // namespace shoal::compression
