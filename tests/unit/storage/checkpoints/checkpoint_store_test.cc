#include "storage/checkpoints/checkpoint_store.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <chrono>

#include "storage/checkpoints/checkpoint_manifest.h"
#include "storage/files/atomic_folder.h"
#include "tests/unit/storage/storage_test_support.h"

namespace shoal::storage {
namespace {

using ::testing::HasSubstr;

constexpr RunId kRun{0x1122334455667788};

class CheckpointStoreTest : public ::testing::Test {
 protected:
  void SetUp() override { Open(); }
  void Open() {
    auto opened = OpenCheckpointStore(path_);
    ASSERT_TRUE(opened.ok()) << opened.status().ToString();
    store_ = std::move(*opened);
  }
  Result<Checkpoint> Save(std::uint64_t step, int keep = 10, const std::string& text = "weights",
                          RunId run = kRun) {
    return store_->Save(
        run, step,
        [&](const std::string& folder) {
          WriteAll(folder + "/layer.0", text + std::to_string(step));
          WriteAll(folder + "/layer.0.optimizer", "moments");
          return Status::Ok();
        },
        keep);
  }
  std::vector<std::uint64_t> Steps(RunId run = kRun) {
    std::vector<std::uint64_t> steps;
    const auto list = store_->List(run);
    for (const Checkpoint& checkpoint : *list) steps.push_back(checkpoint.step);
    return steps;
  }
  using Numbers = std::vector<std::uint64_t>;

