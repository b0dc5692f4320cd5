// The chunk format: bytes pinned by a golden vector, frames against a plain reassembly, and what
// must be refused.

#include "net/links/chunk.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <random>

#include "common/checksum.h"
#include "net/links/send_queue.h"

namespace shoal::net {
namespace {

using testing::HasSubstr;

constexpr RunId kRun{0x0102030405060708};
constexpr std::uint64_t kMax = 1 << 20;

Frame MakeFrame(FrameKind kind, std::size_t bytes) {
  Frame frame;
  frame.kind = kind;
  frame.run = kRun;
  frame.generation = 7;
  frame.micro_batch = {3, 1};
  frame.payload = Buffer(bytes);
  for (std::size_t i = 0; i < bytes; ++i) frame.payload.data()[i] = static_cast<std::byte>(i * 3);
  return frame;
}

std::string Message(const OutChunk& chunk) {
  std::string bytes = chunk.head;
  bytes.append(reinterpret_cast<const char*>(chunk.payload->data()) + chunk.offset, chunk.size);
  return bytes;
}

ByteSlices OneSlice(const std::string& bytes) {
  return {std::as_bytes(std::span<const char>(bytes))};
}

std::string Hex(const std::string& bytes) {
  std::string hex;
  for (const char c : bytes) {
    constexpr char kDigits[] = "0123456789abcdef";
    hex += kDigits[static_cast<unsigned char>(c) >> 4];
    hex += kDigits[static_cast<unsigned char>(c) & 15];
  }
  return hex;
}

// The chunk header of a good one-chunk frame, to be spoilt.
bulk::v1::ChunkHeader GoodHeader(const std::string& payload) {
  bulk::v1::ChunkHeader header;
  header.set_frame(1);
  bulk::v1::FrameHeader* const frame = header.mutable_header();
  frame->set_kind(2);
  frame->set_run(kRun.value);
  frame->set_generation(7);
  frame->set_payload_bytes(payload.size());
  frame->set_payload_checksum(Checksum64(std::as_bytes(std::span<const char>(payload))));
  return header;
}

Result<std::optional<Frame>> Feed(FrameAssembler* assembler, const bulk::v1::ChunkHeader& header,
                                  const std::string& payload) {
  const std::string message = ChunkHead(header) + payload;
  SHOAL_ASSIGN_OR_RETURN(const Chunk chunk, ParseChunk(OneSlice(message)));
  return assembler->Add(chunk);
}

TEST(Chunk, GoldenVector) {
  SendQueue queue(kMax, kMax);
  Frame frame = MakeFrame(FrameKind::kGradient, 5);
  frame.codec = "raw:dtype=fp32";
  frame.tokens = 2;
  frame.hidden = 3;
  frame.tag = 9;
  frame.samples = {{SampleId{11}, 2, 0x1122334455667788}};
  ASSERT_TRUE(queue.Push(std::move(frame), {}).ok());
  EXPECT_EQ(Hex(Message(*queue.Next(3))),
            "4700000008011a41080211080706050403020118072003280130093a0e7261773a64747970653d66703332"
            "40024803"
            "520d080b100219887766554433221158056126553b5a5c5ca3a5"
            "3801"
            "000306");
  EXPECT_EQ(Hex(Message(*queue.Next(3))), "06000000080110033802090c");
}

TEST(Chunk, GoldenPing) {
  bulk::v1::ChunkHeader header;
  header.mutable_ping()->set_id(0x0102);
  EXPECT_EQ(Hex(ChunkHead(header)), "0b0000003209090201000000000000");
  header.mutable_ping()->set_reply(true);
  header.mutable_ping()->set_at(0x1122334455667788);
  EXPECT_EQ(Hex(ChunkHead(header)),
            "160000003214090201000000000000"
            "1001"
            "198877665544332211");
}

// What is known to come: the rest of frames that have begun, and what the last chunk says of the
// frame behind it.
TEST(Chunk, TheReceiverKnowsWhatIsToCome) {
  SendQueue queue(kMax, kMax);
  FrameAssembler assembler(kRun, 7, kMax);
  const auto next = [&](std::uint64_t missing) {
    const std::string message = Message(*queue.Next(40));
    const Chunk chunk = ParseChunk(OneSlice(message)).value();
    EXPECT_TRUE(assembler.Add(chunk).ok());
    EXPECT_EQ(assembler.missing_bytes(), missing);
    return chunk.header.next();
  };
  ASSERT_TRUE(queue.Push(MakeFrame(FrameKind::kActivation, 100), {}).ok());
  ASSERT_TRUE(queue.Push(MakeFrame(FrameKind::kActivation, 70), {}).ok());
  EXPECT_EQ(next(60), 0u);
  ASSERT_TRUE(queue.Push(MakeFrame(FrameKind::kGradient, 50), {}).ok());
  EXPECT_EQ(next(60 + 10), 0u);
  EXPECT_EQ(next(60), 60u);  // the activation goes on
  EXPECT_EQ(next(20), 0u);
  EXPECT_EQ(next(0), 70u);
  EXPECT_EQ(next(30), 0u);
  EXPECT_EQ(next(0), 0u);
}

TEST(Chunk, GoldenRetire) {
  bulk::v1::ChunkHeader header;
  header.mutable_retire();
  EXPECT_EQ(Hex(ChunkHead(header)), "020000004a00");
  header.mutable_retire()->set_seen(true);
  EXPECT_EQ(Hex(ChunkHead(header)), "040000004a020801");
}

TEST(Chunk, GoldenLastChunkBeforeAnotherFrame) {
  bulk::v1::ChunkHeader header;
  header.set_frame(1);
  header.set_next(300);
  EXPECT_EQ(Hex(ChunkHead(header)), "05000000080140ac02");
}

TEST(Chunk, InterleavedFramesInAnySlicesEqualTheOriginals) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 50; ++round) {
    SendQueue queue(kMax, 64 * kMax);
    FrameAssembler assembler(kRun, 7, kMax);
    std::vector<std::size_t> sizes;
    std::size_t got = 0;
    std::vector<Frame> frames;
    for (int i = 0; i < 12; ++i) {
      sizes.push_back(random() % 3 == 0 ? 0 : random() % 5000);
      Frame frame = MakeFrame(static_cast<FrameKind>(1 + random() % 10), sizes.back());
      frame.tag = static_cast<std::uint64_t>(i);
      ASSERT_TRUE(queue.Push(std::move(frame), {}).ok());
      for (int take = 0; take < 3; ++take) {
        const auto chunk = queue.Next(1 + random() % 2000);
        if (!chunk) break;
        // Cut at random places, with empty slices among them.
        const std::string message = Message(*chunk);
        ByteSlices slices;
        const auto bytes = std::as_bytes(std::span<const char>(message));
        for (std::size_t at = 0; at < bytes.size();) {
          const std::size_t size = std::min<std::size_t>(random() % 40, bytes.size() - at);
          slices.push_back(bytes.subspan(at, size));
          at += size;
        }
        auto frame_or = assembler.Add(ParseChunk(slices).value());
        ASSERT_TRUE(frame_or.ok()) << frame_or.status().ToString();
        EXPECT_EQ(frame_or->has_value(), chunk->last);
        if (*frame_or) {
          const Frame& whole = **frame_or;
          const Frame expected = MakeFrame(whole.kind, sizes.at(whole.tag));
          ASSERT_EQ(whole.payload.size(), expected.payload.size());
          EXPECT_TRUE(std::equal(whole.payload.bytes().begin(), whole.payload.bytes().end(),
                                 expected.payload.bytes().begin()));
          ++got;
        }
      }
    }
    while (const auto chunk = queue.Next(1000)) {
      const std::string message = Message(*chunk);
      auto frame_or = assembler.Add(ParseChunk(OneSlice(message)).value());
      ASSERT_TRUE(frame_or.ok());
      got += frame_or->has_value();
    }
    EXPECT_EQ(got, 12u);
    EXPECT_EQ(queue.queued_bytes(), 0u);
    EXPECT_TRUE(queue.empty());
  }
}

