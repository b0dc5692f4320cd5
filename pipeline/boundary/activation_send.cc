// The sending half of activation_link.h.

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "common/checksum.h"
#include "common/log.h"
#include "common/trace.h"
#include "pipeline/boundary/activation_link.h"

namespace shoal::pipeline {
namespace {

// Gradients are decoded once more to know their error: not every message.
constexpr std::uint32_t kCountedGradients = 8;

struct Encoding {
  Status status;
  net::Frame frame;
  std::vector<MImage> images;
  compression::CodingStats stats;
  std::vector<std::uint32_t> without_m;  // positions
  LinkMemory::State next;                // of a stateful codec
  double ms = 0;
};

// What an encoding task owns.
struct EncodeTask {
  DirectionConfig direction;
  std::uint32_t segment;
  compression::RandomKey key;
  std::shared_ptr<const Buffer> values;
  std::vector<std::uint32_t> positions;
  std::vector<SampleId> samples;   // of the whole micro-batch, as `records`
  BoundaryCache::Records records;  // empty: all are first visits
  compression::DeltaMode mode;
  bool counted;
  net::Frame frame;
  const Clock* clock;
  LinkMemory::State before{};  // of a stateful codec; else null
  std::vector<float> activations{};
  compression::LinkPosition position{};
};

// A queue of small messages should not hold the memory of large ones.
void Shorten(Buffer* payload, std::size_t bytes) {
  if (bytes < payload->size() / 2) {
    *payload = Buffer::CopyOf(payload->bytes().first(bytes));
  } else {
    payload->Truncate(bytes);
  }
}

Status EncodeOnLink(EncodeTask* task, Encoding* result) {
  const std::size_t count = task->direction.segments.shape.values();
  std::vector<std::span<const float>> samples;
  for (const std::uint32_t position : task->positions) {
    samples.push_back(task->values->floats().subspan(position * count, count));
    net::FrameSample header;
    header.sample = task->samples[position];
    result->frame.samples.push_back(header);
  }
  const auto next = std::make_shared<compression::LowRankState>();
  SHOAL_ASSIGN_OR_RETURN(
      const std::size_t bytes,
      task->direction.codec->stateful()->EncodeOnLink(
          {samples, task->direction.segments.shape, task->key, task->position, task->activations},
          *task->before, result->frame.payload.bytes(), next.get(),
          task->counted ? &result->stats : nullptr));
  result->next = next;
  result->without_m = task->positions;
  Shorten(&result->frame.payload, bytes);
  return Status::Ok();
}

Status EncodeSamples(EncodeTask* task, Encoding* result) {
  const compression::MessageCodec& codec = *task->direction.codec;
  const compression::SampleShape shape = task->direction.segments.shape;
  const std::size_t count = shape.values();
  std::vector<compression::SampleToEncode> samples;
  for (const std::uint32_t position : task->positions) {
    const std::optional<storage::DeltaRecord>* const record =
        task->records.empty() ? nullptr : &task->records[position];
    const bool known = record != nullptr && record->has_value();
    const std::size_t at = task->direction.segments.Transfer(position, task->segment) * count;
    samples.push_back({task->values->floats().subspan(at, count),
                       known ? (*record)->image.bytes() : std::span<const std::byte>()});
    net::FrameSample header;
    header.sample = task->samples[position];
    if (known && codec.keeps_m() && task->mode != compression::DeltaMode::kFull) {
      header.base_version = (*record)->version;
      header.base_checksum = (*record)->checksum;
    } else {
      result->without_m.push_back(position);
    }
    result->frame.samples.push_back(header);
  }
  const bool keeps = codec.keeps_m() || codec.keeps_residual();
  std::vector<Buffer> next_m(keeps ? samples.size() : 0);
  SHOAL_ASSIGN_OR_RETURN(
      const std::size_t bytes,
      codec.Encode(samples, shape, task->key, task->mode, result->frame.payload.bytes(), next_m,
                   task->counted ? &result->stats : nullptr));
  for (std::size_t i = 0; i < next_m.size(); ++i) {
    const std::uint64_t checksum = Checksum64(next_m[i].bytes());
    result->images.push_back({task->positions[i], std::move(next_m[i]), checksum});
  }
  Shorten(&result->frame.payload, bytes);
  return Status::Ok();
}

Encoding EncodeNow(EncodeTask* task) {
  const TimePoint start = task->clock->Now();
  const TimePoint traced = TraceStart();
  Encoding result;
  result.frame = std::move(task->frame);
  result.frame.payload = Buffer(task->direction.codec->EncodedBytesMax(
      task->direction.segments.shape, task->positions.size()));
  result.status =
      task->before != nullptr ? EncodeOnLink(task, &result) : EncodeSamples(task, &result);
  if (!result.status.ok()) return result;
  result.ms = Milliseconds(task->clock->Now() - start);
  TraceSpan(task->direction.forward() ? "act.encoded" : "grad.encoded", result.frame.micro_batch,
            traced, task->segment);
  return result;
}

}  // namespace

BoundarySender::BoundarySender(const TransferResources& resources, DirectionConfig direction,
                               BoundaryCache* delta, LinkMemory* memory, BoundaryStats* seen,
                               Send send)
    : resources_(resources),
      generation_(resources.generation),
      direction_(std::move(direction)),
      delta_(delta),
      memory_(memory),
      seen_(seen),
      send_(std::move(send)) {
  SHOAL_CHECK(memory_ == nullptr || (delta_ == nullptr && direction_.segments.count == 1));
}

void BoundarySender::Go(ActivationSend* send, SendEvent event) {
  const std::optional<SendState> next = NextState(send->state, event);
  SHOAL_CHECK(next.has_value());
  send->state = *next;
}

Status BoundarySender::StartStep(const StepPlan& plan) {
  SHOAL_ASSERT_ON(generation_->control());
  for (const ActivationSend& send : sends_) {
    if (send.state == SendState::kSent || send.state == SendState::kReleased) continue;
    return FailedPrecondition("step " + std::to_string(plan.step) + " starts before all of step " +
                              std::to_string(plan_.step) + " was sent");
  }
  if (direction_.codec->guarded()) ChooseMode();
  plan_ = plan;
  sends_.clear();
  sends_.resize(plan.micro_batches.size() * direction_.segments.count);
  micro_batches_.clear();
  micro_batches_.resize(plan.micro_batches.size());
  window_ = 0;
  return Status::Ok();
}

void BoundarySender::Advance(std::uint32_t window) {
  SHOAL_ASSERT_ON(generation_->control());
  window = std::min<std::uint32_t>(window, micro_batches_.size());
  for (; window_ < window; ++window_) {
    for (std::uint32_t k = 0; k < direction_.segments.count; ++k) Fetch(window_, k);
  }
}

void BoundarySender::Fetch(std::uint32_t mb, std::uint32_t segment) {
  Go(&At(mb, segment), SendEvent::kFetch);
  if (delta_ == nullptr) return Go(&At(mb, segment), SendEvent::kFetched);
  delta_->Prefetch(Id(mb), segment, plan_.micro_batches[mb].samples,
                   [this, mb, segment](auto records) { Fetched(mb, segment, std::move(records)); });
}

void BoundarySender::Fetched(std::uint32_t mb, std::uint32_t segment,
                             BoundaryCache::Records records) {
  ActivationSend& send = At(mb, segment);
  send.records = std::move(records);
  Go(&send, SendEvent::kFetched);
  if (send.state == SendState::kEncoding) EncodeAll(mb, segment);
}

void BoundarySender::PutValues(std::uint32_t mb, Buffer values) {
  SHOAL_ASSERT_ON(generation_->control());
  Advance(mb + 1);
  const std::size_t samples = plan_.micro_batches[mb].samples.size();
  SentMicroBatch& micro_batch = micro_batches_[mb];
  micro_batch.values = std::make_shared<const Buffer>(std::move(values));
  micro_batch.mode = guard_.mode();
  micro_batch.visits = SegmentedVisits(samples, direction_.segments.count);
  micro_batch.resent.assign(samples, false);
  for (std::uint32_t k = 0; k < direction_.segments.count; ++k) {
    ActivationSend& send = At(mb, k);
    send.resent.assign(samples, false);
    Go(&send, SendEvent::kValues);
    if (send.state != SendState::kEncoding) continue;
    if (memory_ == nullptr) {
      EncodeAll(mb, k);
    } else {
      waiting_.push_back(mb);
    }
  }
  EncodeNextOnLink();
}

// Each message begins where the one before ended.
void BoundarySender::EncodeNextOnLink() {
  if (encoding_on_link_ || waiting_.empty()) return;
  encoding_on_link_ = true;
  const std::uint32_t mb = waiting_.front();
  waiting_.pop_front();
  EncodeAll(mb, 0);
}

void BoundarySender::EncodedOnLink(LinkMemory::State next, const net::Frame& frame) {
  encoding_on_link_ = false;
  const compression::StatefulCodec& codec = *direction_.codec->stateful();
  seen_->AddGradients(frame, direction_.segments.shape.values(), codec);
  seen_->low_rank->AddMemory(next->lazy, codec);
  memory_->Stage(std::move(next));
  EncodeNextOnLink();
}

void BoundarySender::EncodeAll(std::uint32_t mb, std::uint32_t segment) {
  std::vector<std::uint32_t> all(plan_.micro_batches[mb].samples.size());
  std::iota(all.begin(), all.end(), 0u);
  Encode(mb, segment, std::move(all), std::nullopt);
}

void BoundarySender::Encode(std::uint32_t mb, std::uint32_t segment,
                            std::vector<std::uint32_t> positions,
                            std::optional<std::uint64_t> again) {
  const MicroBatchPlan& plan = plan_.micro_batches[mb];
  EncodeTask task{.direction = direction_,
                  .segment = segment,
                  .key = direction_.Key(plan_.step, plan.global_index, segment),
                  .values = micro_batches_[mb].values,
                  .positions = std::move(positions),
                  .samples = plan.samples,
                  .records = std::exchange(At(mb, segment).records, {}),
                  .mode = micro_batches_[mb].mode,
                  .counted = direction_.codec->keeps_m() || mb % kCountedGradients == 0,
                  .frame = resources_.links->NewFrame(direction_.kind, Id(mb)),
                  .clock = &generation_->clock()};
  if (memory_ != nullptr) {
    task.before = memory_->newest();
    task.activations = memory_->TakeActivations(mb);
    task.position = direction_.Position(micro_batches_.size(), mb);
    task.counted |= compression::InEpilogue(task.position);
  }
  task.frame.tag = segment;
  task.frame.codec = direction_.codec->spec();
  task.frame.tokens = direction_.segments.shape.tokens;
  task.frame.hidden = direction_.segments.shape.hidden;
  generation_->scope().Run(
      resources_.codec, "encode", [task = std::move(task)]() mutable { return EncodeNow(&task); },
      [this, mb, segment, again](Encoding encoding) {
        if (!encoding.status.ok()) {
          return generation_->Fail(
              encoding.status.WithContext("cannot encode " + Describe(Id(mb))));
        }
        resources_.stats->encode_ms += encoding.ms;
        if (memory_ != nullptr) EncodedOnLink(std::move(encoding.next), encoding.frame);
        CountEncoded(mb, segment, encoding.stats, encoding.without_m, again);
        Encoded(mb, std::move(encoding.frame), std::move(encoding.images));
      });
}

// What is measured is said of micro-batches: their segments are added up. What is sent again counts
// by itself.
void BoundarySender::CountEncoded(std::uint32_t mb, std::uint32_t segment,
                                  const compression::CodingStats& stats,
                                  const std::vector<std::uint32_t>& without_m,
                                  std::optional<std::uint64_t> again) {
  SentMicroBatch& micro_batch = micro_batches_[mb];
  if (again) {
    Count(stats);
    if (*again > 0) AddVisits(*again, 0, micro_batch.mode);
    return;
  }
  At(mb, segment).stats = stats;
  micro_batch.stats.Add(stats);
  if (!micro_batch.visits.Add(without_m)) return;
  Count(micro_batch.stats);
  AddVisits(micro_batch.visits.samples(), micro_batch.visits.deltas(), micro_batch.mode);
  if (!direction_.codec->keeps_m()) micro_batch.values.reset();  // nobody can ask for it again
}

void BoundarySender::AddVisits(std::uint64_t samples, std::uint64_t deltas,
                               compression::DeltaMode mode) {
  if (!direction_.codec->keeps_m()) return;
  resources_.stats->delta_hits += deltas;
  resources_.stats->first_visits += samples - deltas;
  seen_->AddVisits(samples, deltas, mode);
}

void BoundarySender::Count(const compression::CodingStats& stats) {
  (direction_.forward() ? resources_.stats->forward_coding : resources_.stats->backward_coding)
      .Add(stats);
  if (stats.values > 0) {
    (direction_.forward() ? seen_->forward_error : seen_->backward_error)
        .Add(stats.relative_error());
  }
  if (stats.based > 0) seen_->relative_delta.Add(stats.relative_delta());
}

// For a whole step, from what the step before counted, in order: so a run does not depend on which
// encodings happened to be done when.
void BoundarySender::ChooseMode() {
  const compression::DeltaMode before = guard_.mode();
  for (std::uint32_t mb = 0; mb < micro_batches_.size(); ++mb) {
    compression::CodingStats stats;
    for (std::uint32_t k = 0; k < direction_.segments.count; ++k) stats.Add(At(mb, k).stats);
    guard_.Observe(stats);
  }
  if (guard_.mode() == before) return;
  SHOAL_LOG(kInfo, "pipeline", "delta.mode", {"boundary", direction_.boundary},
            {"mode", compression::DeltaModeName(guard_.mode())},
            {"relative_delta", guard_.relative_delta()});
}

void BoundarySender::Encoded(std::uint32_t mb, net::Frame frame, std::vector<MImage> images) {
  const auto segment = static_cast<std::uint32_t>(frame.tag);
  Go(&At(mb, segment), SendEvent::kEncoded);
  for (MImage& image : images) {
    const SampleId sample = plan_.micro_batches[mb].samples[image.position];
    delta_->Stage(Id(mb), segment, sample, std::move(image));
  }
  replica::KindBytes& bytes =
      direction_.forward() ? resources_.stats->forward : resources_.stats->backward;
  bytes.raw_sent += frame.samples.size() * direction_.segments.shape.values() * sizeof(float);
  bytes.wire_sent += frame.payload.size();
  Trace(direction_.forward() ? "act.sent" : "grad.sent", Id(mb), segment);
  generation_->Progress();
  if (Status sent = send_(std::move(frame)); !sent.ok()) {
    generation_->Fail(sent.WithContext("cannot send " + Describe(Id(mb))));
  }
}

Status BoundarySender::OnResend(const net::Frame& frame) {
  SHOAL_ASSERT_ON(generation_->control());
  const std::uint32_t mb = frame.micro_batch.index;
  const std::string what = "a request to send " + Describe(frame.micro_batch) + " again";
  SHOAL_ASSIGN_OR_RETURN(const std::uint32_t segment, SegmentOf(frame, direction_));
  if (!direction_.codec->keeps_m() || frame.micro_batch.step != plan_.step ||
      mb >= micro_batches_.size() || !NextState(At(mb, segment).state, SendEvent::kResend)) {
    return FailedPrecondition(what + " is out of place");
  }
  ActivationSend& send = At(mb, segment);
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
  std::uint64_t again = 0;
  for (const std::uint32_t position : positions) {
    send.resent[position] = true;
    if (!micro_batches_[mb].resent[position]) ++again;
    micro_batches_[mb].resent[position] = true;
  }
  resources_.stats->resends += again;
  seen_->resends += again;
  Go(&send, SendEvent::kResend);
  Encode(mb, segment, std::move(positions), again);
  return Status::Ok();
}

Status BoundarySender::Release(std::uint32_t mb) {
  SHOAL_ASSERT_ON(generation_->control());
  for (std::uint32_t k = 0; k < direction_.segments.count; ++k) {
    if (mb < micro_batches_.size() && At(mb, k).state == SendState::kReleased) continue;
    if (mb >= micro_batches_.size() || !NextState(At(mb, k).state, SendEvent::kRelease)) {
      return FailedPrecondition("a gradient of " + Describe(Id(mb)) +
                                " came before its activation was sent");
    }
    Go(&At(mb, k), SendEvent::kRelease);
  }
  micro_batches_[mb].values.reset();
  return Status::Ok();
}

}  // namespace shoal::pipeline