  TemporaryFolder folder_;
  const std::string path_ = folder_ / "checkpoints";
  const std::string of_run_ = path_ + "/1122334455667788";
  std::unique_ptr<CheckpointStore> store_;
};

TEST_F(CheckpointStoreTest, SavesAndLoads) {
  const auto saved = Save(42);
  ASSERT_TRUE(saved.ok()) << saved.status().ToString();
  EXPECT_EQ(saved->folder, of_run_ + "/step-000000000042");
  EXPECT_EQ(NamesIn(of_run_), std::vector<std::string>{"step-000000000042"});
  Open();
  const auto loaded = store_->Load(kRun, 42);
  ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
  EXPECT_EQ(loaded->run, kRun);
  EXPECT_EQ(loaded->step, 42u);
  EXPECT_EQ(loaded->folder, saved->folder);
  ASSERT_EQ(loaded->files.size(), 2u);
  EXPECT_EQ(loaded->files[0], (ArtefactRef{"layer.0", HashOf(Bytes("weights42")), 9}));
  EXPECT_EQ(loaded->files[1].name, "layer.0.optimizer");
  EXPECT_EQ(ReadAll(loaded->folder + "/layer.0"), "weights42");
  EXPECT_EQ(store_->Load(kRun, 41).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(store_->Load(RunId{1}, 42).status().code(), StatusCode::kNotFound);
}

TEST_F(CheckpointStoreTest, ManifestBytesArePinned) {
  ASSERT_TRUE(store_
                  ->Save(
                      kRun, 3,
                      [](const std::string& folder) {
                        WriteAll(folder + "/head", "abc");
                        return Status::Ok();
                      },
                      1)
                  .ok());
  EXPECT_EQ(ReadAll(of_run_ + "/step-000000000003/manifest.json"),
            R"({
 "format": 1,
 "run": "1122334455667788",
 "step": 3,
 "files": [
  {
   "name": "head",
   "size": 3,
   "blake2b": "bddd813c634239723171ef3fee98579b94964e3bb1cb3e427262c8c068d52319"
  }
 ]
}
)");
}

TEST_F(CheckpointStoreTest, KeepsTheNewest) {
  for (std::uint64_t step = 10; step <= 50; step += 10) ASSERT_TRUE(Save(step, 3).ok());
  EXPECT_EQ(Steps(), (Numbers{30, 40, 50}));
  ASSERT_TRUE(Save(60, 1).ok());
  EXPECT_EQ(Steps(), Numbers{60});
  EXPECT_EQ(Save(70, 0).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Steps(), Numbers{60});
}

TEST_F(CheckpointStoreTest, AfterARollbackTheAbandonedFutureGoes) {
  for (std::uint64_t step = 10; step <= 30; step += 10) ASSERT_TRUE(Save(step).ok());
  ASSERT_TRUE(Save(15, 2).ok());
  EXPECT_EQ(Steps(), (Numbers{10, 15}));
}

TEST_F(CheckpointStoreTest, TheSameStepIsReplacedWhole) {
  ASSERT_TRUE(Save(10).ok());
  ASSERT_TRUE(Save(10, 10, "other").ok());
  EXPECT_EQ(NamesIn(of_run_), std::vector<std::string>{"step-000000000010"});
  const auto loaded = store_->Load(kRun, 10);
  ASSERT_TRUE(loaded.ok());
  EXPECT_EQ(ReadAll(loaded->folder + "/layer.0"), "other10");
}

TEST_F(CheckpointStoreTest, RunsDoNotTouchEachOther) {
  ASSERT_TRUE(Save(10).ok());
  ASSERT_TRUE(Save(20, 1, "b", RunId{5}).ok());
  EXPECT_EQ(Steps(), Numbers{10});
  EXPECT_EQ(Steps(RunId{5}), Numbers{20});
  // The same step of two runs.
  ASSERT_TRUE(Save(10, 2, "b", RunId{5}).ok());
  EXPECT_EQ(ReadAll(store_->Load(kRun, 10)->folder + "/layer.0"), "weights10");
  EXPECT_EQ(ReadAll(store_->Load(RunId{5}, 10)->folder + "/layer.0"), "b10");
  ASSERT_OK(store_->DropRun(RunId{5}));
  EXPECT_EQ(store_->DropRun(RunId{5}).code(), StatusCode::kNotFound);
  EXPECT_EQ(Steps(), Numbers{10});
}

// "checkpoints/step-... belongs to run ..." kept a peer out of its second run.
TEST_F(CheckpointStoreTest, ASecondRunSavesTheSameStepInAFolderOfTheOlderLayout) {
  ASSERT_TRUE(Save(10).ok());
  std::filesystem::rename(of_run_ + "/step-000000000010", path_ + "/step-000000000010");
  std::filesystem::remove(of_run_);
  std::filesystem::create_directory(path_ + "/step-000000000011.tmp-AbCdEf");
  Open();
  EXPECT_EQ(NamesIn(path_), std::vector<std::string>{"1122334455667788"});
  EXPECT_TRUE(store_->Load(kRun, 10).ok());
  EXPECT_TRUE(Save(10, 1, "b", RunId{5}).ok());
  EXPECT_TRUE(store_->Load(kRun, 10).ok());
}

TEST_F(CheckpointStoreTest, TheTwoRunsBeforeTheCurrentOneAreKept) {
  const auto runs = [&] {
    std::vector<std::uint64_t> ids;
    for (const StoredRun& stored : store_->Runs()) ids.push_back(stored.run.value);
    return ids;
  };
  // Folders' times are those of a slow clock; here each run was saved a minute after the former.
  const auto age = [&](RunId run, int minutes) {
    const auto folder = std::filesystem::path(path_) / run.ToHex();
    std::filesystem::last_write_time(
        folder, std::filesystem::file_time_type::clock::now() - std::chrono::minutes(minutes));
  };
  for (std::uint64_t run = 1; run <= kOtherRunsKept + 1; ++run) {
    ASSERT_TRUE(Save(run, 1, "a", RunId{run}).ok());
    age(RunId{run}, 60 - static_cast<int>(run));
  }
  EXPECT_EQ(runs(), (Numbers{3, 2, 1}));
  ASSERT_TRUE(Save(7, 1, "a", RunId{1}).ok());  // the oldest is taken up again
  age(RunId{1}, 10);
  EXPECT_EQ(runs(), (Numbers{1, 3, 2}));
  ASSERT_TRUE(Save(4, 1, "a", RunId{4}).ok());
  EXPECT_EQ(runs(), (Numbers{4, 1, 3}));
  const std::vector<StoredRun> stored = store_->Runs();
  EXPECT_EQ(stored[1].newest_step, 7u);
  EXPECT_EQ(stored[1].checkpoints, 1u);
  EXPECT_EQ(stored[1].bytes, 2u + 7u);
}

TEST_F(CheckpointStoreTest, WhereTheDiskIsFullOtherRunsGoFirst) {
  ASSERT_TRUE(Save(1, 1, "a", RunId{1}).ok());
  std::filesystem::last_write_time(
      path_ + "/" + RunId{1}.ToHex(),
      std::filesystem::file_time_type::clock::now() - std::chrono::minutes(1));
  ASSERT_TRUE(Save(1, 1, "a", RunId{2}).ok());
  int tries = 0;
  const auto full_until = [&](std::size_t runs) {
    return store_->Save(
        kRun, 10,
        [&, runs](const std::string& folder) -> Status {
          ++tries;
          if (store_->Runs().size() > runs) return ResourceExhausted("no space left on the disk");
          WriteAll(folder + "/layer.0", "x");
          return Status::Ok();
        },
        1);
  };
  ASSERT_TRUE(full_until(1).ok());
  EXPECT_EQ(tries, 2);
  EXPECT_TRUE(store_->List(RunId{1})->empty());
  EXPECT_EQ(store_->List(RunId{2})->size(), 1u);
  // Its own checkpoint never goes for a new one.
  ASSERT_OK(store_->DropRun(RunId{2}));
  EXPECT_EQ(full_until(0).status().code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(Steps(), Numbers{10});
}

TEST_F(CheckpointStoreTest, AFailedSaveLeavesNothing) {
  ASSERT_TRUE(Save(10).ok());
  const auto failed = store_->Save(
      kRun, 20,
      [](const std::string& folder) {
        WriteAll(folder + "/half", "x");
        return ResourceExhausted("disk full");
      },
      1);
  EXPECT_EQ(failed.status().code(), StatusCode::kResourceExhausted);
  const auto nested = store_->Save(
      kRun, 20,
      [](const std::string& folder) {
        std::filesystem::create_directory(folder + "/sub");
        return Status::Ok();
      },
      1);
  EXPECT_EQ(nested.status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(NamesIn(of_run_), std::vector<std::string>{"step-000000000010"});
  EXPECT_EQ(Steps(), Numbers{10});
}

TEST_F(CheckpointStoreTest, UnfinishedOnesAreIgnoredThenDeleted) {
  for (std::uint64_t step = 1; step <= 4; ++step) ASSERT_TRUE(Save(step).ok());
  std::filesystem::remove(of_run_ + "/step-000000000001/manifest.json");
  const std::string second = of_run_ + "/step-000000000002/manifest.json";
  WriteAll(second, ReadAll(second).substr(0, 50));
  std::filesystem::create_directory(of_run_ + "/step-000000000005.tmp-AbCdEf");
  std::filesystem::create_directory(of_run_ + "/mine");
  // A newer program's checkpoint is not ours to judge.
  std::filesystem::create_directory(of_run_ + "/step-000000000006");
  WriteAll(of_run_ + "/step-000000000006/manifest.json", R"({"format":2})");
  EXPECT_EQ(Steps(), (Numbers{3, 4}));
  EXPECT_EQ(store_->Load(kRun, 1).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(store_->Load(kRun, 6).status().code(), StatusCode::kUnimplemented);
  Open();
  EXPECT_EQ(NamesIn(of_run_), (std::vector<std::string>{"mine", "step-000000000003",
                                                        "step-000000000004", "step-000000000006"}));
  EXPECT_EQ(Steps(), (Numbers{3, 4}));
}

TEST_F(CheckpointStoreTest, LoadFindsEveryKindOfDamage) {
  const auto damaged = [&](const std::function<void(const std::string&)>& harm) {
    EXPECT_TRUE(Save(10).ok());
    harm(of_run_ + "/step-000000000010/layer.0");
    const Status status = store_->Load(kRun, 10).status();
    EXPECT_THAT(status.message(), HasSubstr("layer.0"));
    return status.code() == StatusCode::kDataLoss;
  };
  EXPECT_TRUE(damaged([](const std::string& file) { WriteAll(file, "weights1"); }));
  EXPECT_TRUE(damaged([](const std::string& file) { WriteAll(file, "weights43"); }));
  EXPECT_TRUE(damaged([](const std::string& file) { std::filesystem::remove(file); }));
  damaged([](const std::string& file) {
    std::filesystem::remove(file);
    ASSERT_EQ(::mkfifo(file.c_str(), 0600), 0);
  });
  EXPECT_FALSE(store_
                   ->Save(
                       kRun, 20,
                       [](const std::string& folder) {
                         return ::mkfifo((folder + "/pipe").c_str(), 0600) == 0 ? Status::Ok()
                                                                                : Aborted("");
                       },
                       1)
                   .ok());
}

TEST(CheckpointManifest, RefusesWhatIsNone) {
  const std::string hash(64, 'a');
  const auto with_file = [&](const std::string& name) {
    return R"({"format":1,"run":"1122334455667788","step":1,"files":[{"name":")" + name +
           R"(","size":1,"blake2b":")" + hash + R"("}]})";
  };
  ASSERT_TRUE(ParseCheckpointManifest(with_file("head"), "m").ok());
  const std::string cases[] = {
      "",
      "[]",
      "{}",
      R"({"format":1})",
      R"({"format":0,"run":"1122334455667788","step":1,"files":[]})",
      R"({"format":1,"run":"x","step":1,"files":[]})",
      R"({"format":1,"run":"1122334455667788","step":-1,"files":[]})",
      R"({"format":1,"run":"1122334455667788","step":1,"files":[1]})",
      R"({"format":1,"run":"1122334455667788","step":1,"files":[{"name":"a"}]})",
      with_file("../a"),
      with_file(".."),
      with_file(""),
      with_file("manifest.json"),
      std::string(100000, '['),
  };
  for (const std::string& text : cases) {
    EXPECT_EQ(ParseCheckpointManifest(text, "m").status().code(), StatusCode::kInvalidArgument)
        << text.substr(0, 100);
  }
  EXPECT_EQ(ParseCheckpointManifest(R"({"format":2})", "m").status().code(),
            StatusCode::kUnimplemented);
}

