#include "replica/methods/marsit_method.h"

#include <algorithm>
#include <cstdio>
#include <string>

#include "replica/methods/group_limits.h"
#include "replica/methods/method_options.h"

namespace shoal::replica {
namespace {

constexpr std::uint32_t kEveryMax = 1000000;
constexpr std::uint32_t kSigns = 100;  // of all pipelines from one exact round to the next
constexpr std::string_view kShapes[] = {"auto", "ring", "torus"};  // by RingShape

Result<ReplicaMethod> ParseMarsit(const compression::CodecSpec& spec, bool /*local*/) {
  ReplicaMethod method;
  method.codec = compression::kLosslessCodec;
  method.traits.clips_locally = true;
  method.traits.prepares_checkpoints = true;
  method.traits.pipelines_differ = true;
  MarsitOptions options;
  if (!spec.Option("every").empty() && spec.Option("every") != "auto") {
    SHOAL_ASSIGN_OR_RETURN(options.every, NumberOption(spec, "every", 1, kEveryMax, {}));
  }
  SHOAL_ASSIGN_OR_RETURN(options.scale, FractionOption(spec, "scale", 0.01, 100, options.scale));
  SHOAL_ASSIGN_OR_RETURN(const std::size_t shape,
                         ChoiceOption(spec, "shape", {kShapes[0], kShapes[1], kShapes[2]}));
  options.shape = static_cast<RingShape>(shape);
  SHOAL_ASSIGN_OR_RETURN(options.warm_up, ParseWarmUp(spec));
  method.spec = options.Spec();
  method.alone = "qadam:bits=32," + options.warm_up.Option();
  method.options = options;
  return method;
}

std::string SpecOfRun(const ReplicaMethod& method, std::uint64_t run_steps,
                      std::uint64_t rate_warm_up) {
  MarsitOptions options = MarsitOptionsOf(method);
  options.warm_up = options.warm_up.OfRun(run_steps, rate_warm_up);
  return options.Spec();
}

Status CheckRun(const ReplicaMethod& /*method*/, std::uint32_t stages, std::uint32_t pipelines) {
  // The first and the last stage of every pipeline are one ring for a tied embedding.
  const std::uint32_t most = stages > 1 ? kRingMembersMax / 2 : kRingMembersMax;
  if (pipelines <= most) return Status::Ok();
  return InvalidArgument("replica method marsit takes up to " + std::to_string(most) +
                         " pipelines of " + std::to_string(stages) +
                         (stages == 1 ? " stage" : " stages") + ", not " +
                         std::to_string(pipelines) + "; write method = \"onebit\" for more");
}

std::vector<std::string> Cautions(const ReplicaMethod& method, std::uint32_t pipelines) {
  const auto every = static_cast<double>(MarsitOptionsOf(method).EveryOf(pipelines));
  char bits[16];
  std::snprintf(bits, sizeof(bits), "%.1f", (31 + every) / every);
  // docs/quality, "high rate".
  return {"replica method marsit sends " + std::string(bits) +
          " bits a value, onebit 1.0, and its loss is worse at high learning rates: at 1e-3 "
          "training loss was 2.9, 3.0 and 1.4 % above that of average with 2, 4 and 8 pipelines, "
          "with onebit not above it; write method = \"onebit\" unless methods are to be compared"};
}

}  // namespace

std::uint64_t MarsitOptions::EveryOf(std::uint32_t pipelines) const {
  return every > 0 ? every : std::max(kSigns / std::max(pipelines, 1U), 1U);
}

std::string MarsitOptions::Spec() const {
  return "marsit:every=" + (every == 0 ? "auto" : std::to_string(every)) +
         ",scale=" + Decimal(scale) +
         ",shape=" + std::string(kShapes[static_cast<std::size_t>(shape)]) + "," + warm_up.Option();
}

const MarsitOptions& MarsitOptionsOf(const ReplicaMethod& method) {
  return OptionsOf<MarsitOptions>(method);
}

const MethodEntry& MarsitEntry() {
  static constexpr std::string_view kKeys[] = {"every", "scale", "shape", "start"};
  static const MethodEntry entry = {.name = "marsit",
                                    .usage = "marsit",
                                    .keys = kKeys,
                                    .parse = ParseMarsit,
                                    .local_steps = false,
                                    .group_members_max = kRingMembersMax,
                                    .spec_of_run = SpecOfRun,
                                    .check_run = CheckRun,
                                    .cautions = Cautions};
  return entry;
}

}  // namespace shoal::replica
