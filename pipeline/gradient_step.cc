// The methods that agree on gradients: `average`, `powersgd`. The model's optimizer does the rest.
//
// Bucket by bucket: a bucket's exchange begins when the last micro-batch's backward is through with
// it, as if all pipelines counted in the step, and in the way of the step before (which stages
// exchange exactly: powersgd with stages=auto). Reduce confirms that, or else the exchanges that
// began are rolled back and begin again, in a second round of the step, from the gradients that
// were kept for it.

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "compression/replica/power_sgd_vector.h"
#include "pipeline/gradient_buckets.h"
#include "pipeline/replica_step.h"
#include "replica/collective/channel_mux.h"
#include "replica/collective/exchange.h"

namespace shoal::pipeline {
namespace {

using model::StateVector;

// A step's first round, and the one behind a wrong guess.
constexpr std::uint64_t kRoundsPerStep = 2;

class GradientStep final : public ReplicaStep {
 public:
  explicit GradientStep(ReplicaContext context)
      : core_(context.core),
        links_(context.links),
        parts_(std::move(context.parts)),
        method_(context.method),
        final_after_(std::move(context.final_after)),
        scope_(core_->deps.control) {}

  Status Init();
  void OnFinalGradients(std::uint64_t step, std::size_t parts) override;
  void Reduce(const ReduceOrder& order, std::function<void(Result<double>)> done) override;
  void Apply(const ApplyOrder& order, std::function<void(Status)> done) override;
  std::string Awaited(const PeerId** peer) const override;

 private:
  struct Lane {
    GradientBucket bucket;
    collective::GroupChannel* group = nullptr;
    BucketQueue* queue = nullptr;  // of its part
    std::size_t number = 0;        // there
    std::unique_ptr<collective::Exchange> exchange;
    bool begun = false;
    std::shared_ptr<Buffer> own;  // what this peer adds to the sum
    Buffer spare;                 // for `own`: new pages cost more than what is done in them
    std::optional<Buffer> sum;    // not yet in the model
  };

  Status AddLanes(const std::shared_ptr<const ReplicaPart>& part);
  bool Guessed(const ReduceOrder& order) const;
  bool exact() const;  // the running exchanges of the stage's own part, whatever the method
  void Read(Lane* lane);
  void Exchange(Lane* lane);
  void OnSum(Lane* lane, Result<Buffer> sum);
  void Write(Lane* lane);
  void Finish(Result<double> norm);
  void ReadNorm();

