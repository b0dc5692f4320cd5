#include "replica/methods/replica_method.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>

#include "compression/api/codec.h"
#include "compression/api/codec_spec.h"

namespace shoal::replica {
namespace {

constexpr char kExactCodec[] = "raw:dtype=fp32";
constexpr std::uint32_t kEveryMax = 1000000;
constexpr std::uint32_t kStartMax = 4000000000;
constexpr std::uint32_t kMarsitSigns = 100;  // of all pipelines from one exact round to the next
constexpr std::uint32_t kLocalStepsMax = 10000;
// Unbiased, 3.4 bits a value; what all gradients lose by it is in docs/quality, "2 pipelines".
constexpr char kEndsCodec[] = "dithered:step=0.3";
constexpr std::string_view kLocalKeys[] = {"local_steps", "outer_rate", "outer_momentum", "ends"};

std::string Decimal(double value) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof(text), value, std::chars_format::fixed).ptr;
  return {text, end};
}

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

Result<ReplicaMethod> ParseAverage(const compression::CodecSpec& spec) {
  SHOAL_RETURN_IF_ERROR(CheckNoStage(spec));
  if (const Status keys = CheckKeys(spec, {"dtype", "codec", "feedback"}); !keys.ok()) {
    if (spec.Option("codec").empty()) return keys;
    return InvalidArgument(keys.message() + "; inside codec=... '/' stands for ','");
  }
  ReplicaMethod method;
  SHOAL_ASSIGN_OR_RETURN(method.codec, CodecOf(spec));
  SHOAL_ASSIGN_OR_RETURN(const std::size_t feedback,
                         ChoiceOption(spec, "feedback", {"auto", "true", "false"}));
  SHOAL_ASSIGN_OR_RETURN(const compression::CodecTraits traits,
                         compression::TraitsOf(method.codec));
  const bool exact = method.codec == kExactCodec;
  if (exact && feedback == 1) return SpecError(spec, "fp32 sums leave nothing to feed back");
  method.feedback = feedback == 1 || (feedback == 0 && !exact && !traits.unbiased);
  method.spec = exact ? "average"
                      : "average:codec=" + compression::Nested(method.codec) +
                            ",feedback=" + (method.feedback ? "true" : "false");
  return method;
}

// The names of its authors for what the codec does: a subset of one value in so many, and the share
// of it that is sent.
Result<ReplicaMethod> ParseCocktail(const compression::CodecSpec& spec) {
  SHOAL_RETURN_IF_ERROR(CheckNoStage(spec));
  SHOAL_RETURN_IF_ERROR(CheckKeys(spec, {"random", "top", "bits", "bucket"}));
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
  method.spec = "cocktail:random=" + Decimal(random) + ",top=" + Decimal(top) + rest;
  return method;
}

Result<ReplicaMethod> ParseFactors(const compression::CodecSpec& spec) {
  ReplicaMethod method;
  method.kind = ReplicaKind::kPowerSgd;
  method.codec = kExactCodec;
  SHOAL_ASSIGN_OR_RETURN(method.power_sgd, ParsePowerSgd(spec.text));
  method.spec = method.power_sgd.Spec();
  return method;
}

// "auto" is 0.
Result<std::uint32_t> StartOption(const compression::CodecSpec& spec) {
  const auto text = spec.Option("start");
  if (text.empty() || text == "auto") return 0U;
  return NumberOption(spec, "start", 1, kStartMax, 0);
}

std::string StartText(const ReplicaMethod& method) {
  return method.start == 0 ? "auto" : std::to_string(method.start);
}

Result<ReplicaMethod> ParseSharded(const compression::CodecSpec& spec) {
  ReplicaMethod method;
  method.kind = ReplicaKind::kSharded;
  SHOAL_ASSIGN_OR_RETURN(method.qsdp, ParseQsdp(spec.text));
  method.codec = method.qsdp.GradientCodec();
  method.feedback = method.qsdp.learns_gradients();
  method.spec = method.qsdp.Spec();
  return method;
}

// `qadam` and `onebit`. One bit of a momentum is its sign: midrise levels of one bit would take a
// bucket's largest value for all.
Result<ReplicaMethod> ParseMomentum(const compression::CodecSpec& spec) {
  SHOAL_RETURN_IF_ERROR(CheckNoStage(spec));
  const bool qadam = spec.name == "qadam";
  SHOAL_RETURN_IF_ERROR(qadam ? CheckKeys(spec, {"bits", "bucket", "start", "refresh"})
                              : CheckKeys(spec, {"bucket", "start", "refresh"}));
  ReplicaMethod method;
  method.kind = ReplicaKind::kMomentum;
  std::uint32_t bits = 1, bucket = kReplicaRow;
  if (qadam) {
    SHOAL_ASSIGN_OR_RETURN(bits, NumberOption(spec, "bits", 1, 32, 4));
    if (bits > 8 && bits < 32) return SpecError(spec, "bits must be 1 to 8, or 32");
  }
  SHOAL_ASSIGN_OR_RETURN(bucket, NumberOption(spec, "bucket", 16, kReplicaRow, qadam ? 512 : 1024));
  if (kReplicaRow % bucket != 0) {
    return SpecError(spec, "bucket must divide " + std::to_string(kReplicaRow));
  }
  const std::string size = std::to_string(bucket);
  method.codec = "direct:bits=" + std::to_string(bits) + ",bucket=" + size;
  if (bits == 1) method.codec = "onebit:bucket=" + size;
  if (bits == 32) method.codec = kExactCodec;
  method.feedback = bits < 32;
  SHOAL_ASSIGN_OR_RETURN(method.start, StartOption(spec));
  SHOAL_ASSIGN_OR_RETURN(const std::size_t refresh, ChoiceOption(spec, "refresh", {"off", "on"}));
  method.refresh = refresh == 1;
  method.spec = std::string(spec.name) + ":" + (qadam ? "bits=" + std::to_string(bits) + "," : "") +
                "bucket=" + size + ",start=" + StartText(method) +
                ",refresh=" + (method.refresh ? "on" : "off");
  return method;
}

