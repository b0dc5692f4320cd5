// The sending half of activation_link.h.

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "common/checksum.h"
#include "common/log.h"
#include "common/trace.h"
#include "pipeline/activation_link.h"

namespace shoal::pipeline {
namespace {

// Gradients are decoded once more to know their error: not every message.
constexpr std::uint32_t kCountedGradients = 8;

struct Encoding {
  Status status;
  net::Frame frame;
  std::vector<MImage> images;
  compression::CodingStats stats;
  std::uint64_t deltas = 0;
  double ms = 0;
};

// What an encoding task owns.
struct EncodeTask {
  LaneConfig lane;
  compression::SampleShape shape;
  compression::RandomKey key;
  std::shared_ptr<const Buffer> values;
  std::vector<std::uint32_t> positions;
  std::vector<SampleId> samples;  // of the whole micro-batch, as `records`
  DeltaStage::Records records;    // empty: all are first visits
  compression::DeltaMode mode;
  bool counted;
  net::Frame frame;
  const Clock* clock;
};

Status EncodeSamples(EncodeTask* task, Encoding* result) {
  const compression::MessageCodec& codec = *task->lane.codec;
  const std::size_t count = task->shape.values();
  std::vector<compression::SampleToEncode> samples;
  for (const std::uint32_t position : task->positions) {
    const std::optional<storage::DeltaRecord>* const record =
        task->records.empty() ? nullptr : &task->records[position];
    const bool known = record != nullptr && record->has_value();
    samples.push_back({task->values->floats().subspan(position * count, count),
                       known ? (*record)->image.bytes() : std::span<const std::byte>()});
    net::FrameSample header;
    header.sample = task->samples[position];
    if (known && codec.keeps_m() && task->mode != compression::DeltaMode::kFull) {
      header.base_version = (*record)->version;
      header.base_checksum = (*record)->checksum;
      ++result->deltas;
    }
    result->frame.samples.push_back(header);
  }
  const bool keeps = codec.keeps_m() || codec.keeps_residual();
  std::vector<Buffer> next_m(keeps ? samples.size() : 0);
  SHOAL_ASSIGN_OR_RETURN(
      const std::size_t bytes,
      codec.Encode(samples, task->shape, task->key, task->mode, result->frame.payload.bytes(),
                   next_m, task->counted ? &result->stats : nullptr));
  for (std::size_t i = 0; i < next_m.size(); ++i) {
    const std::uint64_t checksum = Checksum64(next_m[i].bytes());
    result->images.push_back({task->positions[i], std::move(next_m[i]), checksum});
  }
  if (bytes < result->frame.payload.size() / 2) {
    // A queue of small messages should not hold the memory of large ones.
    result->frame.payload = Buffer::CopyOf(result->frame.payload.bytes().first(bytes));
  } else {
    result->frame.payload.Truncate(bytes);
  }
  return Status::Ok();
}

Encoding EncodeNow(EncodeTask* task) {
  const TimePoint start = task->clock->Now();
  const TimePoint traced = SystemClock().Now();
  Encoding result;
  result.frame = std::move(task->frame);
  result.frame.payload =
      Buffer(task->lane.codec->EncodedBytesMax(task->shape, task->positions.size()));
  result.status = EncodeSamples(task, &result);
  if (!result.status.ok()) return result;
  result.ms = Milliseconds(task->clock->Now() - start);
  TraceSpan(task->lane.forward() ? "act.encoded" : "grad.encoded", result.frame.micro_batch,
            traced);
  return result;
}

}  // namespace

SendLane::SendLane(RunnerCore* core, LaneConfig lane, DeltaStage* delta, BoundaryStats* seen,
                   Send send)
    : core_(core), lane_(std::move(lane)), delta_(delta), seen_(seen), send_(std::move(send)) {}

void SendLane::Go(ActivationSend* send, SendEvent event) {
  const std::optional<SendState> next = NextState(send->state, event);
  SHOAL_CHECK(next.has_value());
  send->state = *next;
}

Status SendLane::StartStep(const StepPlan& plan) {
  for (const ActivationSend& send : sends_) {
    if (send.state == SendState::kSent || send.state == SendState::kReleased) continue;
    return FailedPrecondition("step " + std::to_string(plan.step) + " starts before all of step " +
                              std::to_string(plan_.step) + " was sent");
  }
  plan_ = plan;
  sends_.clear();
  sends_.resize(plan.micro_batches.size());
  window_ = 0;
  return Status::Ok();
}

void SendLane::Advance(std::uint32_t window) {
  window = std::min<std::uint32_t>(window, sends_.size());
  for (; window_ < window; ++window_) {
    const std::uint32_t mb = window_;
    Go(&sends_[mb], SendEvent::kFetch);
    if (delta_ == nullptr) {
      Go(&sends_[mb], SendEvent::kFetched);
      continue;
    }
    delta_->Prefetch(Id(mb), plan_.micro_batches[mb].samples,
                     [this, mb](auto records) { Fetched(mb, std::move(records)); });
  }
}

void SendLane::Fetched(std::uint32_t mb, DeltaStage::Records records) {
  ActivationSend& send = sends_[mb];
  send.records = std::move(records);
  Go(&send, SendEvent::kFetched);
  if (send.state == SendState::kEncoding) {
    std::vector<std::uint32_t> all(plan_.micro_batches[mb].samples.size());
    std::iota(all.begin(), all.end(), 0u);
    Encode(mb, std::move(all));
  }
}

void SendLane::PutValues(std::uint32_t mb, Buffer values) {
  Advance(mb + 1);
  ActivationSend& send = sends_[mb];
  send.values = std::make_shared<const Buffer>(std::move(values));
  send.resent.assign(plan_.micro_batches[mb].samples.size(), false);
  Go(&send, SendEvent::kValues);
  if (send.state == SendState::kEncoding) {
    std::vector<std::uint32_t> all(send.resent.size());
    std::iota(all.begin(), all.end(), 0u);
    Encode(mb, std::move(all));
  }
}

void SendLane::Encode(std::uint32_t mb, std::vector<std::uint32_t> positions) {
  ActivationSend& send = sends_[mb];
  const MicroBatchPlan& plan = plan_.micro_batches[mb];
  EncodeTask task{.lane = lane_,
                  .shape = core_->shape(),
                  .key = lane_.Key(core_->config, plan_.step, plan.global_index),
                  .values = send.values,
                  .positions = std::move(positions),
                  .samples = plan.samples,
                  .records = std::exchange(send.records, {}),
                  .mode = guard_.mode(),
                  .counted = lane_.codec->keeps_m() || mb % kCountedGradients == 0,
                  .frame = core_->NewFrame(lane_.kind, Id(mb)),
                  .clock = &core_->deps.control->clock()};
  task.frame.codec = lane_.codec->spec();
  task.frame.tokens = task.shape.tokens;
  task.frame.hidden = task.shape.hidden;
  core_->scope.Run(
      core_->deps.codec, "encode", [task = std::move(task)]() mutable { return EncodeNow(&task); },
      [this, mb, mode = guard_.mode()](Encoding encoding) {
        if (!encoding.status.ok()) {
          return core_->fail(encoding.status.WithContext("cannot encode " + Describe(Id(mb))),
                             nullptr);
        }
        core_->stats.encode_ms += encoding.ms;
        Count(encoding.stats);
        if (lane_.codec->keeps_m()) {
          core_->stats.delta_hits += encoding.deltas;
          core_->stats.first_visits += encoding.images.size() - encoding.deltas;
          seen_->AddVisits(encoding.images.size(), encoding.deltas, mode);
        }
        Encoded(mb, std::move(encoding.frame), std::move(encoding.images));
      });
}

void SendLane::Count(const compression::CodingStats& stats) {
  (lane_.forward() ? core_->stats.forward_coding : core_->stats.backward_coding).Add(stats);
  if (stats.values > 0) {
    (lane_.forward() ? seen_->forward_error : seen_->backward_error).Add(stats.relative_error());
  }
  if (stats.based > 0) seen_->relative_delta.Add(stats.relative_delta());
  if (lane_.codec->guarded()) Guard(stats);
}

void SendLane::Guard(const compression::CodingStats& stats) {
  const compression::DeltaMode before = guard_.mode();
  guard_.Observe(stats);
  if (guard_.mode() == before) return;
  SHOAL_LOG(kInfo, "pipeline", "delta.mode", {"boundary", lane_.boundary},
            {"mode", compression::DeltaModeName(guard_.mode())},
            {"relative_delta", guard_.relative_delta()});
}

void SendLane::Encoded(std::uint32_t mb, net::Frame frame, std::vector<MImage> images) {
  ActivationSend& send = sends_[mb];
  Go(&send, SendEvent::kEncoded);
  for (MImage& image : images) {
    const SampleId sample = plan_.micro_batches[mb].samples[image.position];
    delta_->Stage(Id(mb), sample, std::move(image));
  }
  KindBytes& bytes = lane_.forward() ? core_->stats.forward : core_->stats.backward;
  bytes.raw_sent += frame.samples.size() * core_->shape().values() * sizeof(float);
  bytes.wire_sent += frame.payload.size();
  if (!lane_.codec->keeps_m()) send.values.reset();  // nobody can ask for it again
  Trace(lane_.forward() ? "act.sent" : "grad.sent", Id(mb));
  core_->Progress();
  if (Status sent = send_(std::move(frame)); !sent.ok()) {
    core_->fail(sent.WithContext("cannot send " + Describe(Id(mb))), nullptr);
  }
}

Status SendLane::OnResend(const net::Frame& frame) {
  const std::uint32_t mb = frame.micro_batch.index;
  const std::string what = "a request to send " + Describe(frame.micro_batch) + " again";
  if (!lane_.codec->keeps_m() || frame.micro_batch.step != plan_.step || mb >= sends_.size() ||
      !NextState(sends_[mb].state, SendEvent::kResend)) {
    return FailedPrecondition(what + " is out of place");
  }
  ActivationSend& send = sends_[mb];
  const std::vector<SampleId>& samples = plan_.micro_batches[mb].samples;
  std::vector<std::uint32_t> positions;
  std::size_t next = 0;  // samples are named in order
  for (const net::FrameSample& asked : frame.samples) {
    while (next < samples.size() && (samples[next] != asked.sample || send.resent[next])) ++next;
    if (next == samples.size()) {
      return InvalidArgument(what + " names sample " + std::to_string(asked.sample.value) +
                             ", which is not in it or was sent in full already");
    }
    positions.push_back(static_cast<std::uint32_t>(next++));
  }
  if (positions.empty()) return InvalidArgument(what + " names no sample");
  for (const std::uint32_t position : positions) send.resent[position] = true;
  core_->stats.resends += positions.size();
  seen_->resends += positions.size();
  Go(&send, SendEvent::kResend);
  Encode(mb, std::move(positions));
  return Status::Ok();
}

Status SendLane::Release(std::uint32_t mb) {
  if (mb >= sends_.size() || !NextState(sends_[mb].state, SendEvent::kRelease)) {
    return FailedPrecondition("a gradient of " + Describe(Id(mb)) +
                              " came before its activation was sent");
  }
  Go(&sends_[mb], SendEvent::kRelease);
  sends_[mb].values.reset();
  return Status::Ok();
}

}  // namespace shoal::pipeline
