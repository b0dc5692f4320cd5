#include "daemon/terms/machine.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>

#include "common/file.h"
#include "daemon/terms/lasting.h"
#include "tests/support/temporary_folder.h"

namespace shoal::daemon {
namespace {

class MachineTest : public testing::Test {
 protected:
  void Write(const std::string& path, const std::string& text) {
    const std::string whole = folder_.path() + "/" + path;
    std::filesystem::create_directories(std::filesystem::path(whole).parent_path());
    ASSERT_TRUE(WriteFileAtomic(whole, text).ok());
  }

  const test_support::TemporaryFolder folder_;
  const LinuxMachine machine_{folder_.path() + "/proc", folder_.path() + "/power"};
};

TEST_F(MachineTest, ProgramsAreFoundByNameAndByTheirFirstArgument) {
  using namespace std::string_literals;
  EXPECT_EQ(machine_.Look({"steam"}).running, "");  // there is no /proc
  Write("proc/1/comm", "init\n");
  Write("proc/self/comm", "blender\n");  // no number
  Write("proc/20/comm", "python3\n");
  Write("proc/20/cmdline", "/usr/bin/python3\0steam\0"s);
  EXPECT_EQ(machine_.Look({"steam", "blender"}).running, "");
  Write("proc/30/comm", "a-very-long-nam\n");
  EXPECT_EQ(machine_.Look({"a-very-long-name"}).running, "a-very-long-name");
  Write("proc/40/comm", "wine64-preload\n");
  Write("proc/40/cmdline", "C:\\Games\\Racer.EXE\0-full"s);
  EXPECT_EQ(machine_.Look({"steam", "racer.exe"}).running, "racer.exe");
}

// A service runs as a user of its own, beside the programs of those who sit at the machine.
TEST_F(MachineTest, ProgramsOfOtherUsersCount) {
  Write("proc/50/comm", "blender\n");
  constexpr uid_t kOther = 61'184;
  if (::chown((folder_.path() + "/proc/50").c_str(), kOther, kOther) != 0) {
    GTEST_SKIP() << "only root can give a file away";
  }
  EXPECT_EQ(machine_.Look({"blender"}).running, "blender");
}

TEST_F(MachineTest, WhichProgramsAreHiddenIsSaid) {
  EXPECT_THAT(machine_.Look({}).hidden, testing::HasSubstr("hidepid")) << "there is no process 1";
  Write("proc/1/comm", "systemd\n");
  EXPECT_EQ(machine_.Look({}).hidden, "");
  std::filesystem::create_directories(folder_.path() + "/proc/self/ns");
  std::filesystem::create_symlink("pid:[4026532100]", folder_.path() + "/proc/self/ns/pid");
  EXPECT_THAT(machine_.Look({"steam"}).hidden, testing::HasSubstr("container"));
}

TEST_F(MachineTest, OtherProgramsHaveNamesAndOwnOnesNone) {
  const std::string self = "proc/" + std::to_string(::getpid());
  Write(self + "/comm", "shoald\n");
  Write("proc/700001/comm", "helper\n");
  Write("proc/700001/status", "Name:\thelper\nPPid:\t700000\n");
  Write("proc/700000/status", "Name:\tsh\nPPid:\t" + std::to_string(::getpid()) + "\n");
  EXPECT_EQ(machine_.OtherProgram(::getpid()), "");
  EXPECT_EQ(machine_.OtherProgram(700001), "") << "a child of a child";
  Write("proc/30/comm", "a-very-long-nam\n");
  Write("proc/30/cmdline", "/opt/a-very-long-name");
  Write("proc/30/status", "Name:\ta\nPPid:\t1\n");
  EXPECT_EQ(machine_.OtherProgram(30), "a-very-long-name");
  Write("proc/31/comm", "bl\x1b[2Jender\n");
  EXPECT_EQ(machine_.OtherProgram(31), "bl?[2Jender");
}

TEST_F(MachineTest, AProcessThatCannotBeSeenIsAnotherUnlessInAContainer) {
  EXPECT_EQ(machine_.OtherProgram(30), "another program");
  std::filesystem::create_directories(folder_.path() + "/proc/self/ns");
  const std::string space = folder_.path() + "/proc/self/ns/pid";
  std::filesystem::create_symlink("pid:[4026531836]", space);
  EXPECT_EQ(machine_.OtherProgram(30), "another program");
  std::filesystem::remove(space);
  std::filesystem::create_symlink("pid:[4026532100]", space);
  Write("proc/30/comm", "shoald\n");
  EXPECT_EQ(machine_.OtherProgram(30), "") << "the driver's numbers are others";
}

TEST_F(MachineTest, BatteryCountsOnlyWithoutMains) {
  EXPECT_FALSE(machine_.OnBattery());  // a desktop has no such folder
  Write("power/mouse/type", "Battery\n");
  Write("power/mouse/scope", "Device\n");
  Write("power/mouse/status", "Discharging\n");
  EXPECT_FALSE(machine_.OnBattery());
  Write("power/BAT0/type", "Battery\n");
  Write("power/BAT0/status", "Full\n");
  EXPECT_FALSE(machine_.OnBattery());
  Write("power/BAT0/status", "Discharging\n");
  EXPECT_TRUE(machine_.OnBattery());
  Write("power/AC/type", "Mains\n");
  Write("power/AC/online", "1\n");
  EXPECT_FALSE(machine_.OnBattery());  // some discharge under load
  Write("power/AC/online", "0\n");
  Write("power/BAT0/status", "Charging\n");
  EXPECT_FALSE(machine_.OnBattery());  // some plugs say nothing
  Write("power/BAT0/status", "Unknown\n");
  EXPECT_TRUE(machine_.OnBattery());
}

TEST(Lasting, WhatComesAndGoesDoesNotCount) {
  using std::chrono::seconds;
  Lasting battery(seconds(10), seconds(30));
  const TimePoint begin{seconds(1000)};
  EXPECT_FALSE(battery.Update(true, begin));
  EXPECT_FALSE(battery.Update(false, begin + seconds(5)));
  EXPECT_FALSE(battery.Update(true, begin + seconds(9)));
  EXPECT_FALSE(battery.Update(true, begin + seconds(18)));
  EXPECT_TRUE(battery.Update(true, begin + seconds(19)));
  EXPECT_TRUE(battery.Update(false, begin + seconds(20)));
  EXPECT_TRUE(battery.Update(true, begin + seconds(45)));  // again
  EXPECT_TRUE(battery.Update(false, begin + seconds(46)));
  EXPECT_TRUE(battery.Update(false, begin + seconds(75)));
  EXPECT_FALSE(battery.Update(false, begin + seconds(76)));
  Lasting program(Duration::zero(), seconds(30));
  EXPECT_TRUE(program.Update(true, begin));
}

}  // namespace
}  // namespace shoal::daemon
