#include "pipeline/boundary/boundary_receiver.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "common/trace.h"
#include "pipeline/boundary/link_memory.h"

namespace shoal::pipeline {

BoundaryReceiver::BoundaryReceiver(const TransferResources& resources, DirectionConfig direction,
                                   BoundaryCache* delta, BoundaryStats* seen, Handlers handlers)
    : resources_(resources),
      generation_(resources.generation),
      direction_(std::move(direction)),
      delta_(delta),
      seen_(seen),
      handlers_(std::move(handlers)) {}

void BoundaryReceiver::Go(ActivationReceive* receive, ReceiveEvent event) {
  const std::optional<ReceiveState> next = NextState(receive->state, event);
  SHOAL_CHECK(next.has_value());
  receive->state = *next;
}

Status BoundaryReceiver::StartStep(const StepPlan& plan) {
  SHOAL_ASSERT_ON(generation_->control());
  for (const ActivationReceive& receive : receives_) {
    if (receive.state == ReceiveState::kTaken) continue;
    return FailedPrecondition("step " + std::to_string(plan.step) + " starts before all of step " +
                              std::to_string(plan_.step) + " was received");
  }
  receives_.clear();
  micro_batches_.clear();
  log_.StartStep(plan.step, 0, direction_.segments.count);
  ExtendStep(plan);
  window_ = 0;
  ready_ = 0;
  return Status::Ok();
}

void BoundaryReceiver::ExtendStep(const StepPlan& plan) {
  SHOAL_ASSERT_ON(generation_->control());
  plan_ = plan;
  log_.ExtendStep(plan.micro_batches.size());
  receives_.resize(plan.micro_batches.size() * direction_.segments.count);
  for (std::size_t mb = micro_batches_.size(); mb < plan.micro_batches.size(); ++mb) {
    const std::size_t samples = plan.micro_batches[mb].samples.size();
    micro_batches_.push_back(
        {nullptr, SegmentedVisits(samples, direction_.segments.count), std::vector<bool>(samples)});
  }
}

void BoundaryReceiver::Advance(std::uint32_t window) {
  SHOAL_ASSERT_ON(generation_->control());
  window = std::min<std::uint32_t>(window, micro_batches_.size());
  for (; window_ < window; ++window_) {
    for (std::uint32_t k = 0; k < direction_.segments.count; ++k) Fetch(window_, k);
  }
}

void BoundaryReceiver::Fetch(std::uint32_t mb, std::uint32_t segment) {
  Go(&At(mb, segment), ReceiveEvent::kFetch);
  const auto fetched = [this, mb, segment](BoundaryCache::Records records) {
    ActivationReceive& receive = At(mb, segment);
    receive.records = std::move(records);
    Go(&receive, ReceiveEvent::kFetched);
    if (receive.state == ReceiveState::kMatching) Match(mb, segment);
  };
  if (delta_ == nullptr) return fetched({});
  delta_->Prefetch(Id(mb), segment, plan_.micro_batches[mb].samples, fetched);
}

Status BoundaryReceiver::OnFrame(net::Frame frame) {
  SHOAL_ASSERT_ON(generation_->control());
  const std::uint32_t mb = frame.micro_batch.index;
  if (frame.micro_batch.step != plan_.step || mb >= micro_batches_.size()) {
    return InvalidArgument(Describe(frame.micro_batch) + " is not in the plan");
  }
  SHOAL_ASSIGN_OR_RETURN(const std::uint32_t segment, SegmentOf(frame, direction_));
  ActivationReceive& receive = At(mb, segment);
  if (!NextState(receive.state, ReceiveEvent::kFrame)) {
    return InvalidArgument(Describe(frame.micro_batch) + " came a second time");
  }
  const MicroBatchPlan& plan = plan_.micro_batches[mb];
  std::vector<std::uint32_t> positions = receive.missing;
  if (receive.frames.empty()) {
    positions.resize(plan.samples.size());
    std::iota(positions.begin(), positions.end(), 0u);
  }
  SHOAL_RETURN_IF_ERROR(CheckTransfer(frame, direction_, plan, positions));
  SHOAL_RETURN_IF_ERROR(CheckForm(frame));
  Trace(direction_.forward() ? "act.received" : "grad.received", frame.micro_batch, segment);
  replica::KindBytes& bytes =
      direction_.forward() ? resources_.stats->forward : resources_.stats->backward;
  bytes.raw_received += positions.size() * direction_.segments.shape.values() * sizeof(float);
  bytes.wire_received += frame.payload.size();
  if (seen_->low_rank && !direction_.forward()) {
    seen_->AddGradients(frame, direction_.segments.shape.values(), *direction_.codec->stateful());
  }
  receive.frames.push_back(std::make_shared<const net::Frame>(std::move(frame)));
  Go(&receive, ReceiveEvent::kFrame);
  if (receive.state == ReceiveState::kMatching) Match(mb, segment);
  handlers_.on_ready();
  return Status::Ok();
}

// Both ends say by themselves which gradients are low rank; each says it of its own (S, M).
Status BoundaryReceiver::CheckForm(const net::Frame& frame) const {
  const compression::StatefulCodec* const codec = direction_.codec->stateful();
  if (codec == nullptr || direction_.forward()) return Status::Ok();
  const bool low_rank = codec->SaysLowRank(frame.payload.bytes());
  const auto position = direction_.Position(micro_batches_.size(), frame.micro_batch.index);
  if (low_rank == codec->LowRankAt(position, direction_.segments.shape, frame.samples.size())) {
    return Status::Ok();
  }
  return InvalidArgument("the gradient of " + Describe(frame.micro_batch) +
                         (low_rank ? " is low rank where the plan says that it is not"
                                   : " is not low rank where the plan says that it is") +
                         "; both ends must run the same version of shoal");
}

void BoundaryReceiver::Match(std::uint32_t mb, std::uint32_t segment) {
  ActivationReceive& receive = At(mb, segment);
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
    return Decode(mb, segment);
  }
  if (again) {
    return handlers_.on_bad(InvalidArgument("what was sent again of " + Describe(Id(mb)) +
                                            " builds on an earlier activation once more"));
  }
  Go(&receive, ReceiveEvent::kMismatch);
  AskAgain(mb, segment, std::move(differing));
}

