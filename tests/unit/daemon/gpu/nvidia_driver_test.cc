// The real way into the driver's library, with a library that answers what a file says.

#include "daemon/gpu/nvidia_driver.h"

#include <gmock/gmock.h>

#include <cstdlib>

#include "common/file.h"
#include "tests/support/temporary_folder.h"

namespace shoal::daemon {
namespace {

using testing::HasSubstr;

class NvidiaDriverTest : public testing::Test {
 protected:
  NvidiaDriverTest() { ::setenv("SHOAL_FAKE_NVML", file_.c_str(), 1); }
  ~NvidiaDriverTest() override { ::unsetenv("SHOAL_FAKE_NVML"); }
  void Say(const std::string& text) { ASSERT_TRUE(WriteFileAtomic(file_, text).ok()); }
  std::unique_ptr<GpuDriver> Open(const std::string& card = "0") {
    auto driver = OpenNvidiaDriver(card, SHOAL_FAKE_NVML);
    EXPECT_TRUE(driver.ok()) << driver.status().ToString();
    return *std::move(driver);
  }
  std::string limit() const {
    const auto text = ReadFile(file_ + ".limit", 100);
    return text.ok() ? *text : "";
  }

  const test_support::TemporaryFolder folder_;
  const std::string file_ = folder_.path() + "/card";
};

TEST_F(NvidiaDriverTest, TellsWhatTheCardTells) {
  Say("power 120500\nenergy 5000\nlimit 350000 100000 400000 320000\nmemory 10 24\nbusy 70\n"
      "compute 123 4096\ngraphics 124 100\ngraphics 123 4000\n"
      "sample 123 50 1000\nsample 123 60 2000\nsample 999 5 2000\n");
  const auto driver = Open();
  GpuReading reading = driver->Read(false);
  EXPECT_EQ(reading.name, "Fake RTX");
  EXPECT_EQ(reading.power_mw, 120500u);
  EXPECT_EQ(reading.power_limit_mw, 350000u);
  EXPECT_EQ(reading.energy_mj, 5000u);
  EXPECT_EQ(reading.busy_percent, 70u);
  EXPECT_EQ(reading.memory_used_bytes, 10u);
  EXPECT_EQ(reading.memory_bytes, 24u);
  EXPECT_TRUE(reading.processes.empty());

  reading = driver->Read(true);
  ASSERT_EQ(reading.processes.size(), 2u);
  EXPECT_EQ(reading.processes[0].pid, 123);
  EXPECT_EQ(reading.processes[0].memory_bytes, 4096u);
  EXPECT_EQ(reading.processes[0].percent, 55u);
  EXPECT_EQ(reading.processes[1].pid, 124);
  EXPECT_EQ(reading.processes[1].percent, 0u);
  // What was read is not read again.
  EXPECT_EQ(driver->Read(true).processes[0].percent, 0u);
}

TEST_F(NvidiaDriverTest, WhatIsNotSupportedIsEmpty) {
  Say("compute 123 18446744073709551615\n");
  const GpuReading reading = Open()->Read(true);
  EXPECT_FALSE(reading.power_mw || reading.power_limit_mw || reading.energy_mj ||
               reading.busy_percent);
  EXPECT_EQ(reading.memory_bytes, 0u);
  ASSERT_EQ(reading.processes.size(), 1u);
  EXPECT_EQ(reading.processes[0].memory_bytes, 0u);
  EXPECT_FALSE(reading.processes[0].percent);
}

TEST_F(NvidiaDriverTest, ACardThatIsLostIsToldInTheDriversWords) {
  Say("power 120500\nmemory 10 24\nbusy 70\n");
  const auto driver = Open();
  EXPECT_EQ(driver->Read(true).lost, "");
  Say("lost 15\n");
  EXPECT_EQ(driver->Read(true).lost, "GPU is lost");
  EXPECT_EQ(driver->Read(true).name, "Fake RTX");
  Say("lost 999\n");
  EXPECT_EQ(driver->Read(false).lost, "Unknown Error") << "a container's right to it is gone";
  Say("lost 3\n");
  EXPECT_EQ(driver->Read(true).lost, "") << "not supported";
  Say("power 120500\n");
  EXPECT_EQ(driver->Read(true).power_mw, 120500u);
}

TEST_F(NvidiaDriverTest, NonsenseIsNotBelieved) {
  Say("power 4000000000\nbusy 101\nmemory 25 24\ncompute 123 1\nsample 123 4000 1000\n");
  const GpuReading reading = Open()->Read(true);
  EXPECT_FALSE(reading.power_mw || reading.busy_percent);
  EXPECT_EQ(reading.memory_bytes, 0u);
  EXPECT_EQ(reading.processes.at(0).percent, 0u);
}

TEST_F(NvidiaDriverTest, MoreProcessesThanUsualAreListedToo) {
  std::string text;
  for (int pid = 1; pid <= 300; ++pid) text += "graphics " + std::to_string(pid) + " 1\n";
  Say(text);
  EXPECT_EQ(Open()->Read(true).processes.size(), 300u);
}

TEST_F(NvidiaDriverTest, ACardIsFoundByItsPlaceOnTheBus) {
  Say("bus 0000:01:00.0\n");
  EXPECT_EQ(Open("0000:01:00.0")->Read(false).name, "Fake RTX");
  const Status missing = OpenNvidiaDriver("0000:02:00.0", SHOAL_FAKE_NVML).status();
  EXPECT_EQ(missing.code(), StatusCode::kNotFound);
  EXPECT_THAT(missing.message(), HasSubstr("no card 0000:02:00.0: Not Found; `nvidia-smi -L`"));
}

TEST_F(NvidiaDriverTest, ALimitIsRestored) {
  Say("limit 350000 100000 400000 320000\n");
  auto driver = Open();
  EXPECT_TRUE(driver->LimitPower(0).ok());
  EXPECT_EQ(limit(), "") << "nothing was set";
  EXPECT_TRUE(driver->LimitPower(200).ok());
  EXPECT_EQ(limit(), "200000");
  EXPECT_TRUE(driver->LimitPower(250).ok());
  EXPECT_TRUE(driver->LimitPower(0).ok());
  EXPECT_EQ(limit(), "350000");
  EXPECT_TRUE(driver->LimitPower(200).ok());
  driver.reset();
  EXPECT_EQ(limit(), "350000") << "as the peer stops";
}

TEST_F(NvidiaDriverTest, WhatAKilledPeerLeftIsNoLimitOfItsOwner) {
  Say("limit 200000 100000 400000 320000\n");
  EXPECT_TRUE(Open()->LimitPower(200).ok());
  EXPECT_EQ(limit(), "320000");
}

TEST_F(NvidiaDriverTest, ARefusalSaysWhatToDo) {
  Say("limit 350000 100000 400000 320000\ndenied\n");
  const auto driver = Open();
  EXPECT_THAT(driver->LimitPower(200).message(), HasSubstr("run `sudo nvidia-smi -pl 200`"));
  EXPECT_THAT(driver->LimitPower(50).message(), HasSubstr("from 100W to 400W"));
  EXPECT_EQ(limit(), "");
}

TEST_F(NvidiaDriverTest, WithoutADriverThereIsAReason) {
  const Status status = OpenNvidiaDriver("0", folder_.path() + "/libnone.so.1").status();
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_THAT(status.message(), HasSubstr("NVIDIA's driver is not there"));
  ::unsetenv("SHOAL_FAKE_NVML");
  EXPECT_EQ(OpenNvidiaDriver("0", SHOAL_FAKE_NVML).status().code(), StatusCode::kUnavailable);
}

}  // namespace
}  // namespace shoal::daemon
