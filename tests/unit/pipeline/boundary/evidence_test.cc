#include "pipeline/boundary/evidence.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <numeric>
#include <utility>

#include "common/checksum.h"
#include "pipeline/boundary/encode_task.h"
#include "tests/support/sim_executor.h"

namespace shoal::pipeline {
namespace {

using ::testing::HasSubstr;

constexpr compression::SampleShape kShape{4, 8};
const MicroBatchId kId{3, 1};
const MicroBatchPlan kPlan{5, {SampleId{10}, SampleId{11}, SampleId{12}}};

DirectionConfig Direction() {
  DirectionConfig direction;
  direction.home = compression::HostValues();
  direction.codec = compression::MakeCodec("aqsgd:bits=4", kShape.hidden).value();
  direction.sample = kShape;
  direction.segments = Divide(*direction.codec, kShape, 3, 1 << 20);
  direction.logged = true;
  return direction;
}

// Of all samples; those with `records` build on these.
SegmentEvidence Sent(float first, BoundaryCache::Records records, std::vector<std::uint32_t> which,
                     std::vector<MImage>* images = nullptr) {
  const DirectionConfig direction = Direction();
  Buffer values(3 * kShape.values() * sizeof(float));
  std::iota(values.floats().begin(), values.floats().end(), first);
  test_support::SimWorld world;
  const auto executor = world.NewExecutor("codec", nullptr);
  EncodeTask task{.direction = direction,
                  .segment = 0,
                  .key = direction.Key(3, 5, 0),
                  .values = std::make_shared<const Buffer>(std::move(values)),
                  .positions = std::move(which),
                  .samples = kPlan.samples,
                  .records = std::move(records),
                  .mode = compression::DeltaMode::kDelta,
                  .counted = false,
                  .frame = {},
                  .clock = &executor->clock(),
                  .keep = true};
  task.frame.micro_batch = kId;
  task.frame.codec = direction.codec->spec();
  task.frame.tokens = kShape.tokens;
  task.frame.hidden = kShape.hidden;
  Encoding encoding = EncodeNow(&task);
  EXPECT_TRUE(encoding.status.ok()) << encoding.status.ToString();
  EXPECT_EQ(encoding.digest, DigestOf(encoding.frame));
  if (images != nullptr) *images = std::move(encoding.images);
  return std::move(encoding.kept);
}

// The first two build on an earlier visit; with `again`, the second is sent once more, in full.
TransferEvidence Visited(bool again) {
  std::vector<MImage> images;
  Sent(0, {}, {0, 1, 2}, &images);
  BoundaryCache::Records records(3);
  for (std::size_t i = 0; i < 2; ++i) {
    records[i] = storage::DeltaRecord{1, images[i].checksum, 4, 8, std::move(images[i].image)};
  }
  TransferEvidence evidence;
  evidence.push_back(Sent(0.5F, std::move(records), {0, 1, 2}));
  if (again) evidence[0].frames.push_back(Sent(0.5F, {}, {1}).frames[0]);
  return evidence;
}

std::vector<net::Frame> Frames(bool again) {
  const net::GenerationLinks links(nullptr, RunId{7}, 2);
  return FramesOf(Visited(again), links, kId, kPlan);
}

Status Receive(std::vector<net::Frame> frames, EvidenceReceiver* into) {
  for (net::Frame& frame : frames) SHOAL_RETURN_IF_ERROR(into->OnFrame(std::move(frame)));
  return Status::Ok();
}

TEST(EvidenceTest, ArrivesAsItWasInAnyOrderOfImagesAndFrames) {
  for (const bool again : {false, true}) {
    for (const bool images_last : {false, true}) {
      std::vector<net::Frame> frames = Frames(again);
      ASSERT_EQ(frames.size(), again ? 3u : 2u);
      if (images_last) std::rotate(frames.begin(), frames.begin() + 1, frames.end());
      EvidenceReceiver receiver(Direction(), kId, kPlan);
      ASSERT_TRUE(Receive(std::move(frames), &receiver).ok());
      ASSERT_TRUE(receiver.complete());
      const TransferEvidence evidence = receiver.Take(), sent = Visited(again);
      EXPECT_EQ(DigestOf(evidence), DigestOf(sent));
      ASSERT_EQ(evidence[0].records.size(), 3u);
      EXPECT_TRUE(evidence[0].records[0].has_value());
      EXPECT_EQ(evidence[0].records[1].has_value(), !again) << "in full, it needs none";
      EXPECT_FALSE(evidence[0].records[2].has_value()) << "a first visit";
      EXPECT_EQ(Checksum64(evidence[0].records[0]->image.bytes()),
                Checksum64(sent[0].records[0]->image.bytes()));
    }
  }
}

TEST(EvidenceTest, WhatDoesNotFitIsRefused) {
  const auto refused = [](const std::function<void(std::vector<net::Frame>*)>& change) {
    std::vector<net::Frame> frames = Frames(true);
    change(&frames);
    EvidenceReceiver receiver(Direction(), kId, kPlan);
    const Status status = Receive(std::move(frames), &receiver);
    return status.ok() ? std::string(receiver.complete() ? "complete" : "incomplete")
                       : status.message();
  };
  using Frames = std::vector<net::Frame>;
  EXPECT_EQ(refused([](Frames*) {}), "complete");
  EXPECT_EQ(refused([](Frames* f) { f->pop_back(); }), "incomplete");
  EXPECT_THAT(refused([](Frames* f) { (*f)[0].micro_batch.index = 9; }), HasSubstr("is checked"));
  EXPECT_THAT(refused([](Frames* f) { (*f)[1].tag = 1; }), HasSubstr("segments"));
  EXPECT_THAT(refused([](Frames* f) { (*f)[1].kind = net::FrameKind::kGroup; }),
              HasSubstr("no evidence"));
  EXPECT_THAT(refused([](Frames* f) { (*f)[0].tokens = 3; }), HasSubstr("do not fit"));
  EXPECT_THAT(refused([](Frames* f) { (*f)[0].tokens = 1; }), HasSubstr("is missing"))
      << "without the second frame, one more sample has an image";
  EXPECT_THAT(refused([](Frames* f) { f->push_back(CopyOf((*f)[0])); }), HasSubstr("second time"));
  EXPECT_THAT(refused([](Frames* f) { (*f)[0].payload = Buffer(); }), HasSubstr("is missing"));
  EXPECT_THAT(refused([](Frames* f) {
                const std::size_t size = (*f)[0].payload.size();
                (*f)[0].payload.data()[size - 1] ^= std::byte{1};
              }),
              HasSubstr("not the one"));
  EXPECT_THAT(refused([](Frames* f) { (*f)[1].samples[0].base_version = 0; }),
              HasSubstr("more m images"));
  EXPECT_THAT(refused([](Frames* f) { (*f)[2].samples[0].sample = SampleId{77}; }),
              HasSubstr("other samples"));
  EXPECT_THAT(refused([](Frames* f) { (*f)[1].samples.pop_back(); }), HasSubstr("samples"));
}

TEST(TransferLogTest, KeepsWhatItWasToldOfTheNextStepAlone) {
  TransferLog log;
  log.KeepNext(1);
  EXPECT_FALSE(log.keeps(1)) << "the step at hand is another";
  log.StartStep(4, 2, 1);
  EXPECT_TRUE(log.keeps(1));
  EXPECT_EQ(log.step(), 4u);
  EXPECT_FALSE(log.complete());
  const TransferEvidence evidence = Visited(false);
  SegmentEvidence kept;
  kept.frames = evidence[0].frames;
  log.Add(1, 0, 40, std::move(kept));
  log.Add(1, 0, 2, {});
  log.Add(0, 0, 7, {});
  EXPECT_TRUE(log.complete());
  EXPECT_EQ(log.digests(), (std::vector<std::uint64_t>{7, 42}));
  log.StartStep(5, 2, 1);
  EXPECT_FALSE(log.keeps(1));
  EXPECT_EQ(log.digests(), (std::vector<std::uint64_t>{0, 0}));
}

}  // namespace
}  // namespace shoal::pipeline
