// StepAccount: what the members of a plan have reported about the step in progress.
// Pure; thread: control.

#ifndef SHOAL_SCHEDULER_STEPS_STEP_ACCOUNT_H_
#define SHOAL_SCHEDULER_STEPS_STEP_ACCOUNT_H_

#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "common/clock.h"
#include "proto/control.pb.h"
#include "scheduler/config/position.h"

namespace shoal::scheduler {

class StepAccount {
 public:
  explicit StepAccount(std::uint32_t stages, std::uint32_t pipelines = 0) : stages_(stages) {
    Reset(pipelines);
  }

  // A plan of so many pipelines begins, which has nobody at `gaps`.
  void Reset(std::uint32_t pipelines, std::set<Position> gaps = {});
  // `judged`: pipelines whose norms are compared, in order; empty: all.
  void Begin(std::uint64_t step, const std::vector<std::uint32_t>& judged, TimePoint now);
  // Members that only followed have left the plan: nobody waits for their reports.
  void Lose(const std::set<Position>& lost);
  // Their members have left the plan: the others report the step in progress once more. `judged` as
  // above.
  void GoOnWithout(const std::set<Position>& lost, const std::vector<std::uint32_t>& judged);
  std::uint64_t step() const { return step_; }

  // Takes a report of the member at (pipeline, stage); a second one of the same step is ignored
  // (false).
  bool AddReady(std::uint32_t pipeline, std::uint32_t stage, const control::v1::StepReady& ready,
                TimePoint now);
  bool AddSynced(std::uint32_t pipeline, std::uint32_t stage, double squared_norm, TimePoint now);

  bool all_ready() const { return ready_ == Reports(); }
  bool all_synced() const { return synced_ == Reports(); }

  // Sums over the last stages, in order of pipeline, so that they are reproducible.
  std::uint64_t labels() const;
  double loss_sum() const;
  // The first pipeline whose loss is not finite.
  std::optional<std::uint32_t> lost_loss() const;
  // Of a pipeline that has labels.
  bool any_loss_finite() const;
  // Token mean over the labels of the step's evaluation; nothing without one. It may be not finite.
  std::optional<double> held_out_loss() const;
  // From Begin to the member's StepReady.
  Duration ready_after(std::uint32_t pipeline, std::uint32_t stage) const;
  // To the last of some pipelines' members.
  Duration ready_after(const std::vector<std::uint32_t>& pipelines) const;
  std::uint64_t local_labels(std::uint32_t pipeline) const;
  // Norm of a pipeline's gradient of its token mean, before any exchange; 0 without labels.
  double local_norm(std::uint32_t pipeline) const;
  // Sum over the stages, from the first pipeline that is judged there, in order of stage.
  double squared_norm() const;
  // Of a stage, as the first pipeline that is judged there reports it.
  double squared_norm_of(std::uint32_t stage) const;
  // Mean loss of a pipeline's labels; it must have some.
  double local_loss(std::uint32_t pipeline) const;
  // Pipelines that are judged, of those that have somebody at the stage; in order.
  std::vector<std::uint32_t> Judged(std::uint32_t stage) const;
  // Of these, whose norm of the stage is not that of more than half of them; all of them, where no
  // such half is.
  std::vector<std::uint32_t> disagreeing(std::uint32_t stage) const;
  // A stage whose members report different norms (their summed gradients differ).
  std::optional<std::uint32_t> disagreeing_stage() const;

  // Per stage, from the slowest pipeline.
  std::vector<control::v1::StageTiming> timings() const;
  // From Begin to the last report so far, and between the last StepReady and the last SyncDone:
  // what the exchange of gradients and its control round trips cost.
  Duration elapsed(TimePoint now) const { return now - began_; }
  Duration between_ready_and_synced() const { return last_synced_ - last_ready_; }

 private:
  struct Entry {
    bool ready = false, synced = false;
    TimePoint ready_at{};
    std::uint64_t labels = 0;
    double loss_sum = 0, squared_norm = 0, local_squared_norm = 0;
    std::uint64_t evaluation_labels = 0;
    double evaluation_loss_sum = 0;
    control::v1::StageTiming timing;
  };
  Entry& At(std::uint32_t pipeline, std::uint32_t stage);
  const Entry& At(std::uint32_t pipeline, std::uint32_t stage) const;
  std::size_t Reports() const { return entries_.size() - gaps_.size(); }
  void Judge(const std::vector<std::uint32_t>& judged);

  const std::uint32_t stages_;
  std::uint32_t pipelines_ = 0;
  std::uint64_t step_ = 0;
  TimePoint began_{}, last_ready_{}, last_synced_{};
  std::size_t ready_ = 0, synced_ = 0;
  std::vector<Entry> entries_;         // by pipeline, then stage
  std::vector<std::uint32_t> judged_;  // pipelines, in order
  std::set<Position> gaps_;
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_STEPS_STEP_ACCOUNT_H_
