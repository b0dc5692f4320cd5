#include "pipeline/boundary/evidence.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <span>
#include <string>
#include <utility>

#include "common/checksum.h"

namespace shoal::pipeline {
namespace {

constexpr std::size_t kFramesMax = 2;  // of a segment: what was sent, and sent again

// Whether the image of a sample's m is shown: what is sent again needs none.
bool ShowsImage(const SegmentEvidence& segment, std::span<const std::uint32_t> again,
                std::uint32_t position) {
  return segment.frames[0]->samples[position].base_version != 0 &&
         std::find(again.begin(), again.end(), position) == again.end();
}

}  // namespace

std::uint64_t DigestOf(const net::Frame& frame) {
  std::vector<std::uint64_t> words = {frame.tag, Checksum64(frame.payload.bytes())};
  for (const net::FrameSample& sample : frame.samples) {
    words.insert(words.end(), {sample.sample.value, sample.base_version, sample.base_checksum});
  }
  return Checksum64(std::as_bytes(std::span(words)));
}

std::uint64_t DigestOf(const TransferEvidence& evidence) {
  std::uint64_t digest = 0;
  for (const SegmentEvidence& segment : evidence) {
    for (const auto& frame : segment.frames) digest += DigestOf(*frame);
  }
  return digest;
}

std::vector<std::uint32_t> SentAgain(const SegmentEvidence& segment, const MicroBatchPlan& plan) {
  std::vector<std::uint32_t> positions;
  if (segment.frames.size() < kFramesMax) return positions;
  std::uint32_t next = 0;
  for (const net::FrameSample& sample : segment.frames[1]->samples) {
    while (next < plan.samples.size() && plan.samples[next] != sample.sample) ++next;
    positions.push_back(next++);
  }
  return positions;
}

// ---- TransferLog

void TransferLog::StartStep(std::uint64_t step, std::size_t micro_batches, std::uint32_t segments) {
  step_ = step;
  keep_ = std::exchange(keep_next_, std::nullopt);
  digests_.assign(micro_batches, 0);
  kept_.clear();
  kept_.resize(segments);
}

void TransferLog::Add(std::uint32_t mb, std::uint32_t segment, std::uint64_t digest,
                      SegmentEvidence kept) {
  digests_[mb] += digest;
  if (!keeps(mb)) return;
  SegmentEvidence& all = kept_[segment];
  if (all.frames.empty()) all.records = std::move(kept.records);
  all.frames.insert(all.frames.end(), kept.frames.begin(), kept.frames.end());
}

bool TransferLog::complete() const {
  return std::all_of(kept_.begin(), kept_.end(),
                     [](const SegmentEvidence& segment) { return !segment.frames.empty(); });
}

// ---- on the way

std::vector<net::Frame> FramesOf(const TransferEvidence& evidence,
                                 const net::GenerationLinks& links, MicroBatchId id,
                                 const MicroBatchPlan& plan) {
  std::vector<net::Frame> frames;
  for (std::size_t k = 0; k < evidence.size(); ++k) {
    const SegmentEvidence& segment = evidence[k];
    const std::vector<std::uint32_t> again = SentAgain(segment, plan);
    std::vector<std::span<const std::byte>> images;
    std::size_t bytes = 0;
    for (std::uint32_t i = 0; i < plan.samples.size(); ++i) {
      if (!ShowsImage(segment, again, i)) continue;
      images.push_back(segment.records[i]->image.bytes());
      bytes += images.back().size();
    }
    net::Frame shown = links.NewFrame(net::FrameKind::kSpotCheck, id);
    shown.tag = k;
    shown.tokens = static_cast<std::uint32_t>(segment.frames.size());
    shown.payload = Buffer(bytes);
    std::size_t at = 0;
    for (const std::span<const std::byte> image : images) {
      std::memcpy(shown.payload.data() + at, image.data(), image.size());
      at += image.size();
    }
    frames.push_back(std::move(shown));
    for (const auto& frame : segment.frames) frames.push_back(CopyOf(*frame));
  }
  return frames;
}

EvidenceReceiver::EvidenceReceiver(DirectionConfig direction, MicroBatchId id, MicroBatchPlan plan)
    : direction_(std::move(direction)),
      id_(id),
      plan_(std::move(plan)),
      segments_(direction_.segments.count) {}

Status EvidenceReceiver::OnFrame(net::Frame frame) {
  if (frame.micro_batch != id_) {
    return InvalidArgument(Describe(frame.micro_batch) + " is not what is checked");
  }
  SHOAL_ASSIGN_OR_RETURN(const std::uint32_t number, SegmentOf(frame, direction_));
  Segment& segment = segments_[number];
  const bool images = frame.kind == net::FrameKind::kSpotCheck;
  if (!images && frame.kind != net::FrameKind::kActivation) {
    return InvalidArgument("a frame of kind " +
                           std::to_string(static_cast<std::uint32_t>(frame.kind)) +
                           " is no evidence");
  }
  SHOAL_RETURN_IF_ERROR(images ? OnImages(std::move(frame), &segment)
                               : OnActivation(std::move(frame), &segment));
  if (!segment.images || segment.evidence.frames.size() < segment.images->tokens) {
    return Status::Ok();
  }
  SHOAL_RETURN_IF_ERROR(TakeImages(&segment));
  ++whole_;
  return Status::Ok();
}

Status EvidenceReceiver::OnImages(net::Frame frame, Segment* segment) const {
  const std::size_t most =
      plan_.samples.size() * direction_.codec->MImageBytes(direction_.segments.shape);
  if (segment->images || frame.tokens == 0 || frame.tokens > kFramesMax ||
      frame.tokens < segment->evidence.frames.size() || frame.payload.size() > most) {
    return InvalidArgument("the m images of " + Describe(id_) +
                           " came a second time, or do not fit its frames");
  }
  segment->images = std::move(frame);
  return Status::Ok();
}

Status EvidenceReceiver::OnActivation(net::Frame frame, Segment* segment) const {
  std::vector<std::shared_ptr<const net::Frame>>& frames = segment->evidence.frames;
  const std::size_t most = segment->images ? segment->images->tokens : kFramesMax;
  if (frames.size() >= most) return InvalidArgument(Describe(id_) + " came once more than it may");
  std::vector<std::uint32_t> positions(plan_.samples.size());
  std::iota(positions.begin(), positions.end(), 0u);
  if (!frames.empty()) {
    std::uint32_t next = 0;
    positions.clear();
    for (const net::FrameSample& sample : frame.samples) {
      while (next < plan_.samples.size() && plan_.samples[next] != sample.sample) ++next;
      if (next == plan_.samples.size() || sample.base_version != 0) {
        return InvalidArgument("what was sent again of " + Describe(id_) +
                               " names other samples, or builds on an earlier activation");
      }
      positions.push_back(next++);
    }
  }
  SHOAL_RETURN_IF_ERROR(CheckTransfer(frame, direction_, plan_, positions));
  frames.push_back(std::make_shared<const net::Frame>(std::move(frame)));
  return Status::Ok();
}

Status EvidenceReceiver::TakeImages(Segment* segment) const {
  SegmentEvidence& evidence = segment->evidence;
  const std::vector<std::uint32_t> again = SentAgain(evidence, plan_);
  const std::size_t bytes = direction_.codec->MImageBytes(direction_.segments.shape);
  const std::span<const std::byte> all = std::as_const(segment->images->payload).bytes();
  std::size_t at = 0;
  evidence.records.resize(plan_.samples.size());
  for (std::uint32_t i = 0; i < plan_.samples.size(); ++i) {
    if (!ShowsImage(evidence, again, i)) continue;
    if (all.size() - at < bytes) return InvalidArgument("an m image of the evidence is missing");
    const std::span<const std::byte> image = all.subspan(at, bytes);
    at += bytes;
    const net::FrameSample& header = evidence.frames[0]->samples[i];
    SHOAL_RETURN_IF_ERROR(direction_.codec->CheckMImage(image, direction_.segments.shape));
    if (Checksum64(image) != header.base_checksum) {
      return InvalidArgument("an m image is not the one that " + Describe(id_) + " builds on");
    }
    evidence.records[i] = storage::DeltaRecord{
        header.base_version, header.base_checksum, direction_.segments.shape.tokens,
        direction_.segments.shape.hidden, Buffer::CopyOf(image)};
  }
  if (at < all.size()) return InvalidArgument("the evidence has more m images than it needs");
  segment->images->payload = Buffer();
  return Status::Ok();
}

TransferEvidence EvidenceReceiver::Take() {
  TransferEvidence evidence;
  for (Segment& segment : segments_) evidence.push_back(std::move(segment.evidence));
  return evidence;
}

}  // namespace shoal::pipeline