  RunnerCore* const core_;
  const GroupLinks* const links_;
  const ReplicaParts parts_;
  const compression::ReplicaMethod method_;
  const FinalParts final_after_;
  std::vector<std::unique_ptr<collective::ChannelMux>> muxes_;  // of parts with several buckets
  std::vector<std::unique_ptr<BucketQueue>> queues_;            // by part
  std::vector<Lane> lanes_;                                     // do not move
  std::uint64_t step_ = 0;                                      // running
  std::uint64_t attempt_ = 0;                                   // of its rounds
  std::vector<std::uint32_t> pipelines_;  // that count in it; all, until Reduce says otherwise
  Status early_error_;                    // came before Reduce
  ReduceOrder order_;
  std::function<void(Result<double>)> done_;  // null: no Reduce is running
  std::size_t lanes_left_ = 0;
  std::vector<std::uint32_t> exact_stages_;           // by Reduce, or the one before
  std::size_t own_lanes_ = 0;                         // of the stage's own part
  std::uint64_t own_values_ = 0, factor_values_ = 0;  // of it, and of its factors
  std::size_t own_left_ = 0;                          // that did not end yet
  TimePoint final_{};                                 // when the own part's gradients were complete
  ExactExchange measured_;                            // of the running step
  TaskScope scope_;                                   // last: its tasks use what is above
};

Status GradientStep::Init() {
  if (method_.power_sgd.stages == "auto" && core_->config.pipelines > 1) {
    exact_stages_.resize(core_->config.stages);  // so a generation begins
    std::iota(exact_stages_.begin(), exact_stages_.end(), 0U);
  }
  for (std::uint32_t p = 0; p < core_->config.pipelines; ++p) pipelines_.push_back(p);
  lanes_.reserve(parts_.size() * (kBucketsMax + 1));
  for (const auto& part : parts_) SHOAL_RETURN_IF_ERROR(AddLanes(part));
  own_left_ = own_lanes_;
  return Status::Ok();
}

Status GradientStep::AddLanes(const std::shared_ptr<const ReplicaPart>& part) {
  std::vector<GradientBucket> buckets =
      CutBuckets(part, final_after_, core_->config.bucket_values_min);
  collective::ChannelMux* mux = nullptr;
  if (buckets.size() > 1) {
    muxes_.push_back(std::make_unique<collective::ChannelMux>(
        part->channel, buckets.size(),
        [this](const Status& status) { core_->fail(status, nullptr); }));
    mux = muxes_.back().get();
  }
  queues_.push_back(std::make_unique<BucketQueue>(
      [this, first = lanes_.size()](std::size_t i) { Exchange(&lanes_[first + i]); }));
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    Lane lane;
    lane.bucket = std::move(buckets[i]);
    lane.group = part->channel;
    lane.queue = queues_.back().get();
    lane.number = lane.queue->Add(lane.bucket.part->values);
    PartExchangeOptions options;
    options.channel = mux != nullptr ? mux->channel(i) : part->channel;
    // Not the model's, which is at work on the other buckets.
    options.compute = core_->deps.codec;
    options.number = i;
    options.rounds_per_step = kRoundsPerStep;
    options.reuse_memory = true;
    SHOAL_ASSIGN_OR_RETURN(lane.exchange,
                           NewPartExchange(*core_, method_, *lane.bucket.part, options));
    if (method_.kind == compression::ReplicaKind::kPowerSgd && !part->embedding) {
      ++own_lanes_;
      own_values_ += lane.bucket.part->values;
      std::vector<std::vector<std::size_t>> shapes;
      for (const auto& tensor : lane.bucket.part->tensors) shapes.push_back(tensor.shape);
      const compression::PowerSgdLayout layout(method_.power_sgd, shapes);
      factor_values_ += layout.first_values() + layout.second_values();
    }
    lanes_.push_back(std::move(lane));
  }
  return Status::Ok();
}

void GradientStep::OnFinalGradients(std::uint64_t step, std::size_t parts) {
  step_ = step;
  for (Lane& lane : lanes_) {
    if (!lane.begun && lane.bucket.final_after <= parts) Read(&lane);
  }
}

bool GradientStep::Guessed(const ReduceOrder& order) const {
  // All stages compare the whole list: those that share the embedding are in the same round.
  return order.pipelines.size() == core_->config.pipelines &&  // each is named once
         order.exact_stages == exact_stages_;
}

bool GradientStep::exact() const {
  return std::find(exact_stages_.begin(), exact_stages_.end(), core_->config.stage) !=
         exact_stages_.end();
}

void GradientStep::Reduce(const ReduceOrder& order, std::function<void(Result<double>)> done) {
  SHOAL_CHECK(!done_);
  order_ = order;
  done_ = std::move(done);
  step_ = order.step;
  lanes_left_ = lanes_.size();
  const bool guessed = Guessed(order);
  exact_stages_ = order.exact_stages;
  if (!early_error_.ok()) {
    return scope_.Post("gradients.failed", [this] { Finish(early_error_); });
  }
  if (lanes_.empty()) return ReadNorm();
  if (!guessed) {
    pipelines_ = order.pipelines;
    ++attempt_;
    measured_ = {};
    for (const auto& queue : queues_) queue->Restart();
  }
  for (Lane& lane : lanes_) {
    if (!lane.begun) {
      Read(&lane);
    } else if (attempt_ > 0) {
      lane.exchange->Rollback();
      lane.sum.reset();
      if (lane.own != nullptr) lane.queue->Ready(lane.number);
    } else if (lane.sum) {
      Write(&lane);
    }
  }
}

void GradientStep::Read(Lane* lane) {
  lane->begun = true;
  if (!lane->bucket.part->embedding) final_ = core_->deps.control->clock().Now();
  auto read = [model = core_->deps.model, part = lane->bucket.part,
               values = std::move(lane->spare)]() mutable -> Result<Buffer> {
    values = Sized(std::move(values), part->values * sizeof(float));
    SHOAL_RETURN_IF_ERROR(ReadPart(model, StateVector::kGradients, *part, values.floats()));
    return std::move(values);
  };
  scope_.Run(core_->deps.compute, "gradients.read", std::move(read),
             [this, lane](Result<Buffer> values) {
               if (!values.ok()) return Finish(values.status());
               lane->own = std::make_shared<Buffer>(std::move(*values));
               lane->queue->Ready(lane->number);
             });
}

void GradientStep::Exchange(Lane* lane) {
  core_->Progress();
  const ReplicaPart& part = *lane->bucket.part;
  collective::ExchangeRequest request;
  request.round = step_ * kRoundsPerStep + 1 + attempt_;
  // Gradients are sums over labels already: a pipeline that counts has weight 1.
  request.weights = PartWeights(part, pipelines_);
  request.shares = SharesOfPart(*core_, part, request.weights);
  CountRaw(part, request.weights, part.values, &core_->stats.replica, request.shares);
  request.values = lane->own;
  request.exact = exact();
  lane->exchange->Start(std::move(request), [this, lane, attempt = attempt_](Result<Buffer> sum) {
    if (attempt == attempt_) OnSum(lane, std::move(sum));
  });
}

void GradientStep::OnSum(Lane* lane, Result<Buffer> sum) {
  if (!sum.ok()) return Finish(sum.status());
  core_->Progress();
  // A second round is no measure of a first one.
  if (exact() && attempt_ == 0 && !lane->bucket.part->embedding && --own_left_ == 0) {
    const Duration took = core_->deps.control->clock().Now() - final_;
    measured_ = {Milliseconds(took), own_values_, factor_values_};
  }
  lane->sum = std::move(*sum);
  lane->queue->Ended(lane->number, lane->exchange->traffic().sent_bytes);
  if (done_) Write(lane);
}

void GradientStep::Write(Lane* lane) {
  auto write =
      [model = core_->deps.model, to = lane->bucket.part,
       sum = std::move(*std::exchange(lane->sum, std::nullopt))]() mutable -> Result<Buffer> {
    SHOAL_RETURN_IF_ERROR(
        WritePart(model, StateVector::kGradients, *to, std::as_const(sum).floats()));
    return std::move(sum);
  };
  scope_.Run(core_->deps.compute, "gradients.write", std::move(write),
             [this, lane](Result<Buffer> written) {
               if (!written.ok()) return Finish(written.status());
               lane->exchange->Recycle(std::move(*written));
               if (--lanes_left_ == 0) ReadNorm();
             });
}

void GradientStep::ReadNorm() {
  auto norm = [model = core_->deps.model] { return model->SquaredGradientNorm(1.0); };
  scope_.Run(core_->deps.compute, "gradients.norm", std::move(norm),
             [this](double squared) { Finish(squared); });
}

void GradientStep::Finish(Result<double> norm) {
  // Only the first of several errors counts.
  if (done_) {
    core_->stats.exchange = measured_;
    return std::exchange(done_, nullptr)(std::move(norm));
  }
  if (!norm.ok() && early_error_.ok()) early_error_ = norm.status();
}

void GradientStep::Apply(const ApplyOrder& order, std::function<void(Status)> done) {
  for (Lane& lane : lanes_) {
    lane.exchange->Commit();
    lane.begun = false;
    // Work of a round that was rolled back may still read it.
    if (lane.own != nullptr && attempt_ == 0) lane.spare = std::move(*lane.own);
    lane.own = nullptr;
  }
  for (const auto& queue : queues_) queue->Restart();
  attempt_ = 0;
  own_left_ = own_lanes_;
  measured_ = {};
  pipelines_.clear();
  for (std::uint32_t p = 0; p < core_->config.pipelines; ++p) pipelines_.push_back(p);
  auto apply = [model = core_->deps.model, order] {
    return model->Apply(order.step, 1.0 / static_cast<double>(order.labels), order.global_norm,
                        order.learning_rate);
  };
  scope_.Run(core_->deps.compute, "model.apply", std::move(apply), std::move(done));
}

std::string GradientStep::Awaited(const PeerId** peer) const {
  for (const Lane& lane : lanes_) {
    std::string text =
        AwaitedText(*links_, *lane.group, lane.exchange->Awaited(), "gradients", peer);
    if (!text.empty()) return text;
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<ReplicaStep>> NewGradientStep(ReplicaContext context) {
  auto step = std::make_unique<GradientStep>(std::move(context));
  SHOAL_RETURN_IF_ERROR(step->Init());
  return std::unique_ptr<ReplicaStep>(std::move(step));
}

}  // namespace shoal::pipeline