Result<ReplicaMethod> ParseMarsit(const compression::CodecSpec& spec) {
  SHOAL_RETURN_IF_ERROR(CheckNoStage(spec));
  SHOAL_RETURN_IF_ERROR(CheckKeys(spec, {"every", "scale", "shape", "start"}));
  ReplicaMethod method;
  method.kind = ReplicaKind::kMarsit;
  method.codec = kExactCodec;
  const bool automatic = spec.Option("every").empty() || spec.Option("every") == "auto";
  if (!automatic) {
    SHOAL_ASSIGN_OR_RETURN(method.every, NumberOption(spec, "every", 1, kEveryMax, {}));
  }
  SHOAL_ASSIGN_OR_RETURN(method.scale, FractionOption(spec, "scale", 0.01, 100, method.scale));
  SHOAL_ASSIGN_OR_RETURN(const std::size_t shape,
                         ChoiceOption(spec, "shape", {"auto", "ring", "torus"}));
  constexpr const char* kShapes[] = {"auto", "ring", "torus"};
  method.shape = static_cast<RingShape>(shape);
  SHOAL_ASSIGN_OR_RETURN(method.start, StartOption(spec));
  const std::string every = automatic ? "auto" : std::to_string(method.every);
  method.spec = "marsit:every=" + every + ",scale=" + Decimal(method.scale) +
                ",shape=" + kShapes[shape] + ",start=" + StartText(method);
  return method;
}

// The spec without the options of local steps, which belong to no method in particular.
std::string WithoutLocal(const compression::CodecSpec& spec) {
  std::string text(spec.text.substr(0, spec.text.find(':')));
  char before = ':';
  for (const auto& [key, value] : spec.options) {
    if (std::ranges::find(kLocalKeys, key) != std::end(kLocalKeys)) continue;
    text += before;
    text += std::string(key) + "=" + std::string(value);
    before = ',';
  }
  return text;
}

Result<LocalSteps> ParseLocal(const compression::CodecSpec& spec) {
  LocalSteps local;
  if (spec.Option("local_steps").empty()) {
    for (const std::string_view key : kLocalKeys) {
      if (spec.Option(key).empty()) continue;
      return SpecError(spec, std::string(key) + " needs local_steps=N beside it");
    }
    return local;
  }
  SHOAL_ASSIGN_OR_RETURN(local.steps, NumberOption(spec, "local_steps", 1, kLocalStepsMax, {}));
  SHOAL_ASSIGN_OR_RETURN(local.outer_rate,
                         FractionOption(spec, "outer_rate", 0.01, 2, local.outer_rate));
  SHOAL_ASSIGN_OR_RETURN(local.outer_momentum,
                         FractionOption(spec, "outer_momentum", 0, 0.99, local.outer_momentum));
  if (const std::string_view ends = spec.Option("ends"); ends == "exact") {
    local.exact_ends = true;
  } else if (!ends.empty() && ends != "auto") {
    return SpecError(spec, "ends=" + std::string(ends) + "; allowed are ends=auto and ends=exact");
  }
  if (spec.name == "marsit" || spec.name == "qsdp") {
    return SpecError(spec, std::string(spec.name) +
                               " makes a step of all pipelines in one; local_steps goes with "
                               "average, cocktail, powersgd, qadam and onebit");
  }
  for (const std::string_view key : {"start", "refresh"}) {
    if (spec.name == "powersgd" || spec.Option(key).empty()) continue;
    return SpecError(spec,
                     "with local_steps every pipeline has moments of its own, so there "
                     "is no warm-up; leave " +
                         std::string(key) + " out");
  }
  return local;
}

