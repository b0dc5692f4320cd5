#include "compression/replica_method.h"

#include <algorithm>

#include "compression/codec.h"
#include "compression/codec_spec.h"

namespace shoal::compression {
namespace {

// Of a canonical spec. Levels of `midrise` end inside of a bucket's largest values and shrink them,
// however they are rounded.
bool IsUnbiased(std::string_view codec) {
  const auto has = [codec](std::string_view option) { return codec.find(option) != codec.npos; };
  return codec.starts_with("dithered") || codec.starts_with("shifted") ||
         (has("rounding=stochastic") && (has("levels=affine") || has("levels=midtread")));
}

Result<std::string> CodecOf(const CodecSpec& spec) {
  const std::string_view dtype = spec.Option("dtype"), nested = spec.Option("codec");
  if (nested.empty()) {
    SHOAL_ASSIGN_OR_RETURN(const std::size_t type,
                           ChoiceOption(spec, "dtype", {"fp32", "bf16", "fp16"}));
    constexpr const char* kTypes[] = {"fp32", "bf16", "fp16"};
    return std::string("raw:dtype=") + kTypes[type];
  }
  if (!dtype.empty()) return SpecError(spec.text, "give dtype or codec, not both");
  std::string text(nested);
  std::replace(text.begin(), text.end(), '/', ',');
  SHOAL_ASSIGN_OR_RETURN(const auto codec, MakeCodec(text, kReplicaRow));
  if (codec->keeps_m() || codec->keeps_residual() || codec->stateful() != nullptr) {
    return SpecError(spec.text,
                     "a codec with a memory of its own does not fit here; take raw, "
                     "direct, tiles, topk or dithered, and feedback=true");
  }
  return codec->spec();
}

}  // namespace

Result<ReplicaMethod> ParseReplicaMethod(std::string_view text) {
  SHOAL_ASSIGN_OR_RETURN(const CodecSpec spec, ParseCodecSpec(text, ','));
  if (spec.name != "average") {
    return InvalidArgument("replica method '" + std::string(text) +
                           "' is not known; there are average, average:dtype=bf16 and "
                           "average:codec=CODEC, for example average:codec=dithered:step=0.3");
  }
  SHOAL_RETURN_IF_ERROR(CheckNoStage(spec));
  if (const Status keys = CheckKeys(spec, {"dtype", "codec", "feedback"}); !keys.ok()) {
    if (spec.Option("codec").empty()) return keys;
    return InvalidArgument(keys.message() + "; inside codec=... '/' stands for ','");
  }
  ReplicaMethod method;
  SHOAL_ASSIGN_OR_RETURN(method.codec, CodecOf(spec));
  SHOAL_ASSIGN_OR_RETURN(const std::size_t feedback,
                         ChoiceOption(spec, "feedback", {"auto", "true", "false"}));
  const bool exact = method.codec == "raw:dtype=fp32";
  if (exact && feedback == 1) return SpecError(text, "fp32 sums leave nothing to feed back");
  method.feedback = feedback == 1 || (feedback == 0 && !exact && !IsUnbiased(method.codec));
  method.spec = exact ? "average"
                      : "average:codec=" + Nested(method.codec) +
                            ",feedback=" + (method.feedback ? "true" : "false");
  return method;
}

}  // namespace shoal::compression
