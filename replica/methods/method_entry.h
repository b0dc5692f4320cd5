// MethodEntry: what a replica method registers about itself, all of it in one place.
//
// A method defines its entry in its own .cc; the list of entries is method_registry.cc. Internal to
// replica/methods/. Pure. Thread: any.

#ifndef SHOAL_REPLICA_METHODS_METHOD_ENTRY_H_
#define SHOAL_REPLICA_METHODS_METHOD_ENTRY_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"
#include "compression/api/codec_spec.h"
#include "replica/methods/group_limits.h"
#include "replica/methods/replica_method.h"

namespace shoal::replica {

enum class OfferedFor : std::uint8_t {
  kEveryStep,
  kLocalSteps,   // the advice adds as many of these as make exchanges quick enough
  kSmallMemory,  // spreads all of a stage's state over its group; bits and loss are not given
};
// A spec that users are offered, with what is measured of it (docs/quality, "2 pipelines").
struct MethodOffer {
  std::string_view spec;
  double bits = 0;  // a value, of each of the two ways
  double loss = 0;  // held out, of two pipelines, the worse of two seeds, relative to `average`
  OfferedFor use = OfferedFor::kEveryStep;
};

struct MethodEntry {
  std::string_view name;
  std::string_view usage;                    // as errors list it
  std::span<const std::string_view> keys;    // the options it takes, but those of local steps
  std::span<const MethodOffer> offers = {};  // replica_advice.h
  // Of a spec with this name, these keys and no entropy coder. What `local` steps add to the spec
  // comes later.
  Result<ReplicaMethod> (*parse)(const compression::CodecSpec& spec, bool local) = nullptr;

  // Pipelines may step on their own and exchange parameter differences by the method.
  bool local_steps = true;
  // `start` means the same with local steps. Without: it is the end of a warm-up that only moments
  // which a group shares have.
  bool start_with_local_steps = false;
  std::uint32_t group_members_max = kGroupMembersMax;

  // As ReplicaMethod has them. Null: nothing depends on the run, or is left to the swarm; weights,
  // gradients and moments are held in full; there is nothing to caution of.
  std::string (*spec_of_run)(const ReplicaMethod&, std::uint64_t run_steps,
                             std::uint64_t rate_warm_up) = nullptr;
  Status (*check_run)(const ReplicaMethod&, std::uint32_t stages,
                      std::uint32_t pipelines) = nullptr;
  Result<std::vector<std::size_t>> (*lan_of)(const ReplicaMethod&,
                                             std::uint32_t pipelines) = nullptr;
  std::optional<std::uint64_t> (*stage_choice_start)(const ReplicaMethod&) = nullptr;
  // Never asked with one pipeline, where nothing is shared.
  std::uint64_t (*state_bytes)(const ReplicaMethod&, std::uint64_t values, std::uint32_t pipelines,
                               bool bf16, std::uint64_t largest_unit) = nullptr;
  // Sentences for who chooses it, of 2 or more pipelines.
  std::vector<std::string> (*cautions)(const ReplicaMethod&, std::uint32_t pipelines) = nullptr;
};

}  // namespace shoal::replica

#endif  // SHOAL_REPLICA_METHODS_METHOD_ENTRY_H_
