#include "net/links/chunk.h"

#include <algorithm>
#include <cstring>

#include "common/bytes.h"
#include "common/checksum.h"

namespace shoal::net {
namespace {

constexpr std::size_t kLengthBytes = 4;

// Copies the first `size` bytes of `from` to `to` and drops them from `from`.
void TakeFront(ByteSlices* from, std::byte* to, std::size_t size) {
  std::size_t used = 0;
  while (size > 0) {
    std::span<const std::byte>& slice = (*from)[used];
    const std::size_t part = std::min(size, slice.size());
    if (part > 0) std::memcpy(to, slice.data(), part);
    to += part;
    size -= part;
    slice = slice.subspan(part);
    if (slice.empty()) ++used;
  }
  from->erase(from->begin(), from->begin() + static_cast<std::ptrdiff_t>(used));
}

std::string FrameText(std::uint64_t frame) { return "frame " + std::to_string(frame); }

Frame FrameOf(const bulk::v1::FrameHeader& header) {
  Frame frame;
  frame.kind = static_cast<FrameKind>(header.kind());
  frame.run.value = header.run();
  frame.generation = header.generation();
  frame.micro_batch = {header.step(), header.micro_batch()};
  frame.tag = header.tag();
  frame.codec = header.codec();
  frame.tokens = header.tokens();
  frame.hidden = header.hidden();
  frame.samples.reserve(static_cast<std::size_t>(header.samples_size()));
  for (const bulk::v1::SampleHeader& sample : header.samples()) {
    frame.samples.push_back({{sample.sample()}, sample.base_version(), sample.base_checksum()});
  }
  return frame;
}

}  // namespace

Result<Chunk> ParseChunk(const ByteSlices& message) {
  std::size_t size = 0;
  for (const auto& slice : message) size += slice.size();
  if (size < kLengthBytes) return InvalidArgument("a message is too short for a chunk");
  Chunk chunk;
  chunk.payload = message;
  std::byte length[kLengthBytes];
  TakeFront(&chunk.payload, length, kLengthBytes);
  const std::size_t header_bytes = LoadLittle<std::uint32_t>(length);
  size -= kLengthBytes;
  if (header_bytes > kChunkHeaderBytesMax) return InvalidArgument("a chunk's header is too long");
  if (header_bytes > size) return InvalidArgument("a chunk's header is cut off");
  if (size - header_bytes > kChunkPayloadBytesMax) {
    return InvalidArgument("a chunk's payload is too long");
  }
  std::string header(header_bytes, '\0');
  TakeFront(&chunk.payload, reinterpret_cast<std::byte*>(header.data()), header_bytes);
  if (!chunk.header.ParseFromString(header)) {
    return InvalidArgument("a chunk's header cannot be read");
  }
  chunk.payload_bytes = size - header_bytes;
  return chunk;
}

std::string ChunkHead(const bulk::v1::ChunkHeader& header) {
  const std::size_t size = header.ByteSizeLong();
  SHOAL_CHECK(size <= kChunkHeaderBytesMax);
  std::string head(kLengthBytes + size, '\0');
  StoreLittle(reinterpret_cast<std::byte*>(head.data()), static_cast<std::uint32_t>(size));
  SHOAL_CHECK(header.SerializeToArray(head.data() + kLengthBytes, static_cast<int>(size)));
  return head;
}

bulk::v1::FrameHeader FrameHeaderOf(const Frame& frame) {
  bulk::v1::FrameHeader header;
  header.set_kind(static_cast<std::uint32_t>(frame.kind));
  header.set_run(frame.run.value);
  header.set_generation(frame.generation);
  header.set_step(frame.micro_batch.step);
  header.set_micro_batch(frame.micro_batch.index);
  header.set_tag(frame.tag);
  header.set_codec(frame.codec);
  header.set_tokens(frame.tokens);
  header.set_hidden(frame.hidden);
  for (const FrameSample& sample : frame.samples) {
    bulk::v1::SampleHeader* const out = header.add_samples();
    out->set_sample(sample.sample.value);
    out->set_base_version(sample.base_version);
    out->set_base_checksum(sample.base_checksum);
  }
  header.set_payload_bytes(frame.payload.size());
  header.set_payload_checksum(Checksum64(frame.payload.bytes()));
  return header;
}

Status CheckFrameHeader(const bulk::v1::FrameHeader& header, std::uint64_t frame_bytes_max) {
  if (header.kind() < static_cast<std::uint32_t>(FrameKind::kActivation) ||
      header.kind() > static_cast<std::uint32_t>(FrameKind::kReceived)) {
    return InvalidArgument("unknown frame kind " + std::to_string(header.kind()));
  }
  if (header.payload_bytes() > frame_bytes_max) {
    return InvalidArgument("a frame of " + std::to_string(header.payload_bytes()) +
                           " bytes is over the limit of " + std::to_string(frame_bytes_max));
  }
  if (header.samples_size() > kFrameSamplesMax) return InvalidArgument("too many samples in frame");
  if (header.codec().size() > kCodecNameBytesMax) return InvalidArgument("codec name too long");
  return Status::Ok();
}

Status FrameAssembler::Start(const Chunk& chunk) {
  const std::uint64_t id = chunk.header.frame();
  const bulk::v1::FrameHeader& header = chunk.header.header();
  if (id != last_started_ + 1) {
    return InvalidArgument(FrameText(id) + " starts after frame " + std::to_string(last_started_));
  }
  SHOAL_RETURN_IF_ERROR(CheckFrameHeader(header, frame_bytes_max_));
  if (header.run() != run_.value) {
    return InvalidArgument(FrameText(id) + " is of run " + RunId{header.run()}.ToHex() +
                           ", the link of run " + run_.ToHex());
  }
  if (header.generation() != generation_) {
    return InvalidArgument(FrameText(id) + " is of generation " +
                           std::to_string(header.generation()) + ", the link of generation " +
                           std::to_string(generation_));
  }
  if (open_.size() >= kOpenFramesMax) return InvalidArgument("too many frames at the same time");
  last_started_ = id;
  Open& open = open_[id];
  open.frame = FrameOf(header);
  open.checksum = header.payload_checksum();
  open.frame.payload = Buffer(header.payload_bytes());
  return Status::Ok();
}

std::uint64_t FrameAssembler::missing_bytes() const {
  std::uint64_t bytes = 0;
  for (const auto& [id, open] : open_) bytes += open.frame.payload.size() - open.filled;
  return bytes;
}

Result<std::optional<Frame>> FrameAssembler::Add(const Chunk& chunk) {
  const std::uint64_t id = chunk.header.frame();
  if (chunk.header.has_header()) {
    SHOAL_RETURN_IF_ERROR(Start(chunk));
  } else if (chunk.payload_bytes == 0) {
    return InvalidArgument("a chunk of " + FrameText(id) + " is empty");
  }
  const auto found = open_.find(id);
  if (found == open_.end()) return InvalidArgument(FrameText(id) + " was never started");
  Open& open = found->second;
  const std::uint64_t total = open.frame.payload.size();
  if (chunk.header.offset() != open.filled) {
    return InvalidArgument("a chunk of " + FrameText(id) + " starts at byte " +
                           std::to_string(chunk.header.offset()) + " instead of " +
                           std::to_string(open.filled));
  }
  if (chunk.payload_bytes > total - open.filled) {
    return InvalidArgument("a chunk runs over the end of " + FrameText(id));
  }
  for (const auto& slice : chunk.payload) {
    if (slice.empty()) continue;
    std::memcpy(open.frame.payload.data() + open.filled, slice.data(), slice.size());
    open.filled += slice.size();
  }
  if (open.filled < total) {
    // Only an empty frame may be told in a chunk without payload.
    if (chunk.payload_bytes == 0) return InvalidArgument(FrameText(id) + " starts without bytes");
    return std::optional<Frame>();
  }
  if (Checksum64(open.frame.payload.bytes()) != open.checksum) {
    return DataLoss("the checksum of " + FrameText(id) + " is wrong");
  }
  std::optional<Frame> whole(std::move(open.frame));
  open_.erase(found);
  return whole;
}

}  // namespace shoal::net
