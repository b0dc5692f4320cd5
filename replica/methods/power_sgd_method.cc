#include "replica/methods/power_sgd_method.h"

#include <optional>
#include <utility>

#include "replica/methods/method_options.h"
#include "replica/methods/stage_selection.h"

namespace shoal::replica {
namespace {

Result<ReplicaMethod> ParseFactors(const compression::CodecSpec& spec, bool local) {
  ReplicaMethod method;
  method.codec = compression::kLosslessCodec;
  SHOAL_ASSIGN_OR_RETURN(PowerSgdOptions options, ParsePowerSgd(spec.text));
  if (local && options.stages == "auto") {
    return SpecError(spec, "with local_steps name the stages, or take all");
  }
  method.traits.follows_steps = true;
  method.spec = options.Spec();
  method.options = std::move(options);
  return method;
}

Status CheckRun(const ReplicaMethod& method, std::uint32_t stages, std::uint32_t /*pipelines*/) {
  return ParseStageSelection(PowerSgdOptionsOf(method).stages, stages).status();
}

std::optional<std::uint64_t> StageChoiceStart(const ReplicaMethod& method) {
  const PowerSgdOptions& options = PowerSgdOptionsOf(method);
  if (options.stages != "auto") return std::nullopt;
  return options.start;
}

}  // namespace

const PowerSgdOptions& PowerSgdOptionsOf(const ReplicaMethod& method) {
  return OptionsOf<PowerSgdOptions>(method);
}

const MethodEntry& PowerSgdEntry() {
  static const MethodEntry entry = {.name = "powersgd",
                                    .usage = "powersgd:rank=N",
                                    .keys = kPowerSgdKeys,
                                    .parse = ParseFactors,
                                    .start_with_local_steps = true,
                                    .check_run = CheckRun,
                                    .stage_choice_start = StageChoiceStart};
  return entry;
}

}  // namespace shoal::replica