void BoundaryReceiver::AskAgain(std::uint32_t mb, std::uint32_t segment,
                                std::vector<std::uint32_t> positions) {
  net::Frame request = resources_.links->NewFrame(net::FrameKind::kResend, Id(mb));
  request.tag = segment;
  request.codec = direction_.codec->spec();
  request.tokens = direction_.segments.shape.tokens;
  request.hidden = direction_.segments.shape.hidden;
  std::uint64_t again = 0;  // samples, whichever of their segments
  for (const std::uint32_t position : positions) {
    if (!micro_batches_[mb].asked_again[position]) ++again;
    micro_batches_[mb].asked_again[position] = true;
    net::FrameSample sample;
    sample.sample = plan_.micro_batches[mb].samples[position];
    request.samples.push_back(sample);
  }
  resources_.stats->resends += again;
  seen_->Visits(direction_.forward())->resends += again;
  At(mb, segment).missing = std::move(positions);
  if (Status sent = handlers_.send(std::move(request)); !sent.ok()) {
    generation_->Fail(sent.WithContext("cannot ask for " + Describe(Id(mb)) + " again"));
  }
}

void BoundaryReceiver::Decode(std::uint32_t mb, std::uint32_t segment) {
  ActivationReceive& receive = At(mb, segment);
  ReceivedMicroBatch& micro_batch = micro_batches_[mb];
  const MicroBatchPlan& plan = plan_.micro_batches[mb];
  if (micro_batch.values == nullptr) {
    const std::size_t values = plan.samples.size() * direction_.sample.values();
    micro_batch.values = std::make_shared<ReceivedValues>(direction_.home, values);
  }
  DecodeTask task{.direction = direction_,
                  .segment = segment,
                  .key = direction_.Key(plan_.step, plan.global_index, segment),
                  .id = Id(mb),
                  .values = micro_batch.values,
                  .frames = std::exchange(receive.frames, {}),
                  .rows = plan.samples.size(),
                  .missing = std::exchange(receive.missing, {}),
                  .records = std::exchange(receive.records, {}),
                  .clock = &generation_->clock(),
                  .keep = direction_.logged && log_.keeps(mb)};
  generation_->scope().Run(
      resources_.codec, "decode",
      [task = std::move(task), watch = generation_->watch(), id = Id(mb)]() mutable {
        const WatchedSpan span(watch, Watched::kDecode, id);
        return DecodeNow(&task);
      },
      [this, mb, segment](Decoding decoding) {
        if (!decoding.status.ok()) {
          return handlers_.on_bad(decoding.status.WithContext("cannot decode " + Describe(Id(mb))));
        }
        resources_.stats->decode_ms += decoding.ms;
        SegmentedVisits& visits = micro_batches_[mb].visits;
        if (visits.Add(decoding.without_m) && delta_ != nullptr) {
          resources_.stats->delta_hits += visits.deltas();
          resources_.stats->first_visits += visits.samples() - visits.deltas();
          seen_->Visits(direction_.forward())
              ->AddVisits(visits.samples(), visits.deltas(), decoding.mode);
        }
        if (direction_.logged) log_.Add(mb, segment, decoding.digest, std::move(decoding.kept));
        Decoded(mb, segment, std::move(decoding.images));
      });
}