// Where the same step is saved again on a network share.
TEST_F(CheckpointStoreTest, AFileSystemThatCannotSwapReplacesByTwoRenames) {
  ASSERT_TRUE(Save(1).ok());
  ASSERT_TRUE(Save(2).ok());
  const std::string first = of_run_ + "/step-000000000001";
  const std::string second = of_run_ + "/step-000000000002";
  const std::string kept = ReadAll(second + "/manifest.json");
  ASSERT_TRUE(ReplaceFolder(second, first).ok());
  EXPECT_EQ(ReadAll(first + "/manifest.json"), kept);
  EXPECT_FALSE(std::filesystem::exists(second));
  for (const auto& entry : std::filesystem::directory_iterator(of_run_)) {
    EXPECT_EQ(entry.path().string(), first);
  }
  EXPECT_FALSE(ReplaceFolder(second, first).ok());
  EXPECT_EQ(ReadAll(first + "/manifest.json"), kept) << "it is back in its place";
  for (const auto& entry : std::filesystem::directory_iterator(of_run_)) {
    EXPECT_EQ(entry.path().string(), first);
  }
}

TEST_F(CheckpointStoreTest, APowerCutBetweenTheTwoRenamesLosesNothing) {
  ASSERT_TRUE(Save(1).ok());
  const std::string folder = of_run_ + "/step-000000000001";
  std::filesystem::rename(folder, folder + ".old-abcdef");
  std::filesystem::create_directories(folder + ".tmp-abcdef");
  Open();
  EXPECT_TRUE(store_->Load(kRun, 1).ok());
  EXPECT_FALSE(std::filesystem::exists(folder + ".old-abcdef"));
  EXPECT_FALSE(std::filesystem::exists(folder + ".tmp-abcdef"));
}

TEST(CheckpointManifest, RandomAndTruncatedBytesNeverCrash) {
  Checkpoint checkpoint;
  checkpoint.run = kRun;
  checkpoint.step = 7;
  checkpoint.files = {{"a", HashOf(Bytes("a")), 1}, {"b", HashOf(Bytes("b")), 2}};
  const std::string whole = FormatCheckpointManifest(checkpoint);
  ASSERT_TRUE(ParseCheckpointManifest(whole, "m").ok());
  for (std::size_t size = 0; size + 1 < whole.size(); ++size) {
    EXPECT_FALSE(ParseCheckpointManifest(whole.substr(0, size), "m").ok());
  }
  std::mt19937_64 random(9);
  for (int i = 0; i < 10000; ++i) {
    std::string text = whole;
    text[random() % text.size()] = static_cast<char>(random());
    const auto parsed = ParseCheckpointManifest(text, "m");
    EXPECT_TRUE(!parsed.ok() || parsed->files.size() <= 2u);
  }
}

}  // namespace
}  // namespace shoal::storage
