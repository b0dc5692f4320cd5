// Whole swarms whose delta stores are slow, too small, damaged or refused by the disk.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "storage/delta/indexed_delta_store.h"
#include "tests/sim/sim_util.h"

namespace shoal::pipeline {
namespace {

using storage::BoundaryEnd;
using storage::DeltaStore;
using test_support::Quantised;
using test_support::SimSwarm;
using test_support::SwarmOptions;
using test_support::Why;

// What happened to a store, in order: "get 7" for a sample, "commit 3" for a step.
class RecordingStore final : public DeltaStore {
 public:
  RecordingStore(std::unique_ptr<DeltaStore> store, std::vector<std::string>* calls)
      : store_(std::move(store)), calls_(calls) {}

  Result<std::optional<storage::DeltaRecord>> Get(const BoundaryEnd& boundary_end,
                                                  SegmentId sample) override {
    calls_->push_back("get " + std::to_string(sample.value));
    return store_->Get(boundary_end, sample);
  }
  Status Stage(const BoundaryEnd& boundary_end, const storage::DeltaUpdate& update) override {
    calls_->push_back("stage " + std::to_string(update.segment.value));
    return store_->Stage(boundary_end, update);
  }
  Status CommitStaged(const BoundaryEnd& boundary_end, std::uint64_t version,
                      std::vector<SegmentId>* evicted) override {
    calls_->push_back("commit " + std::to_string(version - 1));
    return store_->CommitStaged(boundary_end, version, evicted);
  }
  Status DropStaged(const BoundaryEnd& boundary_end, std::uint64_t version) override {
    calls_->push_back("drop " + std::to_string(version - 1));
    return store_->DropStaged(boundary_end, version);
  }
  Result<std::vector<storage::DeltaInventoryEntry>> Inventory(
      const BoundaryEnd& boundary_end) override {
    return store_->Inventory(boundary_end);
  }
  Status DropNewerThan(RunId run, std::uint64_t version) override {
    return store_->DropNewerThan(run, version);
  }
  Status Drop(const BoundaryEnd& boundary_end, std::span<const SegmentId> samples,
              std::uint64_t version_max) override {
    return store_->Drop(boundary_end, samples, version_max);
  }
  Status DropRun(RunId run) override { return store_->DropRun(run); }
  std::vector<BoundaryEnd> Ends() const override { return store_->Ends(); }
  Result<std::uint64_t> ChecksumOf(const BoundaryEnd& boundary_end) override {
    return store_->ChecksumOf(boundary_end);
  }
  void LimitBytes(std::uint64_t bytes_max) override { store_->LimitBytes(bytes_max); }
  Status Flush() override { return store_->Flush(); }
  Status Compact() override { return store_->Compact(); }
  storage::DeltaStoreStats stats() const override { return store_->stats(); }

