#include "compression/codecs/direct/direct_entry.h"

#include <memory>

#include "compression/codecs/channel_codec.h"
#include "compression/codecs/codec_entry.h"
#include "compression/codecs/codec_options.h"
#include "compression/codecs/direct_codec.h"
#include "compression/codecs/scaled/scaled_codec.h"

namespace shoal::compression {
namespace {

// Fewer bits cost training loss: forward without m, and backward rounded without dither.
constexpr std::uint32_t kForwardBits = 6;
constexpr std::uint32_t kBackwardBits = 4;

std::string_view NoFeedback(const CodecSpec& spec) {
  const std::string_view rounding = RoundingForbidsFeedback(spec);
  return !rounding.empty() ? rounding
                           : AffineForbidsFeedback(spec, spec.Option("levels") == "affine");
}

void AdviseForward(const CodecChoice& /*choice*/, const CodecSpec& spec, Advice* advice) {
  if (SpecNumber(spec.Option("bits")).value_or(UINT32_MAX) >= kForwardBits) return;
  AddAdvice("forward", spec,
            "activations without m cost 14 % at 3 bits and 27 % at 2; take aqsgd:bits=3, or "
            "direct:bits=8 for a single epoch",
            advice);
}

void AdviseBackward(const CodecChoice& /*choice*/, const CodecSpec& spec, Advice* advice) {
  if (SpecNumber(spec.Option("bits")).value_or(UINT32_MAX) >= kBackwardBits) return;
  if (spec.Option("feedback") == "on") return;
  AddAdvice("backward", spec,
            "rounding gradients this coarsely biases every step; dithered:step=1 needs about 2 "
            "bits and does not",
            advice);
}

constexpr std::string_view kKeys[] = {"bits", "bucket",   "levels",   "scale",
                                      "step", "rounding", "channels", "feedback"};

}  // namespace

Result<PlainPointer> MakeDirect(const CodecSpec& spec, std::uint32_t hidden) {
  SHOAL_ASSIGN_OR_RETURN(const bool scaled, ChannelsOption(spec));
  if (spec.Option("bucket") == "channel") {
    if (HasStep(spec)) return SpecError(spec, "step= is for buckets of a token; leave one out");
    return MakeChannelCodec(spec);
  }
  SHOAL_ASSIGN_OR_RETURN(const auto direct, MakeDirectCodec(spec, hidden));
  return WithChannelScales(direct, scaled);
}

std::string_view NoChangesOfDirect(const CodecSpec& spec) {
  if (HasStep(spec)) {
    const auto step = FractionOption(spec, "step", kStepMin, kStepOfChangesMax, std::nullopt);
    return step.ok() ? std::string_view()
                     : "levels this far apart may leave more of a change than AQ-SGD's theorem "
                       "bears (half a step is to be below .7 of the rms); take step=0.7";
  }
  return OneBitForbidsChanges(spec, spec.Option("levels") == "affine");
}

const CodecEntry& DirectEntry() {
  static constexpr CodecEntry kEntry{
      .name = "direct",
      .usage =
          "direct:bits=1..8[,bucket=N|channel][,levels=][,scale=][,rounding=][,step=S]"
          "[,channels=on]",
      .keys = kKeys,
      .entropy_coder = true,
      .device_form = true,
      .make_plain = MakeDirect,
      .no_feedback = NoFeedback,
      .no_changes = NoChangesOfDirect,
      .host_only = HasStep,
      .unbiased = StochasticIsUnbiased,
      .known_cost = CostOfChannelScales,
      .advise_forward = AdviseForward,
      .advise_backward = AdviseBackward,
  };
  return kEntry;
}

}  // namespace shoal::compression
