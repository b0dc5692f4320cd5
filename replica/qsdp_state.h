// The lifecycle of a step of the method `qsdp`, as a table. Internal to replica/. Pure. Thread:
// any.

#ifndef SHOAL_REPLICA_QSDP_STATE_H_
#define SHOAL_REPLICA_QSDP_STATE_H_

#include <cstdint>
#include <optional>

namespace shoal::replica {

enum class QsdpState : std::uint8_t {
  kAccumulating,  // the step's micro-batches; gradients that are final go to their owners
  kReducing,      // waits for sums and norms
  kReduced,       // waits for Apply
  kApplying,      // owners make their step, weights go to all
  kSaving,        // moments go to all
  kFailed,        // for the rest of the generation
};
enum class QsdpEvent : std::uint8_t {
  kReduce,
  kNorms,
  kApply,
  kAdopted,
  kAdoptedToSave,
  kMoments,
  kFail
};
// The state after `event`, or nothing where the event is out of place. A failed step stays failed.
std::optional<QsdpState> NextState(QsdpState state, QsdpEvent event);

}  // namespace shoal::replica

#endif  // SHOAL_REPLICA_QSDP_STATE_H_
