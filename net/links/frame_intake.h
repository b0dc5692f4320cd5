// FrameIntake: the frames that one direction of a link brings, from chunk to whole frame. Frames
// under way may hold a limited number of bytes, per link and in all links of a hub, for a limited
// time.

#ifndef SHOAL_NET_LINKS_FRAME_INTAKE_H_
#define SHOAL_NET_LINKS_FRAME_INTAKE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>

#include "common/clock.h"
#include "common/mutex.h"
#include "net/links/chunk.h"

namespace shoal::net {

// Bytes that several owners share. Thread: any.
class ByteBudget {
 public:
  explicit ByteBudget(std::uint64_t most) : most_(most) {}
  bool Take(std::uint64_t bytes);
  void Give(std::uint64_t bytes) { used_ -= bytes; }
  std::uint64_t most() const { return most_; }
  std::uint64_t used() const { return used_; }

 private:
  const std::uint64_t most_;
  std::atomic<std::uint64_t> used_ = 0;
};

// Thread: any.
class FrameIntake {
 public:
  // One link has no more than half of the budget, but always room for the largest frame.
  FrameIntake(RunId run, std::uint64_t generation, std::uint64_t frame_bytes_max,
              std::shared_ptr<ByteBudget> budget);
  ~FrameIntake();

  // What a message brings.
  struct Incoming {
    bulk::v1::ChunkHeader header;
    std::optional<Frame> frame;         // whole by now
    std::optional<std::uint64_t> more;  // bytes that are known to come; null: it tells nothing
  };
  // As ParseChunk and FrameAssembler::Add. Resource exhausted: no room for a frame that begins.
  Result<Incoming> Take(const ByteSlices& message, TimePoint now);

  // Nobody listened until now: what did not come is not the other end's fault.
  void Excuse(TimePoint now) { last_chunk_ = now; }
  // A frame is under way, and for longer than `timeout` no chunk of any frame came.
  bool Overdue(TimePoint now, Duration timeout) const {
    return unfinished_ && now - last_chunk_.load() > timeout;
  }

 private:
  Status Add(const Chunk& chunk, TimePoint now, Incoming* incoming);
  Status Reserve(const Chunk& chunk) SHOAL_REQUIRES(mutex_);

  const std::uint64_t frame_bytes_max_;
  const std::shared_ptr<ByteBudget> budget_;
  std::atomic<bool> unfinished_ = false;
  std::atomic<TimePoint> last_chunk_ = TimePoint{};
  Mutex mutex_;  // held for the long work on a chunk
  FrameAssembler assembler_ SHOAL_GUARDED_BY(mutex_);
  std::uint64_t reserved_ SHOAL_GUARDED_BY(mutex_) = 0;
};

}  // namespace shoal::net

#endif  // SHOAL_NET_LINKS_FRAME_INTAKE_H_