void BoundaryReceiver::Decoded(std::uint32_t mb, std::uint32_t segment,
                               std::vector<MImage> images) {
  Go(&At(mb, segment), ReceiveEvent::kDecoded);
  for (MImage& image : images) {
    const SampleId sample = plan_.micro_batches[mb].samples[image.position];
    delta_->Stage(Id(mb), segment, sample, std::move(image));
  }
  if (micro_batches_[mb].visits.complete()) {
    if (handlers_.on_sampled) return Sample(mb);
    MarkReady(mb);
  }
  generation_->Progress();
  handlers_.on_ready();
}

// On codec: values of a device have a way to go.
void BoundaryReceiver::Sample(std::uint32_t mb) {
  generation_->scope().Run(
      resources_.codec, "activations.sample",
      [home = direction_.home, values = micro_batches_[mb].values,
       sample_values = direction_.sample.values()]() -> Result<std::vector<float>> {
        SHOAL_ASSIGN_OR_RETURN(const std::span<float> all, values->Get());
        return LinkMemory::Sample(*home, all, sample_values);
      },
      [this, mb](Result<std::vector<float>> sampled) {
        if (!sampled.ok()) return generation_->Fail(sampled.status());
        handlers_.on_sampled(mb, std::move(*sampled));
        MarkReady(mb);
        generation_->Progress();
        handlers_.on_ready();
      });
}

void BoundaryReceiver::MarkReady(std::uint32_t mb) {
  micro_batches_[mb].ready = true;
  if (handlers_.on_decoded) handlers_.on_decoded(mb);
  while (ready_ < micro_batches_.size() && micro_batches_[ready_].ready) ++ready_;
}

std::optional<Activity> BoundaryReceiver::HeldUpBy(std::uint32_t mb) const {
  SHOAL_ASSERT_ON(generation_->control());
  Activity activity = Activity::kCodec;
  for (std::uint32_t k = 0; k < direction_.segments.count; ++k) {
    switch (receives_[direction_.segments.Transfer(mb, k)].state) {
      case ReceiveState::kIdle:
      case ReceiveState::kFetching:
      case ReceiveState::kFetched:
      case ReceiveState::kResendAsked: return std::nullopt;
      case ReceiveState::kFrameHeld:
      case ReceiveState::kFetchingWithFrame: activity = Activity::kStore; break;
      case ReceiveState::kMatching:
      case ReceiveState::kDecoding:
      case ReceiveState::kDecoded:
      case ReceiveState::kTaken: break;
    }
  }
  return activity;
}

Buffer BoundaryReceiver::Take(std::uint32_t mb) {
  SHOAL_ASSERT_ON(generation_->control());
  for (std::uint32_t k = 0; k < direction_.segments.count; ++k) Go(&At(mb, k), ReceiveEvent::kTake);
  return std::exchange(micro_batches_[mb].values, nullptr)->Take();
}

}  // namespace shoal::pipeline
