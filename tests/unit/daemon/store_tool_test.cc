#include "daemon/store_tool.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "common/checksum.h"
#include "storage/checkpoints/checkpoint_store.h"
#include "storage/delta/delta_store.h"
#include "tests/support/temporary_folder.h"

namespace shoal::daemon {
namespace {

using nlohmann::json;
using testing::HasSubstr;

constexpr storage::BoundaryEnd kPlaces[] = {{RunId{1}, 0, storage::BoundarySide::kReceiver},
                                            {RunId{1}, 1, storage::BoundarySide::kSender},
                                            {RunId{0xab}, 0, storage::BoundarySide::kSender}};

class StoreTool : public testing::Test {
 protected:
  StoreTool() {
    auto store = Open();
    for (const storage::BoundaryEnd& place : kPlaces) {
      std::vector<storage::DeltaUpdate> updates(4);
      for (std::uint64_t i = 0; i < updates.size(); ++i) {
        updates[i].segment.value = i;
        updates[i].record.version = i + 1;
        updates[i].record.image = Buffer(1000);
        std::fill_n(updates[i].record.image.data(), 1000, static_cast<std::byte>(i));
        updates[i].record.checksum = Checksum64(updates[i].record.image.bytes());
      }
      EXPECT_TRUE(store->Commit(place, updates, nullptr).ok());
    }
    EXPECT_TRUE(store->Flush().ok());
  }
  std::unique_ptr<storage::DeltaStore> Open() {
    return std::move(storage::OpenRocksDeltaStore({.path = folder_ / "deltas"})).value();
  }
  ExitCode Run(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin() + 1, {"--dir", folder_.path()});
    std::vector<const char*> raw;
    for (const std::string& argument : arguments) raw.push_back(argument.c_str());
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    const ExitCode code = RunStoreTool(static_cast<int>(raw.size()), raw.data());
    out_ = testing::internal::GetCapturedStdout();
    error_ = testing::internal::GetCapturedStderr();
    return code;
  }
  json Output() const { return json::parse(out_); }

  test_support::TemporaryFolder folder_;
  std::string out_, error_;
};

TEST_F(StoreTool, StatsListsPlaces) {
  EXPECT_EQ(Run({"stats"}), ExitCode::kOk) << error_;
  EXPECT_EQ(Output()["schemaVersion"], 2);
  EXPECT_EQ(Output()["records"], 12);
  EXPECT_EQ(Output()["bytes"], 12000);
  ASSERT_EQ(Output()["boundaries"].size(), 3u);
  EXPECT_EQ(Output()["boundaries"][2]["run"], "00000000000000ab");
  EXPECT_EQ(Output()["boundaries"][2]["side"], "sender");
  EXPECT_EQ(Output()["boundaries"][2]["oldestStep"], 0);
  EXPECT_EQ(Output()["boundaries"][2]["newestStep"], 3);
}

TEST_F(StoreTool, VerifyFindsAFlippedBit) {
  EXPECT_EQ(Run({"verify"}), ExitCode::kOk) << error_;
  EXPECT_EQ(Output()["good"], 12);
  for (const auto& file : std::filesystem::directory_iterator(folder_ / "deltas/images")) {
    std::fstream bytes(file.path(), std::ios::in | std::ios::out | std::ios::binary);
    bytes.seekp(500);
    bytes.put('x');
  }
  EXPECT_EQ(Run({"verify"}), ExitCode::kFailure);
  EXPECT_EQ(Output()["damaged"], 1);
  EXPECT_EQ(Output()["good"], 11);
  EXPECT_EQ(Run({"verify"}), ExitCode::kOk) << "dropped for good";
}

TEST_F(StoreTool, DropForgetsARunOrAll) {
  EXPECT_EQ(Run({"drop", "--run", "00000000000000ab"}), ExitCode::kOk) << error_;
  EXPECT_EQ(Output()["dropped"], 4);
  EXPECT_EQ(Output()["records"], 8);
  EXPECT_EQ(Run({"drop", "--run", "00000000000000ab"}), ExitCode::kFailure);
  EXPECT_THAT(error_, HasSubstr("shoal store stats"));
  EXPECT_EQ(Run({"compact"}), ExitCode::kOk) << error_;
  EXPECT_EQ(Output()["records"], 8);
  EXPECT_EQ(Run({"drop", "--all"}), ExitCode::kOk) << error_;
  EXPECT_EQ(Output()["dropped"], 8);
  EXPECT_EQ(Run({"drop"}), ExitCode::kUsage);
  EXPECT_EQ(Run({"drop", "--all", "--run", "1"}), ExitCode::kUsage);
}

TEST_F(StoreTool, CheckpointsAreListedAndDroppedByRun) {
  {
    const auto checkpoints = storage::OpenCheckpointStore(folder_ / "checkpoints").value();
    for (const std::uint64_t run : {1u, 2u}) {
      const auto saved = checkpoints->Save(
          RunId{run}, 7,
          [](const std::string& folder) {
            std::ofstream(folder + "/head") << "12345";
            return Status::Ok();
          },
          1);
      ASSERT_TRUE(saved.ok());
    }
  }
  EXPECT_EQ(Run({"stats"}), ExitCode::kOk) << error_;
  ASSERT_EQ(Output()["checkpoints"].size(), 2u);
  EXPECT_EQ(Output()["checkpoints"][0]["newestStep"], 7);
  EXPECT_EQ(Output()["checkpoints"][0]["bytes"], 5);
  // A run that has checkpoints only.
  EXPECT_EQ(Run({"drop", "--run", "0000000000000002"}), ExitCode::kOk) << error_;
  EXPECT_EQ(Output()["droppedCheckpointRuns"], 1);
  EXPECT_EQ(Run({"stats"}), ExitCode::kOk) << error_;
  ASSERT_EQ(Output()["checkpoints"].size(), 1u);
  EXPECT_EQ(Output()["checkpoints"][0]["run"], "0000000000000001");
}

TEST_F(StoreTool, AStoreInUseIsNotTouched) {
  const auto store = Open();
  EXPECT_EQ(Run({"stats"}), ExitCode::kFailure);
  EXPECT_EQ(out_, "");
  EXPECT_THAT(error_, HasSubstr("is in use; stop that peer first (`shoal finish`,"));
  EXPECT_EQ(std::count(error_.begin(), error_.end(), '\n'), 1);
}

TEST_F(StoreTool, WhereThereIsNoStoreNoneIsMade) {
  std::filesystem::remove_all(folder_ / "deltas");
  EXPECT_EQ(Run({"stats"}), ExitCode::kFailure);
  EXPECT_THAT(error_, HasSubstr("there is no delta store in"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "deltas"));
}

}  // namespace
}  // namespace shoal::daemon