// On a slow line a step's exchange would end before a stage's state that waits behind it.
TEST(SendQueue, StateGoesAheadOfWhatItsGroupExchanges) {
  EXPECT_LT(PriorityOf(FrameKind::kState), PriorityOf(FrameKind::kGroup));
}

TEST(Chunk, UrgentFramesOvertake) {
  SendQueue queue(kMax, kMax);
  for (const FrameKind kind : {FrameKind::kActivation, FrameKind::kGroup, FrameKind::kGradient}) {
    ASSERT_TRUE(queue.Push(MakeFrame(kind, 1000), {}).ok());
    EXPECT_EQ(queue.Next(400)->kind, kind) << "newly come, more urgent than what is under way";
  }
  std::vector<FrameKind> rest;
  while (const auto chunk = queue.Next(400)) rest.push_back(chunk->kind);
  using enum FrameKind;
  EXPECT_THAT(rest,
              testing::ElementsAre(kGradient, kGradient, kGroup, kGroup, kActivation, kActivation));
}

// Found on a line of 100 Mbit/s: micro-batch 0 waited for its m, and then behind four others, while
// the other end, which begins with it, idled for half a second.
TEST(Chunk, EarlierMicroBatchesOvertakeWhatHasNotBegun) {
  for (const FrameKind kind : {FrameKind::kActivation, FrameKind::kGradient}) {
    SendQueue queue(kMax, kMax);
    const auto push = [&](std::uint64_t step, std::uint32_t micro_batch, std::uint64_t tag) {
      Frame frame = MakeFrame(kind, 1000);
      frame.micro_batch = {step, micro_batch};
      frame.tag = tag;
      ASSERT_TRUE(queue.Push(std::move(frame), {}).ok());
    };
    push(3, 2, 0);
    ASSERT_EQ(queue.Next(400)->micro_batch.index, 2u);  // under way, stays in front
    push(3, 4, 1);
    push(4, 0, 2);
    push(3, 1, 3);
    push(3, 1, 4);  // behind its equal
    push(3, 0, 5);
    std::vector<std::pair<std::uint64_t, std::uint32_t>> order;
    while (const auto chunk = queue.Next(1000)) {
      order.emplace_back(chunk->micro_batch.step, chunk->micro_batch.index);
    }
    EXPECT_THAT(order, testing::ElementsAre(std::pair(3, 2), std::pair(3, 0), std::pair(3, 1),
                                            std::pair(3, 1), std::pair(3, 4), std::pair(4, 0)));
  }
  SendQueue others(kMax, kMax);  // of them the order of Push holds
  for (const std::uint32_t index : {2U, 1U}) {
    Frame frame = MakeFrame(FrameKind::kEvaluation, 10);
    frame.micro_batch = {3, index};
    ASSERT_TRUE(others.Push(std::move(frame), {}).ok());
  }
  EXPECT_EQ(others.Next(100)->micro_batch.index, 2u);
}