 private:
  const std::unique_ptr<DeltaStore> store_;
  std::vector<std::string>* const calls_;
};

std::ptrdiff_t Position(const std::vector<std::string>& calls, const std::string& call) {
  return std::find(calls.begin(), calls.end(), call) - calls.begin();
}

TEST(StoreSimTest, TheNextStepIsReadBeforeTheCommitOfThisOne) {
  SimSwarm swarm(Quantised(2));
  std::vector<std::string> calls[2];
  for (std::uint32_t stage = 0; stage < 2; ++stage) {
    auto& store = swarm.at(stage, 0).store_;
    store = std::make_unique<RecordingStore>(std::move(store), &calls[stage]);
  }
  ASSERT_TRUE(swarm.Open(0)) << Why(swarm);
  ASSERT_TRUE(swarm.TrainTo(6)) << Why(swarm);
  const std::uint64_t per_step = std::uint64_t{swarm.options_.micro_batches} * swarm.options_.rows;
  for (const std::vector<std::string>& seen : calls) {
    for (std::uint64_t step = 0; step + 1 < 3; ++step) {
      for (std::uint64_t sample = (step + 1) * per_step; sample < (step + 2) * per_step; ++sample) {
        EXPECT_LT(Position(seen, "get " + std::to_string(sample)),
                  Position(seen, "commit " + std::to_string(step)));
      }
    }
  }
  EXPECT_TRUE(swarm.checksum_mismatches_.empty());
}

// So that a commit has headers only.
TEST(StoreSimTest, ImagesGoToTheStoreWhileTheStepRuns) {
  SimSwarm swarm(Quantised(2));
  std::vector<std::string> calls;
  auto& store = swarm.at(1, 0).store_;
  store = std::make_unique<RecordingStore>(std::move(store), &calls);
  ASSERT_TRUE(swarm.Open(0)) << Why(swarm);
  ASSERT_TRUE(swarm.TrainTo(3)) << Why(swarm);
  const std::uint64_t per_step = std::uint64_t{swarm.options_.micro_batches} * swarm.options_.rows;
  for (std::uint64_t step = 0; step < 3; ++step) {
    const auto commit = Position(calls, "commit " + std::to_string(step));
    for (std::uint64_t sample = step * per_step; sample < (step + 1) * per_step; ++sample) {
      EXPECT_LT(Position(calls, "stage " + std::to_string(sample)), commit);
    }
  }
  EXPECT_EQ(std::count(calls.begin(), calls.end(), "commit 1"), 1);
  EXPECT_EQ(swarm.at(1, 0).runner_->stats().staged_bytes, 0u);
  EXPECT_EQ(swarm.at(1, 0).store_->stats().staged_bytes, 0u);
}

TEST(StoreSimTest, ASampleOfThisStepIsReadForTheNextOnlyBehindItsCommit) {
  // Every step has the same samples.
  SwarmOptions options = Quantised(2);
  options.steps_per_epoch = 1;
  SimSwarm swarm(options);
  std::vector<std::string> calls;
  auto& store = swarm.at(0, 0).store_;
  store = std::make_unique<RecordingStore>(std::move(store), &calls);
  ASSERT_TRUE(swarm.Open(0)) << Why(swarm);
  ASSERT_TRUE(swarm.TrainTo(5)) << Why(swarm);
  EXPECT_TRUE(swarm.checksum_mismatches_.empty());
  const auto samples = options.micro_batches * options.rows;
  std::size_t gets = 0;
  for (const std::string& call : calls) {
    if (call.rfind("stage", 0) == 0) continue;
    if (call.rfind("get", 0) == 0) {
      ++gets;
      continue;
    }
    EXPECT_EQ(gets % samples, 0u) << call;
    EXPECT_EQ("commit " + std::to_string(gets / samples - 1), call);
  }
  EXPECT_EQ(swarm.at(0, 0).runner_->stats().delta_hits, 4u * samples);
}

// The scheduler's mismatch counter rose at every step in which one end's quota refused a sample.
TEST(StoreSimTest, AFullQuotaAtOneEndIsNoMismatch) {
  for (unsigned seed = 1; seed <= 5; ++seed) {
    SimSwarm swarm(Quantised(3, 1, seed));
    ASSERT_TRUE(swarm.Open(0)) << Why(swarm);
    ASSERT_TRUE(swarm.TrainTo(3)) << Why(swarm);
    const std::uint64_t all = swarm.at(1, 0).store_->stats().bytes;
    swarm.Close();
    swarm.Run(std::chrono::seconds(1));
    // The middle stage has two places and room for three quarters of them.
    swarm.at(1, 0).store_ = storage::NewMemoryDeltaStore(all * 3 / 4);
    ASSERT_TRUE(swarm.Open(0)) << Why(swarm);
    ASSERT_TRUE(swarm.TrainTo(12)) << Why(swarm);
    EXPECT_GT(swarm.at(1, 0).store_->stats().evicted, 0u);
    EXPECT_GT(swarm.checksums_compared_, 20u);
    EXPECT_TRUE(swarm.checksum_mismatches_.empty());
    const RunnerStats stats = swarm.at(1, 0).runner_->stats();
    EXPECT_EQ(stats.resends, 0u);  // the other end knew
    // Three of four epochs hit, each as often as there is room.
    EXPECT_NEAR(static_cast<double>(stats.delta_hits), 0.75 * 3 * 72, 12);
  }
}

// In memory, until the test says otherwise.
class Disk {
 public:
  std::map<std::string, std::pair<storage::DeltaHeaderBytes, std::string>> records;
  std::map<storage::DeltaBackend::StagedImage, std::string> staged;
  Status broken;
};

class DiskBackend final : public storage::DeltaBackend {
 public:
  explicit DiskBackend(Disk* disk) : disk_(disk) {}
  Status VisitHeaders(
      const std::function<void(std::string_view, std::span<const std::byte>)>& visit) override {
    for (const auto& [key, record] : disk_->records) visit(key, record.first);
    return Status::Ok();
  }
  Status Read(const std::string& key, storage::DeltaHeaderBytes* header, Buffer* image) override {
    if (!disk_->broken.ok()) return disk_->broken;
    const auto found = disk_->records.find(key);
    if (found == disk_->records.end()) return NotFound("no such record");
    *header = found->second.first;
    *image = Buffer::CopyOf(std::as_bytes(std::span(found->second.second)));
    return Status::Ok();
  }
  Result<StagedImage> Stage(const std::string&, const storage::DeltaHeaderBytes&,
                            std::span<const std::byte> image) override {
    if (!disk_->broken.ok()) return disk_->broken;
    disk_->staged[++last_staged_].assign(reinterpret_cast<const char*>(image.data()), image.size());
    return last_staged_;
  }
  void Unstage(StagedImage image) override { disk_->staged.erase(image); }
  Status Write(std::span<const Put> puts, std::span<const std::string> removals) override {
    std::vector<std::string> images;
    for (const Put& put : puts) images.push_back(disk_->staged.extract(put.image).mapped());
    if (!disk_->broken.ok()) return disk_->broken;
    for (std::size_t i = 0; i < puts.size(); ++i) {
      disk_->records[puts[i].key] = {puts[i].header, images[i]};
    }
    for (const std::string& key : removals) disk_->records.erase(key);
    return Status::Ok();
  }
  Status Flush() override { return disk_->broken; }
  Status Compact() override { return disk_->broken; }
  bool BeginAnewIfGone() override {
    if (disk_->broken.code() != StatusCode::kNotFound) return false;
    disk_->records.clear();
    disk_->staged.clear();
    return true;
  }
  Usage usage() const override { return {}; }

