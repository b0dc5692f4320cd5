// MethodEntry: what a replica method registers about itself, all of it in one place.
//
// A method defines its entry in its own .cc; the list of entries is method_registry.cc. Internal to
// replica/methods/. Pure. Thread: any.

#ifndef SHOAL_REPLICA_METHODS_METHOD_ENTRY_H_
#define SHOAL_REPLICA_METHODS_METHOD_ENTRY_H_

#include <span>
#include <string_view>

#include "common/status.h"
#include "compression/api/codec_spec.h"
#include "replica/methods/replica_method.h"

namespace shoal::replica {

struct MethodEntry {
  std::string_view name;
  std::string_view usage;                  // as errors list it
  std::span<const std::string_view> keys;  // the options it takes, but those of local steps
  // Of a spec with this name, these keys and no entropy coder. What local steps add comes later.
  Result<ReplicaMethod> (*parse)(const compression::CodecSpec& spec) = nullptr;

  // Pipelines may step on their own and exchange parameter differences by the method.
  bool local_steps = true;
  // `start` means the same with local steps. Without: it is the end of a warm-up that only moments
  // which a group shares have.
  bool start_with_local_steps = false;
};

}  // namespace shoal::replica

#endif  // SHOAL_REPLICA_METHODS_METHOD_ENTRY_H_
