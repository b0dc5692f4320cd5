#include "storage/delta/delta_store.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <set>

#include "delta_store_test_support.h"

namespace shoal::storage {
namespace {

TEST_P(DeltaStoreSuite, GivesBackWhatWasCommitted) {
  EXPECT_FALSE(Get(kEnd, 1).has_value());
  EXPECT_TRUE(Commit(kEnd, List(Update(1, 4, Image(1, 4)), Update(2, 4, "small"))).empty());
  const auto one = Get(kEnd, 1);
  ASSERT_TRUE(one.has_value());
  EXPECT_EQ(one->version, 4u);
  EXPECT_EQ(one->tokens, 3u);
  EXPECT_EQ(one->hidden, 5u);
  EXPECT_EQ(one->checksum, Checksum64(Bytes(Image(1, 4))));
  EXPECT_EQ(TextOf(one->image), Image(1, 4));
  EXPECT_EQ(TextOf(Get(kEnd, 2)->image), "small");
  Commit(kEnd, List(Update(1, 5, Image(1, 5, 100))));
  EXPECT_EQ(TextOf(Get(kEnd, 1)->image), Image(1, 5, 100));
  const DeltaStoreStats stats = store_->stats();
  EXPECT_EQ(stats.hits, 3u);
  EXPECT_EQ(stats.misses, 1u);
  EXPECT_EQ(stats.corrupt, 0u);
  EXPECT_EQ(stats.records, 2u);
  EXPECT_EQ(stats.bytes, 105u);
}

TEST_P(DeltaStoreSuite, PlacesAreApart) {
  BoundaryEnd other_run = kEnd;
  other_run.run.value ^= 1;
  BoundaryEnd other_boundary = kEnd;
  other_boundary.boundary += 1;
  BoundaryEnd other_side = kEnd;
  other_side.side = BoundarySide::kSender;
  const std::vector<BoundaryEnd> ends = {kEnd, other_run, other_boundary, other_side};
  for (std::size_t i = 0; i < ends.size(); ++i) {
    Commit(ends[i], List(Update(7, 1, "image " + std::to_string(i))));
  }
  for (std::size_t i = 0; i < ends.size(); ++i) {
    EXPECT_EQ(TextOf(Get(ends[i], 7)->image), "image " + std::to_string(i));
    EXPECT_EQ(store_->Inventory(ends[i])->size(), 1u);
  }
}

TEST_P(DeltaStoreSuite, InventoryIsInOrderOfSample) {
  EXPECT_TRUE(store_->Inventory(kEnd)->empty());
  Commit(kEnd, List(Update(300, 1, "c"), Update(2, 2, "b"), Update(1ull << 40, 3, "d"),
                    Update(0, 4, "a")));
  const auto inventory = store_->Inventory(kEnd);
  ASSERT_TRUE(inventory.ok());
  std::vector<std::uint64_t> samples;
  std::vector<std::uint64_t> versions;
  for (const DeltaInventoryEntry& entry : *inventory) {
    samples.push_back(entry.segment.value);
    versions.push_back(entry.version);
  }
  EXPECT_EQ(samples, (std::vector<std::uint64_t>{0, 2, 300, 1ull << 40}));
  EXPECT_EQ(versions, (std::vector<std::uint64_t>{4, 2, 1, 3}));
  EXPECT_EQ(inventory->front().checksum, Checksum64(Bytes("a")));
}

TEST_P(DeltaStoreSuite, PlaceChecksumIsThatOfTheDocumentedRows) {
  BoundaryEnd other_end = kEnd;
  other_end.side = BoundarySide::kSender;
  Commit(kEnd, List(Update(9, 2, "x"), Update(4, 3, "y")));
  Commit(other_end, List(Update(4, 1, "old")));
  EXPECT_NE(*store_->ChecksumOf(kEnd), *store_->ChecksumOf(other_end));
  Commit(other_end, List(Update(4, 3, "y")));
  Commit(other_end, List(Update(9, 2, "x")));
  EXPECT_EQ(*store_->ChecksumOf(kEnd), *store_->ChecksumOf(other_end));
  const std::uint64_t rows[2][3] = {{4, 3, Checksum64(Bytes("y"))}, {9, 2, Checksum64(Bytes("x"))}};
  EXPECT_EQ(*store_->ChecksumOf(kEnd), Checksum64(std::as_bytes(std::span(rows[0]))) +
                                           Checksum64(std::as_bytes(std::span(rows[1]))));
  const SegmentId both[] = {SegmentId{4}, SegmentId{9}};
  EXPECT_OK(store_->Drop(kEnd, both, 3));
  EXPECT_EQ(*store_->ChecksumOf(kEnd), 0u);
}

TEST_P(DeltaStoreSuite, DropForgetsSingleRecords) {
  Commit(kEnd, List(Update(1, 1, "a"), Update(2, 1, "b"), Update(3, 1, "c")));
  const SegmentId gone[] = {SegmentId{1}, SegmentId{3}, SegmentId{99}, SegmentId{3}};
  EXPECT_OK(store_->Drop(kEnd, gone, 9));
  EXPECT_FALSE(Get(kEnd, 1).has_value());
  EXPECT_TRUE(Get(kEnd, 2).has_value());
  EXPECT_EQ(store_->Inventory(kEnd)->size(), 1u);
  EXPECT_EQ(store_->stats().records, 1u);
  EXPECT_EQ(store_->stats().bytes, 1u);
  EXPECT_EQ(store_->stats().corrupt, 0u);
}

// What the other end evicted in step 3 may arrive after step 4 made the record anew.
TEST_P(DeltaStoreSuite, DropSparesNewerRecords) {
  Commit(kEnd, List(Update(1, 3, "a"), Update(2, 4, "b")));
  const SegmentId gone[] = {SegmentId{1}, SegmentId{2}};
  EXPECT_OK(store_->Drop(kEnd, gone, 3));
  EXPECT_FALSE(Get(kEnd, 1).has_value());
  EXPECT_TRUE(Get(kEnd, 2).has_value());
}

TEST_P(DeltaStoreSuite, DropRunForgetsAllPlacesOfARunAndNoOther) {
  BoundaryEnd other = kEnd;
  other.run.value += 1;
  BoundaryEnd sender = kEnd;
  sender.side = BoundarySide::kSender;
  for (const BoundaryEnd& end : {kEnd, sender, other}) {
    Commit(end, List(Update(1, 1, "a"), Update(2, 1, "b")));
  }
  EXPECT_EQ(store_->Ends(), (std::vector<BoundaryEnd>{sender, kEnd, other}));
  EXPECT_OK(store_->DropRun(kEnd.run));
  EXPECT_EQ(store_->Ends(), std::vector<BoundaryEnd>{other});
  EXPECT_EQ(store_->stats().records, 2u);
  EXPECT_TRUE(Get(other, 2).has_value());
}

TEST_P(DeltaStoreSuite, CompactKeepsEveryRecord) {
  for (std::uint64_t version = 1; version <= 3; ++version) {
    for (std::uint64_t sample = 0; sample < 40; ++sample) {
      if (version > 1 && sample % version == 0) continue;
      Commit(kEnd, List(Update(sample, version, Image(sample, version))));
    }
  }
  const std::uint64_t checksum = *store_->ChecksumOf(kEnd);
  EXPECT_OK(store_->Compact());
  EXPECT_EQ(*store_->ChecksumOf(kEnd), checksum);
  const auto inventory = store_->Inventory(kEnd);
  ASSERT_EQ(inventory->size(), 40u);
  for (const DeltaInventoryEntry& entry : *inventory) {
    const auto got = Get(kEnd, entry.segment.value);
    ASSERT_TRUE(got.has_value());
    EXPECT_EQ(TextOf(got->image), Image(entry.segment.value, entry.version));
  }
}

TEST_P(DeltaStoreSuite, DropNewerThanIsARollbackOfOneRun) {
  BoundaryEnd sender = kEnd;
  sender.side = BoundarySide::kSender;
  BoundaryEnd other_run = kEnd;
  other_run.run.value += 1;
  for (std::uint64_t version = 1; version <= 6; ++version) {
    for (const BoundaryEnd& end : {kEnd, sender, other_run}) {
      Commit(end, List(Update(version, version, "v")));
    }
  }
  EXPECT_OK(store_->DropNewerThan(kEnd.run, 4));
  for (const BoundaryEnd& end : {kEnd, sender}) {
    EXPECT_EQ(store_->Inventory(end)->size(), 4u);
    EXPECT_TRUE(Get(end, 4).has_value());
    EXPECT_FALSE(Get(end, 5).has_value());
  }
  EXPECT_EQ(store_->Inventory(other_run)->size(), 6u);
}

TEST_P(DeltaStoreSuite, QuotaRefusesNewSamplesAndKeepsTheOld) {
  Open(1000);
  EXPECT_EQ(store_->stats().bytes_limit, 1000u);
  EXPECT_TRUE(Commit(kEnd, List(Update(1, 1, Image(1, 1, 600)))).empty());
  EXPECT_EQ(Commit(kEnd, List(Update(2, 1, Image(2, 1, 401)), Update(3, 1, Image(3, 1, 400)))),
            std::vector<SegmentId>{SegmentId{2}});
  EXPECT_FALSE(Get(kEnd, 2).has_value());
  EXPECT_TRUE(Get(kEnd, 3).has_value());
  // The same size again always fits.
  EXPECT_TRUE(Commit(kEnd, List(Update(1, 2, Image(1, 2, 600)))).empty());
  // A replacement that does not fit takes the outdated record away.
  EXPECT_EQ(Commit(kEnd, List(Update(3, 2, Image(3, 2, 500)))),
            std::vector<SegmentId>{SegmentId{3}});
  EXPECT_FALSE(Get(kEnd, 3).has_value());
  EXPECT_EQ(store_->stats().bytes, 600u);
  EXPECT_EQ(store_->stats().records, 1u);
  EXPECT_EQ(store_->stats().evicted, 2u);
  EXPECT_EQ(Get(kEnd, 1)->version, 2u);
}

TEST_P(DeltaStoreSuite, ALowerQuotaTakesRecordsAwayAsTheirSamplesComeUp) {
  Open(2000);
  const auto all = [](std::uint64_t version) {
    return List(Update(1, version, Image(1, version, 400)),
                Update(2, version, Image(2, version, 400)),
                Update(3, version, Image(3, version, 400)));
  };
  BoundaryEnd other = kEnd;
  other.run.value -= 1;
  EXPECT_TRUE(Commit(other, List(Update(5, 1, Image(5, 1, 400)))).empty());
  EXPECT_TRUE(Commit(kEnd, all(1)).empty());
  store_->LimitBytes(900);
  EXPECT_EQ(store_->stats().bytes_limit, 900u);
  EXPECT_EQ(store_->stats().bytes, 1600u) << "no step runs";
  // The other end hears of it with the commit, as ever.
  EXPECT_EQ(Commit(kEnd, List(Update(1, 2, Image(1, 2, 400)))),
            std::vector<SegmentId>{SegmentId{1}});
  EXPECT_TRUE(Commit(kEnd, List(Update(2, 2, Image(2, 2, 400)))).empty());
  EXPECT_EQ(store_->Ends(), std::vector<BoundaryEnd>{kEnd}) << "another run goes first";
  EXPECT_TRUE(Commit(kEnd, List(Update(3, 2, Image(3, 2, 400)))).empty());
  EXPECT_EQ(store_->stats().bytes, 800u);
  store_->LimitBytes(5000);
  EXPECT_EQ(store_->stats().bytes_limit, 2000u) << "never above that of the options";
  store_->LimitBytes(500);
  store_->LimitBytes(0);
  EXPECT_EQ(store_->stats().bytes_limit, 2000u);
  EXPECT_TRUE(Commit(kEnd, all(3)).empty());
}

TEST_P(DeltaStoreSuite, AtTheQuotaRecordsOfOtherRunsGoFirst) {
  Open(1000);
  BoundaryEnd old = kEnd;
  old.run.value -= 1;
  Commit(old, List(Update(1, 1, Image(1, 1, 300)), Update(2, 1, Image(2, 1, 300)),
                   Update(3, 1, Image(3, 1, 300))));
  EXPECT_TRUE(Commit(kEnd, List(Update(7, 1, Image(7, 1, 600)))).empty());
  EXPECT_EQ(store_->Inventory(old)->size(), 1u);
  EXPECT_EQ(store_->stats().bytes, 900u);
  EXPECT_EQ(store_->stats().evicted, 2u);
  EXPECT_TRUE(Commit(kEnd, List(Update(8, 1, Image(8, 1, 400)))).empty());
  EXPECT_EQ(store_->Ends(), std::vector<BoundaryEnd>{kEnd});
  EXPECT_EQ(Commit(kEnd, List(Update(9, 1, Image(9, 1, 1)))), std::vector<SegmentId>{SegmentId{9}});
}

TEST_P(DeltaStoreSuite, ResidualsAreAPlaceOfTheirOwn) {
  BoundaryEnd residual = kEnd;
  residual.side = BoundarySide::kResidual;
  for (std::uint64_t version = 1; version <= 4; ++version) {
    Commit(kEnd, List(Update(version, version, "m")));
    Commit(residual, List(Update(version, version, "left out")));
  }
  EXPECT_EQ(store_->Ends(), (std::vector<BoundaryEnd>{kEnd, residual}));
  EXPECT_EQ(TextOf(Get(residual, 3)->image), "left out");
  EXPECT_OK(store_->DropNewerThan(kEnd.run, 2));
  EXPECT_EQ(store_->Inventory(residual)->size(), 2u);
  EXPECT_FALSE(Get(residual, 3).has_value());
}

TEST_P(DeltaStoreSuite, AtTheQuotaResidualsMakeRoomForM) {
  Open(1000);
  BoundaryEnd residual = kEnd;
  residual.side = BoundarySide::kResidual;
  BoundaryEnd sender = kEnd;
  sender.side = BoundarySide::kSender;
  sender.boundary += 1;
  EXPECT_TRUE(Commit(residual, List(Update(1, 1, Image(1, 1, 300)), Update(2, 1, Image(2, 1, 300)),
                                    Update(3, 1, Image(3, 1, 300))))
                  .empty());
  EXPECT_TRUE(
      Commit(kEnd, List(Update(1, 2, Image(1, 2, 400)), Update(2, 2, Image(2, 2, 300)))).empty());
  EXPECT_EQ(store_->Inventory(residual)->size(), 1u);
  EXPECT_TRUE(Commit(sender, List(Update(1, 2, Image(1, 2, 300)))).empty());
  EXPECT_EQ(store_->Ends(), (std::vector<BoundaryEnd>{kEnd, sender}));
  // Not the other way round.
  EXPECT_EQ(Commit(residual, List(Update(4, 2, "r"))), std::vector<SegmentId>{SegmentId{4}});
  EXPECT_EQ(store_->stats().bytes, 1000u);
  EXPECT_EQ(store_->stats().evicted, 4u);
}

// A gradient without m costs about half of what an activation without m does. Both ends compare
// what they hold behind each commit, so an end gives up its records in its own only.
TEST_P(DeltaStoreSuite, AtTheQuotaMOfGradientsLeavesRoomForThatOfActivations) {
  Open(1000);
  BoundaryEnd gradients = kEnd, others = kEnd;
  gradients.side = BoundarySide::kGradientSender;
  others.side = BoundarySide::kGradientReceiver;
  const auto segments = [](std::initializer_list<std::uint64_t> values) {
    std::vector<SegmentId> ids;
    for (const std::uint64_t value : values) ids.push_back(SegmentId{value});
    return ids;
  };
  Commit(gradients, List(Update(1, 1, Image(1, 1, 300)), Update(2, 1, Image(2, 1, 300))));
  Commit(others, List(Update(1, 1, Image(1, 1, 300))));
  EXPECT_EQ(Commit(kEnd, List(Update(5, 2, Image(5, 2, 400)))), segments({5}));
  EXPECT_EQ(store_->Inventory(gradients)->size(), 2u);
  // Room for a step of activations, and the step's own are no exception.
  EXPECT_EQ(Commit(gradients, List(Update(1, 2, Image(1, 2, 300)), Update(3, 2, Image(3, 2, 300)))),
            segments({1, 2, 3}));
  EXPECT_TRUE(Commit(others, List(Update(1, 2, Image(1, 2, 300)))).empty());
  EXPECT_TRUE(Commit(kEnd, List(Update(6, 3, Image(6, 3, 400)))).empty());
  EXPECT_EQ(store_->stats().bytes, 700u);
  EXPECT_EQ(Commit(others, List(Update(2, 3, Image(2, 3, 1)))), segments({1, 2}));
  EXPECT_TRUE(Commit(kEnd, List(Update(7, 4, Image(7, 4, 400)))).empty());
  EXPECT_EQ(store_->Ends(), std::vector<BoundaryEnd>{kEnd});
  EXPECT_EQ(Commit(others, List(Update(3, 4, Image(3, 4, 200)))), segments({3}));
  store_->LimitBytes(999);
  EXPECT_EQ(Commit(others, List(Update(3, 5, Image(3, 5, 199)))), segments({3}));
  store_->LimitBytes(0);
  EXPECT_TRUE(Commit(others, List(Update(3, 5, Image(3, 5, 200)))).empty()) << "a higher quota";
  EXPECT_EQ(Commit(kEnd, List(Update(8, 6, Image(8, 6, 400)))), segments({8}));
  EXPECT_EQ(Commit(others, List(Update(4, 6, Image(4, 6, 1)))), segments({3, 4}));
  // What other runs have goes before anything is given up.
  BoundaryEnd newer = gradients;
  newer.run.value += 1;
  EXPECT_TRUE(Commit(newer, List(Update(1, 1, Image(1, 1, 900)))).empty());
}

// Each epoch visits every sample once in a new order. The best possible policy knows all orders and
// evicts what will be visited last; keeping what is there has as many hits.
TEST_P(DeltaStoreSuite, TheQuotaHitsAsOftenAsEvictingWhatIsVisitedLast) {
  constexpr std::uint64_t kSamples = 60, kHeld = 21, kEpochs = 8;
  Open(kHeld);
  std::vector<std::uint64_t> visits;
  std::mt19937_64 random(3);
  for (std::uint64_t epoch = 0; epoch < kEpochs; ++epoch) {
    std::vector<std::uint64_t> order(kSamples);
    std::iota(order.begin(), order.end(), 0ull);
    std::shuffle(order.begin(), order.end(), random);
    visits.insert(visits.end(), order.begin(), order.end());
  }
  std::uint64_t hits = 0, best_hits = 0;
  std::set<std::uint64_t> best;
  for (std::size_t at = 0; at < visits.size(); ++at) {
    hits += Get(kEnd, visits[at]).has_value() ? 1 : 0;
    Commit(kEnd, List(Update(visits[at], at + 1, "m")));
    best_hits += best.count(visits[at]);
    best.insert(visits[at]);
    if (best.size() <= kHeld) continue;
    const auto next = [&](std::uint64_t sample) {
      return std::find(visits.begin() + static_cast<std::ptrdiff_t>(at) + 1, visits.end(), sample);
    };
    best.erase(*std::max_element(best.begin(), best.end(),
                                 [&](auto a, auto b) { return next(a) < next(b); }));
  }
  EXPECT_EQ(hits, kHeld * (kEpochs - 1));
  EXPECT_EQ(best_hits, hits);
}

TEST_P(DeltaStoreSuite, OfTwoRecordsForASampleTheLaterCounts) {
  Open(10);
  EXPECT_TRUE(Commit(kEnd, List(Update(1, 3, "12345678"), Update(1, 3, "87654321"))).empty());
  EXPECT_EQ(TextOf(Get(kEnd, 1)->image), "87654321");
  EXPECT_EQ(store_->stats().bytes, 8u);
}

TEST_P(DeltaStoreSuite, RefusesVersionZero) {
  EXPECT_EQ(store_->Stage(kEnd, Update(1, 0, "x")).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(store_->stats().staged_bytes, 0u);
}

// The checksum is the caller's duty, and reading finds out.
TEST_P(DeltaStoreSuite, AChecksumThatIsNotTheImagesIsAMiss) {
  auto wrong = List(Update(1, 1, "x"), Update(2, 1, "y"));
  wrong[1].record.checksum ^= 1;
  Commit(kEnd, wrong);
  EXPECT_TRUE(Get(kEnd, 1).has_value());
  EXPECT_FALSE(Get(kEnd, 2).has_value());
  EXPECT_EQ(store_->stats().corrupt, 1u);
}

// Against a plain map, through thousands of random calls.
TEST_P(DeltaStoreSuite, AgreesWithAPlainMap) {
  std::map<std::pair<int, std::uint64_t>, std::pair<std::uint64_t, std::string>> model;
  std::mt19937_64 random(11);
  const auto end = [](int i) {
    BoundaryEnd p = kEnd;
    p.boundary = static_cast<std::uint32_t>(i);
    return p;
  };
  for (std::uint64_t step = 1; step <= 400; ++step) {
    const int boundary = static_cast<int>(random() % 3);
    const std::uint64_t sample = random() % 20;
    if (random() % 8 == 0) {
      const SegmentId one[] = {SegmentId{sample}};
      ASSERT_OK(store_->Drop(end(boundary), one, step));
      model.erase({boundary, sample});
    } else if (random() % 50 == 0) {
      ASSERT_OK(store_->DropNewerThan(kEnd.run, step - 5));
      std::erase_if(model, [&](const auto& item) { return item.second.first > step - 5; });
    } else {
      const std::string image = Image(sample, step, random() % 10000);
      Commit(end(boundary), List(Update(sample, step, image)));
      model[{boundary, sample}] = {step, image};
    }
    if (step % 100 == 0) ASSERT_OK(store_->Flush());
  }
  std::uint64_t bytes = 0;
  for (int boundary = 0; boundary < 3; ++boundary) {
    for (std::uint64_t sample = 0; sample < 20; ++sample) {
      const auto got = Get(end(boundary), sample);
      const auto want = model.find({boundary, sample});
      ASSERT_EQ(got.has_value(), want != model.end());
      if (!got) continue;
      EXPECT_EQ(got->version, want->second.first);
      EXPECT_EQ(TextOf(got->image), want->second.second);
      bytes += got->image.size();
    }
  }
  EXPECT_EQ(store_->stats().records, model.size());
  EXPECT_EQ(store_->stats().bytes, bytes);
}

SHOAL_ON_BOTH_BACKENDS(DeltaStoreSuite);

// --- byte layouts ---

std::string Hex(std::span<const std::byte> bytes) {
  std::string hex;
  for (const std::byte b : bytes) {
    hex.push_back("0123456789abcdef"[std::to_integer<int>(b) >> 4]);
    hex.push_back("0123456789abcdef"[std::to_integer<int>(b) & 15]);
  }
  return hex;
}

TEST(DeltaRecords, KeyIsBigEndianAndSorts) {
  const std::string key = EncodeDeltaKey({kEnd, SegmentId{0x1112131415161718}});
  EXPECT_EQ(Hex(Bytes(key)), "01020304050607080a0b0c0d011112131415161718");
  const auto decoded = DecodeDeltaKey(key);
  ASSERT_TRUE(decoded.has_value());
  EXPECT_EQ(decoded->end, kEnd);
  EXPECT_EQ(decoded->segment.value, 0x1112131415161718u);
  EXPECT_LT(EncodeDeltaKey({kEnd, SegmentId{255}}), EncodeDeltaKey({kEnd, SegmentId{256}}));
  EXPECT_FALSE(DecodeDeltaKey(key.substr(1)).has_value());
  std::string wrong_side = key;
  wrong_side[12] = 2;
  EXPECT_EQ(DecodeDeltaKey(wrong_side)->end.side, BoundarySide::kResidual);
  wrong_side[12] = 3;
  EXPECT_EQ(DecodeDeltaKey(wrong_side)->end.side, BoundarySide::kGradientSender);
  wrong_side[12] = 4;
  EXPECT_EQ(DecodeDeltaKey(wrong_side)->end.side, BoundarySide::kGradientReceiver);
  wrong_side[12] = 5;
  EXPECT_FALSE(DecodeDeltaKey(wrong_side).has_value());
}

TEST(DeltaRecords, HeaderBytesArePinned) {
  const std::string key = EncodeDeltaKey({kEnd, SegmentId{5}});
  const DeltaHeaderBytes bytes =
      EncodeDeltaHeader(key, {0x0102030405060708, 0x1112131415161718, 0x21, 0x31, 0x41});
  EXPECT_EQ(Hex(std::span(bytes).first(40)),
            "53445201"
            "31000000"
            "41000000"
            "00000000"
            "0807060504030201"
            "2100000000000000"
            "1817161514131211");
  EXPECT_EQ(Hex(std::span(bytes).subspan(40)), "9e60e287ccb7c004");
  const auto header = DecodeDeltaHeader(key, bytes);
  ASSERT_TRUE(header.has_value());
  EXPECT_EQ(header->version, 0x0102030405060708u);
  EXPECT_EQ(header->checksum, 0x1112131415161718u);
  EXPECT_EQ(header->image_bytes, 0x21u);
  EXPECT_EQ(header->tokens, 0x31u);
  EXPECT_EQ(header->hidden, 0x41u);
}

TEST(DeltaRecords, ImageHeadAndEntryArePinned) {
  const std::string key = EncodeDeltaKey({kEnd, SegmentId{5}});
  const DeltaHeaderBytes header = EncodeDeltaHeader(key, {1, 2, 3, 4, 5});
  const ImageHeadBytes head = EncodeImageHead(key, header);
  EXPECT_EQ(Hex(head), Hex(Bytes(key)) + "000000" + Hex(header));
  const std::string entry = EncodeDeltaEntry({header, 0x0102, 0x0304});
  EXPECT_EQ(Hex(Bytes(entry)), Hex(header) + "0201000000000000" + "0403000000000000");
  const auto decoded = DecodeDeltaEntry(Bytes(entry));
  ASSERT_TRUE(decoded.has_value());
  EXPECT_EQ(decoded->file, 0x0102u);
  EXPECT_EQ(decoded->offset, 0x0304u);
  EXPECT_EQ(decoded->header, header);
  EXPECT_FALSE(DecodeDeltaEntry(Bytes(entry.substr(1))).has_value());
  ASSERT_TRUE(DecodeImageHead(head).has_value());
  EXPECT_EQ(DecodeImageHead(head)->key, key);
  EXPECT_EQ(DecodeImageHead(head)->header.image_bytes, 3u);
  for (std::size_t bit = 0; bit < 8 * head.size(); ++bit) {
    ImageHeadBytes flipped = head;
    flipped[bit / 8] ^= std::byte{1} << bit % 8;
    const bool padding = bit / 8 >= kDeltaKeyBytes && bit / 8 < 24;
    EXPECT_EQ(DecodeImageHead(flipped).has_value(), padding) << bit;
  }
}

std::optional<DeltaRecord> Decode(const std::string& key, std::string_view value) {
  const auto bytes = Bytes(value);
  const auto header = bytes.first(std::min(bytes.size(), kDeltaHeaderBytes));
  return DecodeDeltaRecord(key, header, Buffer::CopyOf(bytes.subspan(header.size())));
}

TEST(DeltaRecords, EveryFlippedBitAndTruncationIsFound) {
  const std::string key = EncodeDeltaKey({kEnd, SegmentId{5}});
  const std::string value = Value(key, Update(5, 9, "an image of m").record);
  ASSERT_TRUE(Decode(key, value).has_value());
  EXPECT_FALSE(Decode(EncodeDeltaKey({kEnd, SegmentId{6}}), value).has_value());
  for (std::size_t bit = 0; bit < 8 * value.size(); ++bit) {
    std::string flipped = value;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    EXPECT_FALSE(Decode(key, flipped).has_value()) << bit;
  }
  for (std::size_t size = 0; size < value.size(); ++size) {
    EXPECT_FALSE(Decode(key, value.substr(0, size)).has_value());
  }
  EXPECT_FALSE(Decode(key, value + "x").has_value());
  std::mt19937_64 random(5);
  for (int i = 0; i < 5000; ++i) {
    EXPECT_FALSE(Decode(key, RandomBytes(random, random() % 128)).has_value());
  }
}

}  // namespace
}  // namespace shoal::storage
