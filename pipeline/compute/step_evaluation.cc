#include "pipeline/compute/step_evaluation.h"

#include <limits>
#include <utility>
#include <vector>

#include "common/trace.h"
#include "pipeline/compute/micro_batch_rows.h"

namespace shoal::pipeline {

// What a task on compute owns.
struct StepEvaluation::Task {
  model::StageModel* model = nullptr;
  std::shared_ptr<const dataset::PreparedData> data;
  std::shared_ptr<const compression::ValueHome> home;
  std::shared_ptr<const compression::MessageCodec> codec;
  compression::SampleShape sample;
  bool first = false, last = false;
  model::MicroBatch micro_batch;  // without the spans
  EvaluationMessage input;        // all but the first stage
};

namespace {

// The key of a codec that draws nothing.
constexpr compression::RandomKey kNoKey{};

Status Decode(const compression::MessageCodec& codec, const Buffer& message, std::uint32_t rows,
              compression::SampleShape sample, Buffer* values) {
  std::vector<compression::SampleToDecode> samples(rows);
  for (std::uint32_t r = 0; r < rows; ++r) {
    samples[r].values = values->floats().subspan(r * sample.values(), sample.values());
  }
  return codec.Decode(message.bytes(), samples, sample, kNoKey, {});
}

// Nothing where a value cannot be coded: it is not finite, or near the largest float.
EvaluationMessage Encode(const compression::MessageCodec& codec, const Buffer& values,
                         std::uint32_t rows, compression::SampleShape sample) {
  std::vector<compression::SampleToEncode> samples(rows);
  for (std::uint32_t r = 0; r < rows; ++r) {
    samples[r].values = values.floats().subspan(r * sample.values(), sample.values());
  }
  Buffer message(codec.EncodedBytesMax(sample, rows));
  const Result<std::size_t> bytes = codec.Encode(
      samples, sample, kNoKey, compression::DeltaMode::kDelta, message.bytes(), {}, nullptr);
  if (!bytes.ok()) return std::nullopt;
  message.Truncate(*bytes);
  return message;
}

}  // namespace

StepEvaluation::StepEvaluation(compression::SampleShape sample, Resources resources,
                               Boundary* previous, Boundary* next, std::function<void()> on_done)
    : sample_(sample),
      resources_(std::move(resources)),
      generation_(resources_.generation),
      previous_(previous),
      next_(next),
      on_done_(std::move(on_done)) {}

void StepEvaluation::Start(const StepPlan& plan) {
  SHOAL_ASSERT_ON(generation_->control());
  SHOAL_CHECK(!active_);
  loss_ = {};
  done_ = 0;
  if (plan.evaluation.empty()) return on_done_();
  plan_ = plan;
  active_ = true;
  Pump();
}

bool StepEvaluation::CanGoOn() const {
  if (previous_ != nullptr && !previous_->evaluation().HasNext()) return false;
  return next_ == nullptr || next_->evaluation().HasRoom();
}

void StepEvaluation::Pump() {
  SHOAL_ASSERT_ON(generation_->control());
  if (!active_ || running_) return;
  if (CanGoOn()) return RunNext();
  const bool input = previous_ != nullptr && !previous_->evaluation().HasNext();
  resources_.activity->Become(input ? Activity::kWaitInput : Activity::kWaitGradient);
}

void StepEvaluation::RunNext() {
  const std::vector<SampleId>& samples = plan_.evaluation[done_].samples;
  auto task = std::make_shared<Task>();
  task->model = resources_.model;
  task->data = resources_.data;
  task->home = resources_.home;
  task->codec = resources_.codec;
  task->sample = sample_;
  task->first = previous_ == nullptr;
  task->last = next_ == nullptr;
  task->micro_batch.id = {plan_.step, done_};
  task->micro_batch.samples = samples;
  task->micro_batch.rows = static_cast<std::uint32_t>(samples.size());
  task->micro_batch.tokens = sample_.tokens;
  if (previous_ != nullptr) {
    Result<EvaluationMessage> input = previous_->evaluation().Take();
    if (!input.ok()) return generation_->Fail(input.status());
    task->input = std::move(*input);
  }
  running_ = true;
  resources_.activity->Become(Activity::kForward);
  generation_->scope().Run(
      resources_.compute, "evaluation", [task] { return Evaluate(task.get()); },
      [this](Done done) { OnEvaluated(std::move(done)); });
}

StepEvaluation::Done StepEvaluation::Evaluate(Task* task) {
  const TimePoint traced = TraceStart();
  Done done;
  if (!task->first && !task->input.has_value()) {
    done.loss = {std::numeric_limits<double>::quiet_NaN(), 0};
    return done;
  }
  const auto run = [&]() -> Status {
    BatchRows rows;
    model::MicroBatch micro_batch = task->micro_batch;
    SHOAL_RETURN_IF_ERROR(ReadRows(task->data.get(), task->first, task->last, &micro_batch, &rows));
    Buffer input;
    if (!task->first) {
      SHOAL_ASSIGN_OR_RETURN(input, task->home->Allocate(micro_batch.rows * task->sample.values()));
      done.bad_input = true;
      SHOAL_RETURN_IF_ERROR(
          Decode(*task->codec, *task->input, micro_batch.rows, task->sample, &input));
      done.bad_input = false;
      micro_batch.input = std::as_const(input).floats();
    }
    const std::size_t values = task->last ? 0 : micro_batch.rows * task->sample.values();
    SHOAL_ASSIGN_OR_RETURN(Buffer output, task->home->Allocate(values));
    SHOAL_RETURN_IF_ERROR(task->model->Evaluate(micro_batch, output.floats(), &done.loss));
    if (!task->last) done.out = Encode(*task->codec, output, micro_batch.rows, task->sample);
    return Status::Ok();
  };
  done.status = run();
  TraceSpan("mb.evaluation", task->micro_batch.id, traced);
  return done;
}

void StepEvaluation::OnEvaluated(Done done) {
  running_ = false;
  generation_->Progress();
  Status status = std::move(done.status);
  if (status.ok() && next_ != nullptr) status = next_->evaluation().Put(std::move(done.out));
  if (!status.ok()) {
    return generation_->Fail(
        status.WithContext("evaluation of " + Describe(MicroBatchId{plan_.step, done_})),
        done.bad_input ? &previous_->peer() : nullptr);
  }
  loss_.sum += done.loss.sum;
  loss_.labels += done.loss.labels;
  if (++done_ < plan_.evaluation.size()) return Pump();
  active_ = false;
  on_done_();
}

std::string StepEvaluation::Awaited(const PeerId** peer) const {
  SHOAL_ASSERT_ON(generation_->control());
  *peer = nullptr;
  if (running_) return "an evaluation by this peer's model";
  const bool input = previous_ != nullptr && !previous_->evaluation().HasNext();
  Boundary* const boundary = input ? previous_ : next_;
  SHOAL_CHECK(boundary != nullptr);
  *peer = &boundary->peer();
  return std::string(input ? "the evaluation of " : "room for the evaluation of ") +
         Describe(MicroBatchId{plan_.step, done_}) + (input ? " from " : " at ") +
         boundary->peer_name();
}

}  // namespace shoal::pipeline
