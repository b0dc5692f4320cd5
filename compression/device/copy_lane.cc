#include "compression/device/copy_lane.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace shoal::compression {
namespace {

constexpr std::size_t kStagingStep = std::size_t{1} << 20;
// Of values that are copied: what is longer goes in pieces.
constexpr std::size_t kPieceBytes = std::size_t{32} << 20;

}  // namespace

Result<std::byte*> CopyLane::Staging(std::size_t bytes) {
  if (bytes <= staging_bytes_) return staging_;
  if (staging_ != nullptr) queue_->FreeHost(staging_);
  staging_ = nullptr;
  staging_bytes_ = 0;
  const std::size_t rounded = (bytes + kStagingStep - 1) / kStagingStep * kStagingStep;
  SHOAL_ASSIGN_OR_RETURN(staging_, queue_->AllocateHost(rounded));
  staging_bytes_ = rounded;
  return staging_;
}

Result<Borrowed<CopyLane>> CopyLanes::Take() {
  std::unique_ptr<CopyLane> lane = idle_.Take();
  if (lane == nullptr) {
    SHOAL_ASSIGN_OR_RETURN(auto queue, new_queue_());
    lane = std::make_unique<CopyLane>(std::move(queue));
  }
  lane->queue().Use(nullptr);
  return Borrowed<CopyLane>(&idle_, std::move(lane));
}

Status CopyLanes::ToHost(std::span<const float> from, std::span<std::byte> to) {
  SHOAL_CHECK(from.size_bytes() == to.size());
  SHOAL_ASSIGN_OR_RETURN(auto lane, Take());
  const auto* const source = reinterpret_cast<const std::byte*>(from.data());
  for (std::size_t at = 0; at < to.size(); at += kPieceBytes) {
    const std::size_t bytes = std::min(kPieceBytes, to.size() - at);
    SHOAL_ASSIGN_OR_RETURN(std::byte* const staging, lane->Staging(bytes));
    lane->queue().ToHost(staging, source + at, bytes);
    SHOAL_RETURN_IF_ERROR(lane->queue().Wait());
    std::memcpy(to.data() + at, staging, bytes);
  }
  return Status::Ok();
}

Status CopyLanes::ToDevice(std::span<const std::byte> from, std::span<float> to) {
  SHOAL_CHECK(from.size() == to.size_bytes());
  SHOAL_ASSIGN_OR_RETURN(auto lane, Take());
  auto* const target = reinterpret_cast<std::byte*>(to.data());
  for (std::size_t at = 0; at < from.size(); at += kPieceBytes) {
    const std::size_t bytes = std::min(kPieceBytes, from.size() - at);
    SHOAL_ASSIGN_OR_RETURN(std::byte* const staging, lane->Staging(bytes));
    std::memcpy(staging, from.data() + at, bytes);
    lane->queue().ToDevice(target + at, staging, bytes);
    SHOAL_RETURN_IF_ERROR(lane->queue().Wait());
  }
  return Status::Ok();
}

}  // namespace shoal::compression
