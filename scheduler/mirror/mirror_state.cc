#include "scheduler/mirror/mirror_state.h"

namespace shoal::scheduler {

std::optional<MirrorState> NextMirrorState(MirrorState state, MirrorEvent event) {
  struct Row {
    MirrorState from;
    MirrorEvent event;
    MirrorState to;
  };
  static constexpr Row kTable[] = {
      {MirrorState::kIdle, MirrorEvent::kOffered, MirrorState::kUploading},
      {MirrorState::kUploading, MirrorEvent::kStored, MirrorState::kIdle},
      {MirrorState::kUploading, MirrorEvent::kFailed, MirrorState::kWaiting},
      {MirrorState::kWaiting, MirrorEvent::kRetry, MirrorState::kUploading},
  };
  for (const Row& row : kTable) {
    if (row.from == state && row.event == event) return row.to;
  }
  return std::nullopt;
}

std::string_view MirrorStateName(MirrorState state) {
  switch (state) {
    case MirrorState::kIdle: return "idle";
    case MirrorState::kUploading: return "uploading";
    case MirrorState::kWaiting: return "waiting";
  }
  return "unknown";
}

}  // namespace shoal::scheduler
