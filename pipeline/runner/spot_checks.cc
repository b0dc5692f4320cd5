#include "pipeline/runner/spot_checks.h"

#include <string>
#include <utility>

#include "common/log.h"

namespace shoal::pipeline {

// What a checker has of the check of the step at hand.
struct SpotChecks::Check {
  SpotComparison comparison;
  SpotResult result;
  std::unique_ptr<EvidenceReceiver> input, output;  // null: no such neighbour
  bool computes = false;                            // from here on it needs no links
  bool weights_needed = true;                       // compute has not been asked yet
  bool finished = false;

  bool complete() const { return (!input || input->complete()) && (!output || output->complete()); }
};

void SpotChecks::OnOrder(SpotOrder order) {
  SHOAL_ASSERT_ON(parts_.generation->control());
  if (parts_.generation->ended()) return;
  if (coming_.size() >= kSpotOrdersMax) coming_.erase(coming_.begin());
  Part part{.order = std::move(order), .check = nullptr, .links = {}};
  if (part.order.role == SpotRole::kChecker) Await(&part);
  for (const net::LinkTarget& checker : part.order.checkers) {
    // A link that ends is of no use to the checker, who says so.
    part.links.push_back(parts_.links->Open(
        checker, true,
        {[] {}, [](net::Frame) {}, [](const Status&) {}, [](auto, auto, double) {}}));
  }
  const std::uint64_t step = part.order.step;
  coming_.insert_or_assign(step, std::move(part));
}

void SpotChecks::StartStep(const StepPlan& plan) {
  SHOAL_ASSERT_ON(parts_.generation->control());
  part_.reset();
  idle_ = false;
  coming_.erase(coming_.begin(), coming_.lower_bound(plan.step));
  const auto found = coming_.find(plan.step);
  if (found == coming_.end()) return;
  part_ = std::move(found->second);
  coming_.erase(found);
  if (part_->check == nullptr && !Witness(plan)) part_.reset();
}

// ---- a neighbour of who is checked

// The boundary with it.
Boundary* SpotChecks::Shared(const SpotOrder& order) const {
  return order.role == SpotRole::kInputWitness ? parts_.next : parts_.previous;
}

// False: the plan has no such micro-batch.
bool SpotChecks::Witness(const StepPlan& plan) {
  const SpotOrder& order = part_->order;
  Boundary* const boundary = Shared(order);
  if (boundary == nullptr || order.place >= plan.micro_batches.size() ||
      plan.micro_batches[order.place].samples != order.micro_batch.samples) {
    return false;
  }
  const bool input = order.role == SpotRole::kInputWitness;
  (input ? boundary->out().log() : boundary->in().log()).KeepNext(order.place);
  return true;
}

// As soon as the other end of the boundary cannot ask for any of it again.
void SpotChecks::Show() {
  const SpotOrder& order = part_->order;
  const bool input = order.role == SpotRole::kInputWitness;
  Boundary* const boundary = Shared(order);
  const TransferLog& log = input ? boundary->out().log() : boundary->in().log();
  if (log.step() != order.step || !log.complete()) return;
  if (!(input ? boundary->out().released(order.place) : boundary->in().Ready() > order.place)) {
    return;
  }
  part_->shown = true;
  for (const std::unique_ptr<net::Link>& link : part_->links) {
    for (net::Frame& frame :
         FramesOf(log.kept(), *parts_.links, {order.step, order.place}, order.micro_batch)) {
      if (const Status sent = link->Send(std::move(frame)); !sent.ok()) {
        SHOAL_LOG(kWarning, "pipeline", "spot_check.not_shown", {"step", order.step},
                  {"reason", sent.message()});
        break;
      }
    }
  }
}

// ---- a checker

void SpotChecks::Await(Part* part) {
  part->check = std::make_shared<Check>();
  Check* const check = part->check.get();
  check->result.step = part->order.step;
  SpotComparison& comparison = check->comparison;
  comparison.id = {part->order.step, part->order.place};
  comparison.plan = part->order.micro_batch;
  comparison.sample = {parts_.config->row_tokens, parts_.config->hidden};
  comparison.home = parts_.boundaries.home;
  comparison.data = parts_.resources->data;
  comparison.model = parts_.resources->model;
  comparison.clock = &parts_.generation->clock();
  const std::uint32_t stage = parts_.config->stage;
  if (parts_.previous != nullptr) {
    comparison.before = parts_.boundaries.Forward(stage - 1);
    check->input = AwaitFrom(part->order.input, *comparison.before, part);
  }
  if (parts_.next != nullptr) {
    comparison.behind = parts_.boundaries.Forward(stage);
    check->output = AwaitFrom(part->order.output, *comparison.behind, part);
  }
}

std::unique_ptr<EvidenceReceiver> SpotChecks::AwaitFrom(const net::LinkTarget& target,
                                                        const DirectionConfig& direction,
                                                        Part* part) {
  const SpotOrder& order = part->order;
  auto receiver = std::make_unique<EvidenceReceiver>(
      direction, MicroBatchId{order.step, order.place}, order.micro_batch);
  net::LinkHandlers handlers;
  handlers.on_open = [] {};
  handlers.on_sent = [](auto, auto, double) {};
  handlers.on_frame = [this, check = part->check, into = receiver.get()](net::Frame frame) {
    if (check->computes || check->finished) return;
    Status status = parts_.links->CheckFrame(frame);
    if (status.ok()) status = into->OnFrame(std::move(frame));
    if (!status.ok()) return Finish(check, std::move(status));
    Compute();
  };
  handlers.on_closed = [this, check = part->check](const Status& status) {
    if (!check->computes && !check->complete()) {
      Finish(check, Status(status).WithContext("the link to a witness"));
    }
  };
  part->links.push_back(parts_.links->Open(target, false, std::move(handlers)));
  return receiver;
}

// Its own micro-batches go first.
void SpotChecks::Compute() {
  const std::shared_ptr<Check> check = part_ ? part_->check : nullptr;
  if (!check || check->finished || check->computes || !idle_ || !check->complete()) return;
  check->computes = true;
  SpotComparison* const of = &check->comparison;
  if (check->input) {
    of->input = check->input->Take();
    check->result.input_digest = DigestOf(of->input);
  }
  if (check->output) {
    of->output = check->output->Take();
    check->result.output_digest = DigestOf(of->output);
  }
  TaskScope& scope = parts_.generation->scope();
  const auto compare = [this, check, of](const Status& status) {
    if (!status.ok()) return Finish(check, status);
    parts_.generation->scope().Run(
        parts_.resources->codec, "spot.compare", [check, of] { return CompareOutput(of); },
        [this, check](const Status& compared) { Finish(check, compared); });
  };
  scope.Run(
      parts_.resources->codec, "spot.decode", [check, of] { return DecodeInput(of); },
      [this, check, of, compare](const Status& status) {
        if (check->finished) return;
        if (!status.ok()) return Finish(check, status);
        check->weights_needed = false;
        parts_.generation->scope().Run(
            parts_.resources->compute, "spot.forward", [check, of] { return ComputeAgain(of); },
            compare);
      });
}

void SpotChecks::Finish(const std::shared_ptr<Check>& check, Status status) {
  if (std::exchange(check->finished, true)) return;
  SpotResult result = std::move(check->result);
  result.status = std::move(status);
  result.difference = check->comparison.difference;
  result.coding_error = check->comparison.coding_error;
  if (!check->comparison.behind) result.loss = check->comparison.loss;
  parts_.on_checked(result);
}

// ---- both

void SpotChecks::Pump() {
  SHOAL_ASSERT_ON(parts_.generation->control());
  if (part_ && !part_->check && !part_->shown) Show();
}

void SpotChecks::SetIdle(bool idle) {
  SHOAL_ASSERT_ON(parts_.generation->control());
  idle_ = idle;
  Pump();
  Compute();
}

// Tasks of compute run in order: what was posted before sees the weights as they were.
void SpotChecks::OnApply() {
  SHOAL_ASSERT_ON(parts_.generation->control());
  if (!part_ || !part_->check || part_->check->finished || !part_->check->weights_needed) return;
  Finish(part_->check, DeadlineExceeded(part_->check->complete()
                                            ? "the step ended before it could be computed again"
                                            : "the step ended before its neighbours had shown it"));
}

}  // namespace shoal::pipeline
