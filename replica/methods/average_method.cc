#include "replica/methods/average_method.h"

#include <algorithm>
#include <cmath>

#include "compression/api/codec.h"
#include "replica/methods/method_options.h"

namespace shoal::replica {
namespace {

Result<std::string> CodecOf(const compression::CodecSpec& spec) {
  const std::string_view dtype = spec.Option("dtype"), nested = spec.Option("codec");
  if (nested.empty()) {
    SHOAL_ASSIGN_OR_RETURN(const std::size_t type,
                           ChoiceOption(spec, "dtype", {"fp32", "bf16", "fp16"}));
    constexpr const char* kTypes[] = {"fp32", "bf16", "fp16"};
    return std::string("raw:dtype=") + kTypes[type];
  }
  if (!dtype.empty()) return SpecError(spec, "give dtype or codec, not both");
  std::string text(nested);
  std::replace(text.begin(), text.end(), '/', ',');
  SHOAL_ASSIGN_OR_RETURN(const auto codec, compression::MakeCodec(text, kReplicaRow));
  if (codec->keeps_m() || codec->keeps_residual() || codec->stateful() != nullptr) {
    return SpecError(spec,
                     "a codec with a memory of its own does not fit here; take raw, "
                     "direct, tiles, topk or dithered, and feedback=true");
  }
  return codec->spec();
}

Result<ReplicaMethod> ParseAverage(const compression::CodecSpec& spec, bool /*local*/) {
  ReplicaMethod method;
  SHOAL_ASSIGN_OR_RETURN(method.codec, CodecOf(spec));
  SHOAL_ASSIGN_OR_RETURN(const std::size_t feedback,
                         ChoiceOption(spec, "feedback", {"auto", "true", "false"}));
  SHOAL_ASSIGN_OR_RETURN(const compression::CodecTraits traits,
                         compression::TraitsOf(method.codec));
  const bool exact = traits.lossless;
  method.traits.lossless = exact;
  method.traits.follows_steps = true;
  if (exact && feedback == 1) return SpecError(spec, "fp32 sums leave nothing to feed back");
  method.feedback = feedback == 1 || (feedback == 0 && !exact && !traits.unbiased);
  method.spec = exact ? "average"
                      : "average:codec=" + compression::Nested(method.codec) +
                            ",feedback=" + (method.feedback ? "true" : "false");
  return method;
}

// The names of its authors for what the codec does: a subset of one value in so many, and the share
// of it that is sent.
Result<ReplicaMethod> ParseCocktail(const compression::CodecSpec& spec, bool /*local*/) {
  SHOAL_ASSIGN_OR_RETURN(const double random, FractionOption(spec, "random", 1e-4, 1, 0.1));
  SHOAL_ASSIGN_OR_RETURN(const double top, FractionOption(spec, "top", 1e-4, 1, 0.2));
  SHOAL_ASSIGN_OR_RETURN(const std::uint32_t bits, NumberOption(spec, "bits", 1, 8, 4));
  SHOAL_ASSIGN_OR_RETURN(const std::uint32_t bucket,
                         NumberOption(spec, "bucket", 1, kReplicaRow, 128));
  const double stride = std::round(1 / random);
  if (std::abs(random * stride - 1) > 0.01) {
    return SpecError(spec, "random=" + Decimal(random) +
                               "; it is one value in so many: 1, 0.5, 0.333, 0.25, 0.2, 0.1");
  }
  const std::string rest = ",bits=" + std::to_string(bits) + ",bucket=" + std::to_string(bucket);
  ReplicaMethod method;
  method.codec = "cocktail:stride=" + Decimal(stride) + ",ratio=" + Decimal(top) + rest;
  method.feedback = true;
  method.traits.follows_steps = true;
  method.spec = "cocktail:random=" + Decimal(random) + ",top=" + Decimal(top) + rest;
  return method;
}

}  // namespace

const MethodEntry& AverageEntry() {
  static constexpr std::string_view kKeys[] = {"dtype", "codec", "feedback"};
  static constexpr MethodOffer kOffers[] = {
      {"average", 32, 0},
      {"average:dtype=bf16", 16, 0},
      // With local_steps=16.
      {"average:codec=direct:bits=4/bucket=512", 4 + 16.0 / 512, 0.0012, OfferedFor::kLocalSteps},
  };
  static const MethodEntry entry = {.name = "average",
                                    .usage =
                                        "average, average:dtype=bf16, average:codec=CODEC, for "
                                        "example average:codec=dithered:step=0.3",
                                    .keys = kKeys,
                                    .offers = kOffers,
                                    .parse = ParseAverage};
  return entry;
}

const MethodEntry& CocktailEntry() {
  static constexpr std::string_view kKeys[] = {"random", "top", "bits", "bucket"};
  static const MethodEntry entry = {
      .name = "cocktail", .usage = "cocktail", .keys = kKeys, .parse = ParseCocktail};
  return entry;
}

}  // namespace shoal::replica