TEST(Chunk, BrokenRulesAreRefused) {
  const std::string payload = "0123456789";
  const auto refusal = [&payload](const auto& spoil, std::string bytes) {
    FrameAssembler assembler(kRun, 7, kMax);
    bulk::v1::ChunkHeader header = GoodHeader(payload);
    spoil(&header);
    const auto result = Feed(&assembler, header, bytes);
    return result.ok() ? std::string("ok") : result.status().message();
  };
  using Header = bulk::v1::ChunkHeader*;
  EXPECT_EQ(refusal([](Header) {}, payload), "ok");
  EXPECT_THAT(refusal([](Header h) { h->set_frame(2); }, payload), HasSubstr("starts after"));
  EXPECT_THAT(refusal([](Header h) { h->set_offset(1); }, payload), HasSubstr("instead of 0"));
  EXPECT_THAT(refusal([](Header h) { h->clear_header(); }, payload), HasSubstr("never started"));
  EXPECT_THAT(refusal([](Header h) { h->mutable_header()->set_kind(0); }, payload),
              HasSubstr("unknown frame kind"));
  EXPECT_THAT(refusal([](Header h) { h->mutable_header()->set_kind(11); }, payload),
              HasSubstr("unknown frame kind"));
  EXPECT_THAT(refusal([](Header h) { h->mutable_header()->set_run(1); }, payload),
              HasSubstr("is of run 0000000000000001"));
  EXPECT_THAT(refusal([](Header h) { h->mutable_header()->set_generation(8); }, payload),
              HasSubstr("is of generation 8"));
  EXPECT_THAT(refusal([](Header h) { h->mutable_header()->set_payload_bytes(kMax + 1); }, payload),
              HasSubstr("over the limit"));
  EXPECT_THAT(refusal([](Header h) { h->mutable_header()->set_payload_bytes(~0ull); }, payload),
              HasSubstr("over the limit"));
  EXPECT_THAT(refusal([](Header h) { h->mutable_header()->set_payload_bytes(9); }, payload),
              HasSubstr("runs over the end"));
  EXPECT_THAT(refusal([](Header h) { h->mutable_header()->set_payload_checksum(1); }, payload),
              HasSubstr("checksum"));
  EXPECT_THAT(refusal([](Header) {}, ""), HasSubstr("without bytes"));
  EXPECT_THAT(
      refusal([](Header h) { h->mutable_header()->set_codec(std::string(300, 'c')); }, payload),
      HasSubstr("codec name"));
  const auto samples = [](int count) {
    return [count](Header h) {
      for (int i = 0; i < count; ++i) h->mutable_header()->add_samples();
    };
  };
  EXPECT_EQ(refusal(samples(kFrameSamplesMax), payload), "ok");
  EXPECT_THAT(refusal(samples(kFrameSamplesMax + 1), payload), HasSubstr("too many samples"));
}

