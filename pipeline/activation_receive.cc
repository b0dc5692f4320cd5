// The receiving half of activation_link.h.

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "common/checksum.h"
#include "common/trace.h"
#include "pipeline/activation_link.h"

namespace shoal::pipeline {
namespace {

struct Decoding {
  Status status;
  Buffer values;
  std::vector<MImage> images;
  std::uint64_t deltas = 0;
  compression::DeltaMode mode = compression::DeltaMode::kDelta;
  double ms = 0;
};

// What a decoding task owns.
struct DecodeTask {
  LaneConfig lane;
  compression::SampleShape shape;
  compression::RandomKey key;
  MicroBatchId id;
  std::vector<std::shared_ptr<const net::Frame>> frames;
  std::size_t rows;                    // of the micro-batch
  std::vector<std::uint32_t> missing;  // positions that the second frame holds
  DeltaStage::Records records;         // empty: the codec keeps no m
  const Clock* clock;
};

// Decodes the samples at `positions`, which `frame` carries in this order, without those at
// `without`.
Status DecodeFrame(DecodeTask* task, const net::Frame& frame,
                   std::span<const std::uint32_t> positions, std::span<const std::uint32_t> without,
                   Decoding* result) {
  const std::size_t count = task->shape.values();
  std::vector<compression::SampleToDecode> samples(positions.size());
  for (std::size_t i = 0; i < positions.size(); ++i) {
    samples[i].delta = frame.samples[i].base_version != 0;
    if (std::find(without.begin(), without.end(), positions[i]) != without.end()) continue;
    samples[i].values = result->values.floats().subspan(positions[i] * count, count);
    if (!samples[i].delta) continue;
    samples[i].m = task->records[positions[i]]->image.bytes();
    ++result->deltas;
  }
  std::vector<Buffer> next_m(task->lane.codec->keeps_m() ? samples.size() : 0);
  SHOAL_RETURN_IF_ERROR(
      task->lane.codec->Decode(frame.payload.bytes(), samples, task->shape, task->key, next_m));
  result->mode = task->lane.codec->SentMode(frame.payload.bytes());
  for (std::size_t i = 0; i < next_m.size(); ++i) {
    if (samples[i].values.empty()) continue;
    const std::uint64_t checksum = Checksum64(next_m[i].bytes());
    result->images.push_back({positions[i], std::move(next_m[i]), checksum});
  }
  return Status::Ok();
}

Status DecodeFrames(DecodeTask* task, Decoding* result) {
  std::vector<std::uint32_t> all(task->rows);
  std::iota(all.begin(), all.end(), 0u);
  SHOAL_RETURN_IF_ERROR(DecodeFrame(task, *task->frames[0], all, task->missing, result));
  if (task->missing.empty()) return Status::Ok();
  return DecodeFrame(task, *task->frames[1], task->missing, {}, result);
}

Decoding DecodeNow(DecodeTask* task) {
  const TimePoint start = task->clock->Now();
  const TimePoint traced = SystemClock().Now();
  Decoding result;
  result.values = Buffer(task->rows * task->shape.values() * sizeof(float));
  result.status = DecodeFrames(task, &result);
  if (!result.status.ok()) return result;
  result.ms = Milliseconds(task->clock->Now() - start);
  TraceSpan(task->lane.forward() ? "act.decoded" : "grad.decoded", task->id, traced);
  return result;
}

}  // namespace

ReceiveLane::ReceiveLane(RunnerCore* core, LaneConfig lane, DeltaStage* delta, BoundaryStats* seen,
                         Handlers handlers)
    : core_(core),
      lane_(std::move(lane)),
      delta_(delta),
      seen_(seen),
      handlers_(std::move(handlers)) {}

void ReceiveLane::Go(ActivationReceive* receive, ReceiveEvent event) {
  const std::optional<ReceiveState> next = NextState(receive->state, event);
  SHOAL_CHECK(next.has_value());
  receive->state = *next;
}

Status ReceiveLane::StartStep(const StepPlan& plan) {
  for (const ActivationReceive& receive : receives_) {
    if (receive.state == ReceiveState::kTaken) continue;
    return FailedPrecondition("step " + std::to_string(plan.step) + " starts before all of step " +
                              std::to_string(plan_.step) + " was received");
  }
  plan_ = plan;
  receives_.clear();
  receives_.resize(plan.micro_batches.size());
  window_ = 0;
  ready_ = 0;
  return Status::Ok();
}

void ReceiveLane::Advance(std::uint32_t window) {
  window = std::min<std::uint32_t>(window, receives_.size());
  while (window_ < window) Fetch(window_++);
}

void ReceiveLane::Fetch(std::uint32_t mb) {
  Go(&receives_[mb], ReceiveEvent::kFetch);
  const auto fetched = [this, mb](DeltaStage::Records records) {
    ActivationReceive& receive = receives_[mb];
    receive.records = std::move(records);
    Go(&receive, ReceiveEvent::kFetched);
    if (receive.state == ReceiveState::kMatching) Match(mb);
  };
  if (delta_ == nullptr) return fetched({});
  delta_->Prefetch(Id(mb), plan_.micro_batches[mb].samples, fetched);
}

Status ReceiveLane::OnFrame(net::Frame frame) {
  const std::uint32_t mb = frame.micro_batch.index;
  if (frame.micro_batch.step != plan_.step || mb >= receives_.size()) {
    return InvalidArgument(Describe(frame.micro_batch) + " is not in the plan");
  }
  ActivationReceive& receive = receives_[mb];
  if (!NextState(receive.state, ReceiveEvent::kFrame)) {
    return InvalidArgument(Describe(frame.micro_batch) + " came a second time");
  }
  const MicroBatchPlan& plan = plan_.micro_batches[mb];
  std::vector<std::uint32_t> positions = receive.missing;
  if (receive.frames.empty()) {
    positions.resize(plan.samples.size());
    std::iota(positions.begin(), positions.end(), 0u);
  }
  SHOAL_RETURN_IF_ERROR(CheckTransfer(frame, lane_, core_->config, plan, positions));
  Trace(lane_.forward() ? "act.received" : "grad.received", frame.micro_batch);
  KindBytes& bytes = lane_.forward() ? core_->stats.forward : core_->stats.backward;
  bytes.raw_received += positions.size() * core_->shape().values() * sizeof(float);
  bytes.wire_received += frame.payload.size();
  receive.frames.push_back(std::make_shared<const net::Frame>(std::move(frame)));
  Go(&receive, ReceiveEvent::kFrame);
  if (receive.state == ReceiveState::kMatching) Match(mb);
  handlers_.on_ready();
  return Status::Ok();
}

void ReceiveLane::Match(std::uint32_t mb) {
  ActivationReceive& receive = receives_[mb];
  const bool again = !receive.missing.empty();
  const std::vector<net::FrameSample>& headers = receive.frames.back()->samples;
  std::vector<std::uint32_t> differing;
  for (std::uint32_t i = 0; i < headers.size(); ++i) {
    const net::FrameSample& header = headers[i];
    const std::uint32_t position = again ? receive.missing[i] : i;
    if (header.base_version == 0) continue;
    const std::optional<storage::DeltaRecord>& own = receive.records[position];
    if (!own || own->version != header.base_version || own->checksum != header.base_checksum) {
      differing.push_back(position);
    }
  }
  if (differing.empty()) {
    Go(&receive, ReceiveEvent::kMatch);
    return Decode(mb);
  }
  if (again) {
    return handlers_.on_bad(InvalidArgument("what was sent again of " + Describe(Id(mb)) +
                                            " builds on an earlier activation once more"));
  }
  Go(&receive, ReceiveEvent::kMismatch);
  AskAgain(mb, std::move(differing));
}

void ReceiveLane::AskAgain(std::uint32_t mb, std::vector<std::uint32_t> positions) {
  net::Frame request = core_->NewFrame(net::FrameKind::kResend, Id(mb));
  request.codec = lane_.codec->spec();
  request.tokens = core_->config.row_tokens;
  request.hidden = core_->config.hidden;
  for (const std::uint32_t position : positions) {
    net::FrameSample sample;
    sample.sample = plan_.micro_batches[mb].samples[position];
    request.samples.push_back(sample);
  }
  core_->stats.resends += positions.size();
  seen_->resends += positions.size();
  receives_[mb].missing = std::move(positions);
  if (Status sent = handlers_.send(std::move(request)); !sent.ok()) {
    core_->fail(sent.WithContext("cannot ask for " + Describe(Id(mb)) + " again"), nullptr);
  }
}

void ReceiveLane::Decode(std::uint32_t mb) {
  ActivationReceive& receive = receives_[mb];
  const MicroBatchPlan& plan = plan_.micro_batches[mb];
  DecodeTask task{.lane = lane_,
                  .shape = core_->shape(),
                  .key = lane_.Key(core_->config, plan_.step, plan.global_index),
                  .id = Id(mb),
                  .frames = std::exchange(receive.frames, {}),
                  .rows = plan.samples.size(),
                  .missing = std::exchange(receive.missing, {}),
                  .records = std::exchange(receive.records, {}),
                  .clock = &core_->deps.control->clock()};
  core_->scope.Run(
      core_->deps.codec, "decode", [task = std::move(task)]() mutable { return DecodeNow(&task); },
      [this, mb](Decoding decoding) {
        if (!decoding.status.ok()) {
          return handlers_.on_bad(decoding.status.WithContext("cannot decode " + Describe(Id(mb))));
        }
        core_->stats.decode_ms += decoding.ms;
        if (delta_ != nullptr) {
          core_->stats.delta_hits += decoding.deltas;
          core_->stats.first_visits += decoding.images.size() - decoding.deltas;
          seen_->AddVisits(decoding.images.size(), decoding.deltas, decoding.mode);
        }
        Decoded(mb, std::move(decoding.values), std::move(decoding.images));
      });
}

void ReceiveLane::Decoded(std::uint32_t mb, Buffer values, std::vector<MImage> images) {
  Go(&receives_[mb], ReceiveEvent::kDecoded);
  receives_[mb].values = std::move(values);
  for (MImage& image : images) {
    const SampleId sample = plan_.micro_batches[mb].samples[image.position];
    delta_->Stage(Id(mb), sample, std::move(image));
  }
  while (ready_ < receives_.size() && (receives_[ready_].state == ReceiveState::kDecoded ||
                                       receives_[ready_].state == ReceiveState::kTaken)) {
    ++ready_;
  }
  core_->Progress();
  handlers_.on_ready();
}

std::optional<Use> ReceiveLane::HeldUpBy(std::uint32_t mb) const {
  switch (receives_[mb].state) {
    case ReceiveState::kIdle:
    case ReceiveState::kFetching:
    case ReceiveState::kFetched:
    case ReceiveState::kResendAsked: return std::nullopt;
    case ReceiveState::kFrameHeld:
    case ReceiveState::kFetchingWithFrame: return Use::kStore;
    case ReceiveState::kMatching:
    case ReceiveState::kDecoding:
    case ReceiveState::kDecoded:
    case ReceiveState::kTaken: return Use::kCodec;
  }
  return std::nullopt;
}

Buffer ReceiveLane::Take(std::uint32_t mb) {
  Go(&receives_[mb], ReceiveEvent::kTake);
  return std::move(receives_[mb].values);
}

}  // namespace shoal::pipeline