 private:
  Disk* const disk_;
  StagedImage last_staged_ = 0;
};

struct Damage {
  const char* name;
  std::function<void(Disk*)> begin;
  bool loses;  // without a read that fails
};

class DamagedDisk : public testing::TestWithParam<std::tuple<Damage, bool>> {};

TEST_P(DamagedDisk, TheRunGoesOnWithFirstVisitsAndNothingWrongIsUsed) {
  const auto& [damage, at_receiver] = GetParam();
  SimSwarm swarm(Quantised(2));
  Disk disk;
  SimSwarm::Peer& victim = swarm.at(at_receiver ? 1 : 0, 0);
  victim.store_ = *storage::NewIndexedDeltaStore(std::make_unique<DiskBackend>(&disk), {});
  ASSERT_TRUE(swarm.Open(0)) << Why(swarm);
  ASSERT_TRUE(swarm.TrainTo(4)) << Why(swarm);
  const std::uint64_t first_visits = victim.runner_->stats().first_visits;
  damage.begin(&disk);
  ASSERT_TRUE(swarm.TrainTo(9)) << Why(swarm);
  EXPECT_GT(victim.runner_->stats().first_visits, first_visits + 20);
  disk.broken = Status::Ok();
  ASSERT_TRUE(swarm.TrainTo(14)) << Why(swarm);
  EXPECT_EQ(victim.store_->stats().trouble, "");
  // From the next epoch on all is as before.
  const std::uint64_t hits = victim.runner_->stats().delta_hits;
  ASSERT_TRUE(swarm.TrainTo(17)) << Why(swarm);
  EXPECT_EQ(victim.runner_->stats().delta_hits, hits + 36);
  EXPECT_TRUE(swarm.checksum_mismatches_.empty());
}

const Damage kDamages[] = {
    {"FullDisk", [](Disk* disk) { disk->broken = ResourceExhausted("the disk is full"); }, true},
    {"DeletedFolder", [](Disk* disk) { disk->broken = NotFound("no such folder"); }, true},
    {"FlippedBits",
     [](Disk* disk) {
       for (auto& [key, record] : disk->records) record.second.back() ^= 1;
     },
     false},
    {"AnotherShape",
     [](Disk* disk) {
       for (auto& [key, record] : disk->records) {
         storage::DeltaHeader header = *storage::DecodeDeltaHeader(key, record.first);
         header.tokens += 1;
         record.first = storage::EncodeDeltaHeader(key, header);
       }
     },
     false}};

INSTANTIATE_TEST_SUITE_P(All, DamagedDisk,
                         testing::Combine(testing::ValuesIn(kDamages), testing::Bool()),
                         [](const auto& given) {
                           return std::string(std::get<0>(given.param).name) +
                                  (std::get<1>(given.param) ? "Receiver" : "Sender");
                         });

}  // namespace
}  // namespace shoal::pipeline
