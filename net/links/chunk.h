// The chunk format of bulk streams, as pure functions over bytes: parsing one message, and putting
// the chunks of interleaved frames together. Layout: docs/WIRE.md, "Chunks".

#ifndef SHOAL_NET_LINKS_CHUNK_H_
#define SHOAL_NET_LINKS_CHUNK_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/status.h"
#include "net/links/frame.h"
#include "proto/bulk.pb.h"

namespace shoal::net {

inline constexpr std::size_t kChunkHeaderBytesMax = 4 << 20;   // samples take 39 bytes each at most
inline constexpr std::size_t kChunkPayloadBytesMax = 1 << 20;  // of one chunk
inline constexpr int kFrameSamplesMax = 65536;
inline constexpr std::size_t kCodecNameBytesMax = 256;
inline constexpr std::size_t kChannelNameBytesMax = 256;
// A sender has one frame under way per priority; one more for safety.
inline constexpr std::size_t kOpenFramesMax = 4;

using ByteSlices = std::vector<std::span<const std::byte>>;

struct Chunk {
  bulk::v1::ChunkHeader header;
  ByteSlices payload;  // views into the message
  std::size_t payload_bytes = 0;
};

// One message, in any number of slices. Invalid argument: too short, header too long or not a
// ChunkHeader, payload too long.
Result<Chunk> ParseChunk(const ByteSlices& message);

// u32 little-endian header length, then the header: what stands before a chunk's payload.
std::string ChunkHead(const bulk::v1::ChunkHeader& header);

bulk::v1::FrameHeader FrameHeaderOf(const Frame& frame);

// Whether a frame may be sent or received at all: kind, names, number of samples, sizes.
Status CheckFrameHeader(const bulk::v1::FrameHeader& header, std::uint64_t frame_bytes_max);

// Puts the frames of one direction of one stream together. Thread: one at a time.
class FrameAssembler {
 public:
  FrameAssembler(RunId run, std::uint64_t generation, std::uint64_t frame_bytes_max)
      : run_(run), generation_(generation), frame_bytes_max_(frame_bytes_max) {}

  // The whole frame if `chunk` was its last, nullopt if more is to come. Invalid argument: the
  // chunk breaks the rules; data loss: the payload's checksum is wrong. No use after an error.
  Result<std::optional<Frame>> Add(const Chunk& chunk);
  // Frames of which a part is here.
  std::size_t open() const { return open_.size(); }

  // Of frames that have begun: these bytes must come yet.
  std::uint64_t missing_bytes() const;

 private:
  struct Open {
    Frame frame;
    std::uint64_t filled = 0;
    std::uint64_t checksum = 0;
  };
  Status Start(const Chunk& chunk);

  const RunId run_;
  const std::uint64_t generation_;
  const std::uint64_t frame_bytes_max_;
  std::uint64_t last_started_ = 0;
  std::map<std::uint64_t, Open> open_;
};

}  // namespace shoal::net

#endif  // SHOAL_NET_LINKS_CHUNK_H_
