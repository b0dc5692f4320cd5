#include "net/links/frame_intake.h"

#include <algorithm>
#include <string>
#include <utility>

namespace shoal::net {

bool ByteBudget::Take(std::uint64_t bytes) {
  std::uint64_t used = used_;
  do {
    if (bytes > most_ - used) return false;
  } while (!used_.compare_exchange_weak(used, used + bytes));
  return true;
}

FrameIntake::FrameIntake(RunId run, std::uint64_t generation, std::uint64_t frame_bytes_max,
                         std::shared_ptr<ByteBudget> budget)
    : frame_bytes_max_(frame_bytes_max),
      budget_(std::move(budget)),
      assembler_(run, generation, frame_bytes_max) {}

FrameIntake::~FrameIntake() {
  MutexLock lock(mutex_);
  budget_->Give(reserved_);
}

Status FrameIntake::Reserve(const Chunk& chunk) {
  const std::uint64_t bytes = chunk.header.header().payload_bytes();
  if (bytes > frame_bytes_max_) return Status::Ok();  // refused by its size
  const std::uint64_t most = std::max(frame_bytes_max_, budget_->most() / 2);
  if (reserved_ + bytes > most || !budget_->Take(bytes)) {
    return ResourceExhausted("no room for a frame of " + std::to_string(bytes) +
                             " bytes: unfinished frames of this link hold " +
                             std::to_string(reserved_) + " of " + std::to_string(most) +
                             ", those of all links " + std::to_string(budget_->used()) + " of " +
                             std::to_string(budget_->most()));
  }
  reserved_ += bytes;
  return Status::Ok();
}

Result<FrameIntake::Incoming> FrameIntake::Take(const ByteSlices& message, TimePoint now) {
  SHOAL_ASSIGN_OR_RETURN(Chunk chunk, ParseChunk(message));
  Incoming incoming;
  if (chunk.header.frame() != 0) {
    SHOAL_RETURN_IF_ERROR(Add(chunk, now, &incoming));
  } else if (chunk.payload_bytes > 0) {
    return InvalidArgument("payload without a frame");
  }
  incoming.header = std::move(chunk.header);
  return incoming;
}

Status FrameIntake::Add(const Chunk& chunk, TimePoint now, Incoming* incoming) {
  MutexLock lock(mutex_);
  if (chunk.header.has_header()) SHOAL_RETURN_IF_ERROR(Reserve(chunk));
  std::optional<Frame>& whole = incoming->frame;
  SHOAL_ASSIGN_OR_RETURN(whole, assembler_.Add(chunk));
  if (whole) {
    budget_->Give(whole->payload.size());
    reserved_ -= whole->payload.size();
  }
  last_chunk_ = now;
  unfinished_ = assembler_.open() > 0;
  incoming->more = unfinished_ ? assembler_.missing_bytes() : chunk.header.next();
  return Status::Ok();
}

}  // namespace shoal::net
