#include "pipeline/boundary/boundary_sender.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "common/trace.h"

namespace shoal::pipeline {
namespace {

// Gradients are decoded once more to know their error: not every message.
constexpr std::uint32_t kCountedGradients = 8;

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
      send_(std::move(send)),
      stats_(direction_, resources.stats, seen) {
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
  plan_ = plan;
  stats_.StartStep(plan.micro_batches.size());
  sends_.clear();
  sends_.resize(plan.micro_batches.size() * direction_.segments.count);
  micro_batches_.clear();
  micro_batches_.resize(plan.micro_batches.size());
  window_ = releases_ = 0;
  log_.StartStep(plan.step, plan.micro_batches.size(), direction_.segments.count);
  return Status::Ok();
}

void BoundarySender::ExtendStep(const StepPlan& plan) {
  SHOAL_ASSERT_ON(generation_->control());
  plan_ = plan;
  stats_.ExtendStep(plan.micro_batches.size());
  log_.ExtendStep(plan.micro_batches.size());
  sends_.resize(plan.micro_batches.size() * direction_.segments.count);
  micro_batches_.resize(plan.micro_batches.size());
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
  stats_.Begin(mb, samples);
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
                  .mode = stats_.mode(),
                  .counted = direction_.codec->keeps_m() || mb % kCountedGradients == 0,
                  .frame = resources_.links->NewFrame(direction_.kind, Id(mb)),
                  .clock = &generation_->clock()};
  if (memory_ != nullptr) {
    task.before = memory_->newest();
    task.activations = memory_->TakeActivations(mb);
    task.position = direction_.Position(micro_batches_.size(), mb);
    task.counted |= compression::InEpilogue(task.position);
  }
  task.keep = direction_.logged && log_.keeps(mb);
  task.frame.tag = segment;
  task.frame.codec = direction_.codec->spec();
  task.frame.tokens = direction_.segments.shape.tokens;
  task.frame.hidden = direction_.segments.shape.hidden;
  generation_->scope().Run(
      resources_.codec, "encode",
      [task = std::move(task), watch = generation_->watch(), id = Id(mb)]() mutable {
        const WatchedSpan span(watch, Watched::kEncode, id);
        return EncodeNow(&task);
      },
      [this, mb, segment, again](Encoding encoding) {
        if (!encoding.status.ok()) {
          return generation_->Fail(
              encoding.status.WithContext("cannot encode " + Describe(Id(mb))));
        }
        resources_.stats->encode_ms += encoding.ms;
        if (encoding.lost) resources_.mark->Set();
        if (memory_ != nullptr) EncodedOnLink(std::move(encoding.next), encoding.frame);
        CountEncoded(mb, segment, encoding, again);
        if (direction_.logged) log_.Add(mb, segment, encoding.digest, std::move(encoding.kept));
        Encoded(mb, std::move(encoding.frame), std::move(encoding.images));
      });
}

void BoundarySender::CountEncoded(std::uint32_t mb, std::uint32_t segment, const Encoding& encoding,
                                  std::optional<std::uint64_t> again) {
  if (again) return stats_.AddAgain(*again, encoding.stats);
  const bool whole = stats_.Add(mb, segment, encoding.stats, encoding.without_m);
  // Without m nobody can ask for it again.
  if (whole && !direction_.codec->keeps_m()) micro_batches_[mb].values.reset();
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
  seen_->Visits(direction_.forward())->resends += again;
  Go(&send, SendEvent::kResend);
  Encode(mb, segment, std::move(positions), again);
  return Status::Ok();
}

Status BoundarySender::Release(std::uint32_t mb) {
  SHOAL_ASSERT_ON(generation_->control());
  bool released = false;
  for (std::uint32_t k = 0; k < direction_.segments.count; ++k) {
    if (mb < micro_batches_.size() && At(mb, k).state == SendState::kReleased) continue;
    if (mb >= micro_batches_.size() || !NextState(At(mb, k).state, SendEvent::kRelease)) {
      return FailedPrecondition((direction_.forward() ? "a gradient of " : "the receipt of ") +
                                Describe(Id(mb)) + " came before it was sent");
    }
    Go(&At(mb, k), SendEvent::kRelease);
    released = true;
  }
  if (released) ++releases_;
  micro_batches_[mb].values.reset();
  return Status::Ok();
}

bool BoundarySender::released(std::uint32_t mb) const {
  SHOAL_ASSERT_ON(generation_->control());
  for (std::uint32_t k = 0; k < direction_.segments.count; ++k) {
    const SendState state = sends_[direction_.segments.Transfer(mb, k)].state;
    if (state != SendState::kReleased) return false;
  }
  return true;
}

}  // namespace shoal::pipeline
