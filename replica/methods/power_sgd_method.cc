#include "replica/methods/power_sgd_method.h"

#include "replica/methods/method_options.h"

namespace shoal::replica {
namespace {

Result<ReplicaMethod> ParseFactors(const compression::CodecSpec& spec) {
  ReplicaMethod method;
  method.kind = ReplicaKind::kPowerSgd;
  method.codec = kExactCodec;
  SHOAL_ASSIGN_OR_RETURN(method.power_sgd, ParsePowerSgd(spec.text));
  method.spec = method.power_sgd.Spec();
  return method;
}

}  // namespace

const MethodEntry& PowerSgdEntry() {
  static const MethodEntry entry = {.name = "powersgd",
                                    .usage = "powersgd:rank=N",
                                    .keys = kPowerSgdKeys,
                                    .parse = ParseFactors,
                                    .start_with_local_steps = true};
  return entry;
}

}  // namespace shoal::replica
