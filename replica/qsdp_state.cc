#include "replica/qsdp_state.h"

namespace shoal::replica {

std::optional<QsdpState> NextState(QsdpState state, QsdpEvent event) {
  struct Row {
    QsdpState from;
    QsdpEvent event;
    QsdpState to;
  };
  static constexpr Row kTable[] = {
      {QsdpState::kAccumulating, QsdpEvent::kReduce, QsdpState::kReducing},
      {QsdpState::kReducing, QsdpEvent::kNorms, QsdpState::kReduced},
      {QsdpState::kReduced, QsdpEvent::kApply, QsdpState::kApplying},
      {QsdpState::kApplying, QsdpEvent::kAdopted, QsdpState::kAccumulating},
      {QsdpState::kApplying, QsdpEvent::kAdoptedToSave, QsdpState::kSaving},
      {QsdpState::kSaving, QsdpEvent::kMoments, QsdpState::kAccumulating},
  };
  if (state == QsdpState::kFailed || event == QsdpEvent::kFail) return QsdpState::kFailed;
  for (const Row& row : kTable) {
    if (row.from == state && row.event == event) return row.to;
  }
  return std::nullopt;
}

}  // namespace shoal::replica