TEST(Chunk, FollowingChunksAreChecked) {
  FrameAssembler assembler(kRun, 7, kMax);
  bulk::v1::ChunkHeader header = GoodHeader("0123456789");
  ASSERT_TRUE(Feed(&assembler, header, "01234").ok());
  bulk::v1::ChunkHeader next;
  next.set_frame(1);
  next.set_offset(6);
  EXPECT_THAT(Feed(&assembler, next, "6789").status().message(), HasSubstr("instead of 5"));
  next.set_offset(5);
  EXPECT_THAT(Feed(&assembler, next, "").status().message(), HasSubstr("is empty"));
  EXPECT_TRUE(Feed(&assembler, next, "56789")->has_value());
  EXPECT_THAT(Feed(&assembler, next, "56789").status().message(), HasSubstr("never started"));
}

TEST(Chunk, OpenFramesAreLimited) {
  FrameAssembler assembler(kRun, 7, kMax);
  bulk::v1::ChunkHeader header = GoodHeader("0123456789");
  for (std::uint64_t id = 1; id <= kOpenFramesMax; ++id) {
    header.set_frame(id);
    ASSERT_TRUE(Feed(&assembler, header, "0").ok());
  }
  header.set_frame(kOpenFramesMax + 1);
  EXPECT_THAT(Feed(&assembler, header, "0").status().message(), HasSubstr("too many frames"));
}

TEST(Chunk, SizesAreCheckedBeforeAnythingIsRead) {
  EXPECT_FALSE(ParseChunk({}).ok());
  EXPECT_FALSE(ParseChunk(OneSlice(std::string("\x01\x00\x00", 3))).ok());
  EXPECT_THAT(ParseChunk(OneSlice(std::string("\xff\xff\xff\xff", 4))).status().message(),
              HasSubstr("too long"));
  EXPECT_THAT(ParseChunk(OneSlice(std::string("\x05\x00\x00\x00\x01", 5))).status().message(),
              HasSubstr("cut off"));
  const std::string large(4 + kChunkPayloadBytesMax + 1, '\0');
  EXPECT_THAT(ParseChunk(OneSlice(large)).status().message(), HasSubstr("payload is too long"));
}

TEST(Chunk, RandomAndTruncatedBytesNeverCrash) {
  std::mt19937_64 random(3);
  const std::string payload = "0123456789";
  const std::string good = ChunkHead(GoodHeader(payload)) + payload;
  int whole = 0;
  for (int i = 0; i < 50000; ++i) {
    std::string bytes = good.substr(0, i % 4 == 0 ? random() % good.size() : good.size());
    for (int flips = static_cast<int>(random() % 3); flips > 0 && !bytes.empty(); --flips) {
      bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    const auto chunk = ParseChunk(OneSlice(bytes));
    if (!chunk.ok()) continue;
    FrameAssembler assembler(kRun, 7, kMax);
    const auto frame = assembler.Add(*chunk);
    if (frame.ok() && *frame) ++whole;
  }
  EXPECT_GT(whole, 1000) << "the untouched ones";
}

}  // namespace
}  // namespace shoal::net
