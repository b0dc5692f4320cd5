// What the copying of checkpoints does, as a transition table, and what people see of it. Pure.
// Thread: any.

#ifndef SHOAL_SCHEDULER_MIRROR_MIRROR_STATE_H_
#define SHOAL_SCHEDULER_MIRROR_MIRROR_STATE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace shoal::scheduler {

enum class MirrorState : std::uint8_t {
  kIdle,       // the newest checkpoint is stored, or there is none
  kUploading,  // one is on its way
  kWaiting,    // the last try failed, and the next comes later
};
enum class MirrorEvent : std::uint8_t { kOffered, kStored, kFailed, kRetry };

// Nothing: the event cannot come in this state, or changes nothing.
std::optional<MirrorState> NextMirrorState(MirrorState state, MirrorEvent event);
std::string_view MirrorStateName(MirrorState state);

// What people see of it.
struct MirrorView {
  std::string address;  // of the store; empty: there is none
  MirrorState state = MirrorState::kIdle;
  std::optional<std::uint64_t> stored_step;   // of the newest checkpoint there, as far as known
  std::optional<std::uint64_t> pending_step;  // of the one that is on its way, or to be tried again
  std::uint64_t sent_bytes = 0;
  std::uint64_t failures = 0;  // tries that failed
  std::string last_failure;    // since the newest success; empty: none
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_MIRROR_MIRROR_STATE_H_
