// StepCompute: runs the operations of a step on the model, one at a time, in the schedule's order.
//
// Takes inputs from the previous boundary and gradients from the next, puts outputs into them.
// Thread: control; the operations themselves run on `compute`.

#ifndef SHOAL_PIPELINE_COMPUTE_STEP_COMPUTE_H_
#define SHOAL_PIPELINE_COMPUTE_STEP_COMPUTE_H_

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "pipeline/boundary/boundary.h"
#include "pipeline/core/compute_queue.h"
#include "pipeline/core/generation.h"
#include "pipeline/core/step_bounds.h"
#include "replica/operation_gate.h"

namespace shoal::pipeline {

class StepCompute {
 public:
  // Where the stage stands and what bounds its steps. Constant for a generation.
  struct Config {
    std::uint32_t stage = 0, stages = 1;
    compression::SampleShape sample;
    SchedulePolicy schedule = SchedulePolicy::kAuto;
    std::uint32_t in_flight_max = 0;            // 0: chosen from measured times
    std::uint64_t activation_memory_bytes = 0;  // bound on kept micro-batches; 0: none
  };
  // All outlive it; the model and control also what was posted to other executors.
  struct Resources {
    Generation* generation = nullptr;
    Executor* control = nullptr;
    Executor* compute = nullptr;
    Executor* codec = nullptr;                           // simulates schedules
    model::StageModel* model = nullptr;                  // compute thread only
    std::shared_ptr<const compression::ValueHome> home;  // where its values lie
    std::shared_ptr<const dataset::PreparedData> data;   // first and last stage; segmented: all
    ComputeStats* stats = nullptr;
    ActivityAccount* activity = nullptr;
  };
  struct Handlers {
    // So many parts of the last micro-batch's weight gradients are done: what they add to is final.
    std::function<void(std::size_t parts)> on_final_gradients;
    std::function<void()> on_done;  // all micro-batches
  };
  // `previous` and `next` are null on the first and last stage.
  StepCompute(const Config& config, Resources resources, Boundary* previous, Boundary* next,
              Handlers handlers);

  // What lets parts run from now on; null: nothing keeps them. It outlives their use.
  void set_gate(replica::OperationGate* gate) {
    SHOAL_ASSERT_ON(generation_->control());
    gate_ = gate;
  }

  void StartStep(const StepPlan& plan);
  // The running step has these micro-batches, of which it had the first ones before.
  void ExtendStep(const StepPlan& plan);
  // Starts the next operation, if one can run. Call whenever something arrived.
  void Pump();

  // What is told of the step's micro-batches; labels and loss are the last stage's.
  StepReady Ready() const;
  // Of each micro-batch, in order; last stage only.
  const std::vector<double>& losses() const {
    SHOAL_ASSERT_ON(generation_->control());
    return losses_;
  }
  // Bytes of a micro-batch in flight, and of one whose weight gradients are pending.
  void set_memory(std::uint64_t in_flight, std::uint64_t pending) {
    SHOAL_ASSERT_ON(generation_->control());
    times_.micro_batch_bytes = in_flight;
    times_.pending_weights_bytes = pending;
  }
  void NoteSent(net::FrameKind kind, double elapsed_ms);
  // Bytes that come and go are signs of life of the neighbour that is waited for, though the frame
  // is not there. Call about every second.
  void ExcuseWait();
  // Whose frame is waited for; null: that is no wait for a frame.
  const PeerId* AwaitedPeer(Watched kind) const;
  // What the step waits for, and from whom (null: from nobody else).
  std::string Awaited(const PeerId** peer) const;

 private:
  struct Done {
    Status status;
    Buffer out;
    model::StepLoss loss;
    double ms = 0;
    bool more = false;  // parts are left
  };
  using Work = std::function<PartEnd(Done*)>;

  MicroBatchId Id(std::uint32_t micro_batch) const { return {plan_.step, micro_batch}; }
  void RefreshProgress();
  void ChooseHeldMost();
  void ChooseStepBounds();
  void UseBounds(const StepBounds& bounds);
  void NoteRoundTrip();
  // What an idle stage waits for: an activation (or else a gradient), and what holds that up.
  Activity AwaitedActivity() const;
  void WatchWait(Activity activity);
  void EndWait();
  void NoteWait(const Op& op);
  // Makes the operation that `op` names, from what has arrived for it.
  std::shared_ptr<Operation> Prepare(const Op& op);
  std::shared_ptr<Operation> Forward(std::uint32_t micro_batch);
  std::shared_ptr<Operation> BackwardInput(std::uint32_t micro_batch);
  std::shared_ptr<Operation> BackwardWeights(std::uint32_t micro_batch);
  // `work` runs on compute and owns what it needs; `then` on control, where it did not fail.
  std::shared_ptr<Operation> MakeOperation(const char* what, Op op, Work work,
                                           std::function<void(Done&)> then);
  // For a part of a W, to be called on compute: tells the handler, on control.
  std::function<void()> FinalPartTeller();
  void OfferNext();
  // Counts `op` as running.
  void Begin(const Op& op);

  const Config config_;
  const Resources resources_;
  Generation* const generation_;
  Boundary* const previous_;
  Boundary* const next_;
  const Handlers handlers_;
  replica::OperationGate* gate_ = nullptr;
  StepPlan plan_;
  bool active_ = false;  // micro-batches left
  ComputeQueue queue_;
  std::optional<Op> running_, offered_;
  bool offered_urgent_ = false;
  std::array<std::shared_ptr<Operation>, 3> prepared_;  // by OpKind; not yet running
  StageProgress progress_;
  model::StepLoss loss_;
  std::vector<double> losses_;
  // Times of a step's messages, each a segment of a micro-batch. Their mean counts, not the last
  // ones: at the end of a step the two directions take turns otherwise than before.
  struct Sent {
    double sum_ms = 0;
    std::uint32_t count = 0;
    void Add(double ms) {
      sum_ms += ms;
      ++count;
    }
    // Of a micro-batch that travels in this many.
    void Fold(std::uint32_t segments, double* average);
  };
  Sent sent_forward_, sent_backward_;
  StepBounds bounds_;  // of the running step
  // Gradients that are sent and not acknowledged, where they are kept until then: most
  // micro-batches, and bytes of activation_memory_bytes that are left to them.
  std::uint32_t held_most_ = UINT32_MAX;
  std::uint64_t held_bytes_ = 0;
  std::optional<StepBounds> logged_;
  StageTimes times_;  // moving averages
  // When the step's first output left the model; until its gradient is there.
  std::optional<TimePoint> first_output_;
  // For a neighbour's frame that is waited for, watched as operations are.
  struct Wait {
    Activity activity = Activity::kWaitInput;
    std::uint32_t micro_batch = 0;
    std::uint64_t token = 0, bytes = 0;  // bytes: on the link, at the last sign of life
  };
  std::optional<Wait> wait_;
  double weights_ms_ = 0;        // parts of the W that is not done
  std::size_t final_parts_ = 0;  // of the last micro-batch's W
};

}  // namespace shoal::pipeline

#endif  // SHOAL_PIPELINE_COMPUTE_STEP_COMPUTE_H_
