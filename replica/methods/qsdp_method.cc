#include "replica/methods/qsdp_method.h"

namespace shoal::replica {
namespace {

Result<ReplicaMethod> ParseSharded(const compression::CodecSpec& spec) {
  ReplicaMethod method;
  method.kind = ReplicaKind::kSharded;
  SHOAL_ASSIGN_OR_RETURN(method.qsdp, ParseQsdp(spec.text));
  method.codec = method.qsdp.GradientCodec();
  method.feedback = method.qsdp.learns_gradients();
  method.spec = method.qsdp.Spec();
  return method;
}

}  // namespace

const MethodEntry& QsdpEntry() {
  static const MethodEntry entry = {.name = "qsdp",
                                    .usage = "qsdp:weights=8",
                                    .keys = kQsdpKeys,
                                    .parse = ParseSharded,
                                    .local_steps = false};
  return entry;
}

}  // namespace shoal::replica
