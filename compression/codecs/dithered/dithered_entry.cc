#include "compression/codecs/dithered/dithered_entry.h"

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "compression/codecs/codec_entry.h"
#include "compression/codecs/codec_options.h"
#include "compression/codecs/dithered/dithered_codec.h"
#include "compression/codecs/dithered/klt_codec.h"
#include "compression/codecs/scaled/scaled_codec.h"

namespace shoal::compression {
namespace {

struct GoalOption {
  std::string_view key;
  DitherGoal goal;
  double least, most;
};
constexpr GoalOption kGoals[] = {{"step", DitherGoal::kStep, kDitherStepMin, kDitherStepMax},
                                 {"rate", DitherGoal::kRate, kDitherRateMin, kDitherRateMax},
                                 {"error", DitherGoal::kError, kDitherErrorMin, kDitherErrorMax}};
constexpr std::string_view kKeys[] = {"step", "rate", "error", "klt", "channels", "dither", "of"};

// `klt=`: the most directions; 0: none.
Result<std::uint32_t> KltOption(const CodecSpec& spec, DitherGoal goal) {
  if (spec.Option("klt").empty()) return std::uint32_t{0};
  if (goal == DitherGoal::kRate) {
    return SpecError(spec,
                     "klt= takes step= or error=; rate= cannot tell the bits of turned values");
  }
  return NumberOption(spec, "klt", 1, kKltRankMax, 1);
}

Result<PlainPointer> Make(const CodecSpec& spec, std::uint32_t /*hidden*/) {
  SHOAL_ASSIGN_OR_RETURN(const bool scaled, ChannelsOption(spec));
  SHOAL_ASSIGN_OR_RETURN(const std::size_t rounded, ChoiceOption(spec, "dither", {"on", "off"}));
  SHOAL_ASSIGN_OR_RETURN(const std::size_t followed,
                         ChoiceOption(spec, "of", {"changes", "values"}));
  const GoalOption* option = nullptr;
  std::size_t given = 0;
  for (const GoalOption& goal : kGoals) {
    if (spec.Option(goal.key).empty()) continue;
    option = &goal;
    ++given;
  }
  if (given != 1) {
    return SpecError(spec, "give one of step=, rate= (bits a value) and error=");
  }
  const std::string_view key = option->key;
  const std::string_view text = spec.Option(key);
  double value = 0;
  const bool decimal = text.size() <= 16 && !text.empty() &&
                       text.find_first_not_of("0123456789.") == std::string_view::npos;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  if (!decimal || parsed.ec != std::errc() || parsed.ptr != text.data() + text.size() ||
      value < option->least || value > option->most) {
    return SpecError(spec, std::string(key) + "=" + std::string(text.substr(0, 32)) +
                               " is not a number from " + NumberText(option->least) + " to " +
                               NumberText(option->most));
  }
  if (followed == 1 && option->goal == DitherGoal::kRate) {
    return SpecError(spec, "of=values takes step= or error=; rate= means the bits of changes");
  }
  const DitheredForm form{.typical = scaled, .dithered = rounded == 0, .of_values = followed == 1};
  SHOAL_ASSIGN_OR_RETURN(const std::uint32_t directions, KltOption(spec, option->goal));
  auto rounds = std::make_shared<const DitheredCodec>(option->goal, value, form);
  PlainPointer inner = rounds;
  if (directions > 0) inner = std::make_shared<const KltCodec>(std::move(rounds), directions);
  return WithChannelScales(std::move(inner), scaled);
}

// An error as large as the change leaves m where it was. A step of sqrt(12) rms has it, and so has
// a rate of .75 bits of Gaussian values, which need the most; what a message holds besides codes
// comes on top.
std::string_view NoChanges(const CodecSpec& spec) {
  const auto number = [&](std::string_view key, double absent) {
    const std::string text(spec.Option(key));
    return text.empty() ? absent : std::strtod(text.c_str(), nullptr);
  };
  if (number("step", 0) < std::sqrt(12.0) && number("error", 0) < 1 && number("rate", 1) >= 1) {
    return {};
  }
  return "its errors are as large as the changes, so m would never come closer to the activation; "
         "take a step below 3.46, an error below 1 or a rate of at least 1";
}

void AdviseBackward(const CodecChoice& /*choice*/, const CodecSpec& spec, Advice* advice) {
  if (spec.Option("dither") != "off") return;
  AddAdvice("backward", spec,
            "without dither rounding silences tokens smaller than a step and biases every sum; "
            "leave out dither=off",
            advice);
}

}  // namespace

const CodecEntry& DitheredEntry() {
  static constexpr CodecEntry kEntry{
      .name = "dithered",
      .usage =
          "dithered:step=N|rate=N|error=N[,klt=1-256][,channels=off|on][,dither=on|off]"
          "[,of=changes|values]",
      .keys = kKeys,
      .device_form = true,
      .make_plain = Make,
      .no_feedback = [](const CodecSpec&) { return kRandomNeedsNoFeedback; },
      .no_changes = NoChanges,
      .unbiased = [](const CodecSpec& spec) { return spec.Option("dither") != "off"; },
      .advise_backward = AdviseBackward,
  };
  return kEntry;
}

}  // namespace shoal::compression