Result<ReplicaMethod> ParseExchange(const compression::CodecSpec& spec) {
  if (spec.name == "average") return ParseAverage(spec);
  if (spec.name == "cocktail") return ParseCocktail(spec);
  if (spec.name == "powersgd") return ParseFactors(spec);
  if (spec.name == "qadam" || spec.name == "onebit") return ParseMomentum(spec);
  if (spec.name == "marsit") return ParseMarsit(spec);
  if (spec.name == "qsdp") return ParseSharded(spec);
  if (const std::size_t comma = spec.text.find(','); comma < spec.name.size()) {
    std::string meant(spec.text);
    meant[comma] = ':';
    return SpecError(spec, "options stand behind ':'; write " + meant);
  }
  return InvalidArgument("replica method '" + std::string(spec.text) +
                         "' is not known; there are average, average:dtype=bf16, "
                         "average:codec=CODEC, for example average:codec=dithered:step=0.3, "
                         "cocktail, qadam:bits=4, onebit, marsit, qsdp:weights=8 and "
                         "powersgd:rank=N, all but marsit and qsdp also with local_steps=N");
}

// What is left of the options, behind those of local steps.
std::string LocalSpec(const LocalSteps& local, std::string spec) {
  for (const std::string_view warm_up : {",start=auto", ",refresh=off"}) {
    const std::size_t at = spec.find(warm_up);
    if (at != std::string::npos) spec.erase(at, warm_up.size());
  }
  return spec + (spec.find(':') == std::string::npos ? ":" : ",") +
         "local_steps=" + std::to_string(local.steps) + ",outer_rate=" + Decimal(local.outer_rate) +
         ",outer_momentum=" + Decimal(local.outer_momentum) +
         ",ends=" + (local.exact_ends ? "exact" : "auto");
}

}  // namespace

std::uint64_t ReplicaMethod::StartOf(std::uint64_t run_steps, std::uint64_t rate_warm_up) const {
  constexpr std::uint64_t kLeast = 10, kMost = 1000;
  if (start > 0) return start;
  return std::max(std::clamp(run_steps / 8, kLeast, kMost), rate_warm_up);
}

std::uint64_t ReplicaMethod::EveryOf(std::uint32_t pipelines) const {
  return every > 0 ? every : std::max(kMarsitSigns / std::max(pipelines, 1U), 1U);
}

std::string ReplicaMethod::SpecOfRun(std::uint64_t run_steps, std::uint64_t rate_warm_up) const {
  constexpr std::string_view kAuto = "start=auto";
  const std::size_t at = spec.find(kAuto);
  if (at == std::string::npos) return spec;
  // A start behind the end of the run is the same as none at all, however far behind it is.
  const std::uint64_t first = StartOf(run_steps, std::min(rate_warm_up, run_steps));
  std::string text = spec;
  return text.replace(at, kAuto.size(),
                      "start=" + std::to_string(std::min<std::uint64_t>(first, kStartMax)));
}

std::uint64_t ReplicaMethod::StateBytes(std::uint64_t values, std::uint32_t pipelines, bool bf16,
                                        std::uint64_t largest_unit) const {
  constexpr std::uint64_t kValue = sizeof(float), kSum = 8;
  const std::uint64_t weight = kValue + (bf16 ? 2 : 0);
  const std::uint64_t held = values * (weight + kValue);
  if (!shards_moments() || pipelines < 2) return held + values * 2 * kValue;
  std::uint64_t owners = pipelines;
  if (const auto lans = qsdp.LanOf(pipelines); lans.ok()) {
    owners = std::set<std::size_t>(lans->begin(), lans->end()).size();
  }
  if (qsdp.lan_auto()) owners = 1;  // all may turn out to share one LAN
  const std::uint64_t shard = (values + owners - 1) / owners;
  // The weights of two parts, the gradients of one; sums of gradients with the owners.
  if (shards_parameters()) {
    return shard * (3 * kValue + kSum) + largest_unit * (2 * weight + kValue);
  }
  return held + shard * (qsdp.delta ? 4 : 3) * kValue;
}

Result<ReplicaMethod> ParseReplicaMethod(std::string_view text) {
  SHOAL_ASSIGN_OR_RETURN(const compression::CodecSpec whole,
                         compression::ParseCodecSpec(text, ',', compression::kReplicaKind));
  SHOAL_ASSIGN_OR_RETURN(const LocalSteps local, ParseLocal(whole));
  const std::string exchange = WithoutLocal(whole);
  SHOAL_ASSIGN_OR_RETURN(const compression::CodecSpec spec,
                         compression::ParseCodecSpec(exchange, ',', compression::kReplicaKind));
  SHOAL_ASSIGN_OR_RETURN(ReplicaMethod method, ParseExchange(spec));
  if (local.steps > 0 && method.power_sgd.stages == "auto") {
    return SpecError(whole, "with local_steps name the stages, or take all");
  }
  method.local = local;
  if (local.steps > 0) {
    const bool lossless = method.kind == ReplicaKind::kAverage && method.codec == kExactCodec;
    method.local.ends_codec = local.exact_ends || lossless ? kExactCodec : kEndsCodec;
    method.spec = LocalSpec(local, std::move(method.spec));
  }
  if (method.spec.size() <= compression::kSpecBytesMax) return method;
  return SpecError(whole, "longer than " + std::to_string(compression::kSpecBytesMax) +
                              " bytes with all of its options; name fewer stages, LANs or steps");
}

}  // namespace shoal::replica
