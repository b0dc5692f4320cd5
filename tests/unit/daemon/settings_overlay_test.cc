#include "daemon/settings_overlay.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include "common/file.h"
#include "daemon_test_util.h"
#include "net/control/live_settings.h"

namespace shoal::daemon {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class SettingsOverlayTest : public testing::Test {
 protected:
  const TemporaryFolder folder_;
  const std::string path_ = folder_.path() + "/overlay.json";
};

TEST_F(SettingsOverlayTest, MissingFileIsEmpty) {
  const Result<SettingsOverlay> overlay = ReadOverlay(path_);
  ASSERT_TRUE(overlay.ok()) << overlay.status().ToString();
  EXPECT_FALSE(overlay->upload || overlay->download || overlay->invite || overlay->paused);
}

TEST_F(SettingsOverlayTest, ComesBackAsWritten) {
  SettingsOverlay overlay;
  overlay.upload = BitsPerSecond{20'000'000};
  overlay.download = BitsPerSecond{0};  // "off" is a setting, unlike nothing
  overlay.invite = "shoal1_abc";
  overlay.name = "attic";
  overlay.paused = true;
  overlay.paused_until_ms = 1'796'000'000'000;
  overlay.terms = {{"schedule", "sat-sun all"}, {"budget", "300GB/month"}};
  overlay.timed["upload"] = {"5mbit", 1'796'000'000'001};
  ASSERT_TRUE(WriteOverlay(path_, overlay).ok());
  Result<SettingsOverlay> back = ReadOverlay(path_);
  ASSERT_TRUE(back.ok()) << back.status().ToString();
  EXPECT_EQ(back->upload, overlay.upload);
  EXPECT_EQ(back->download, overlay.download);
  EXPECT_EQ(back->invite, overlay.invite);
  EXPECT_EQ(back->name, "attic");
  EXPECT_TRUE(back->paused);
  EXPECT_EQ(back->paused_until_ms, overlay.paused_until_ms);
  EXPECT_EQ(back->terms, overlay.terms);
  EXPECT_EQ(back->timed["upload"].value, "5mbit");
  EXPECT_EQ(back->timed["upload"].until_ms, 1'796'000'000'001);
  ASSERT_TRUE(WriteOverlay(path_, SettingsOverlay{}).ok());
  back = ReadOverlay(path_);
  ASSERT_TRUE(back.ok());
  EXPECT_FALSE(back->upload || back->download || back->invite || back->paused);
}

TEST_F(SettingsOverlayTest, WhatHoldsIsShownAsPeopleTypeIt) {
  DaemonConfig config;
  config.upload = BitsPerSecond{20'000'000};
  SettingsOverlay overlay;
  overlay.download = BitsPerSecond{1'500'000};
  overlay.terms = {{"schedule", "sat-sun all"}};
  overlay.timed["budget"] = {"300GB/month", 2000};
  overlay.timed["quiet"] = {"all upload=1mbit", 1000};  // its time is over
  const std::string json = SettingsJson(config, overlay, 1000);
  for (const char* part :
       {R"("name":"upload")", R"("value":"20 Mbit/s","until":0)", R"("value":"1.5 Mbit/s")",
        R"("value":"sat-sun all")", R"("value":"300GB/month","until":2000)",
        R"("name":"quiet","help":"Times)", R"("value":"off","until":0},{"name":"budget")"}) {
    EXPECT_THAT(json, HasSubstr(part));
  }
  // What is shown may be set.
  TermSettings scratch;
  EXPECT_TRUE(ApplyTerm("upload", "20 Mbit/s", &scratch).ok());
  EXPECT_EQ(scratch.upload, config.upload);
}

TEST_F(SettingsOverlayTest, OnlyItsOwnerMayReadIt) {
  ASSERT_TRUE(WriteOverlay(path_, SettingsOverlay{}).ok());
  struct stat info {};
  ASSERT_EQ(::stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
}

TEST_F(SettingsOverlayTest, DamagedFileIsNamedWithTheWayOut) {
  const char* damaged[] = {"",
                           "{",
                           "[]",
                           "null",
                           "{\"paused\": 1}",
                           "{\"upload_bps\": -5}",
                           "{\"upload_bps\": \"20mbit\"}",
                           "{\"download_bps\": 1.5}",
                           "{\"invite\": 3}",
                           "{\"name\": 3}",
                           "{\"paused\": true, \"colour\": \"red\"}",
                           "{\"paused\": true",
                           "{\"paused_until_ms\": -1}",
                           "{\"terms\": []}",
                           "{\"terms\": {\"schedule\": \"mon\"}}",
                           "{\"terms\": {\"upload\": \"5mbit\"}}",
                           "{\"timed\": {\"upload\": \"5mbit\"}}",
                           "{\"timed\": {\"upload\": {\"value\": \"5\", \"until_ms\": 1}}}",
                           "{\"timed\": {\"upload\": {\"value\": \"5mbit\"}}}",
                           "{\"invite\": \"\xff\xfe\"}"};
  for (const char* text : damaged) {
    ASSERT_TRUE(WriteFileAtomic(path_, text).ok());
    const Result<SettingsOverlay> overlay = ReadOverlay(path_);
    ASSERT_FALSE(overlay.ok()) << text;
    EXPECT_EQ(overlay.status().code(), StatusCode::kDataLoss);
    EXPECT_THAT(overlay.status().message(), AllOf(HasSubstr(path_), HasSubstr("delete it")));
  }
}

TEST_F(SettingsOverlayTest, EveryCutOfTheFileIsRefused) {
  SettingsOverlay overlay;
  overlay.upload = BitsPerSecond{8'000'000};
  overlay.invite = "shoal1_abc";
  ASSERT_TRUE(WriteOverlay(path_, overlay).ok());
  const std::string whole = ReadFile(path_, 1 << 20).value();
  const std::size_t closing = whole.rfind('}');
  for (std::size_t size = 0; size <= closing; ++size) {
    ASSERT_TRUE(WriteFileAtomic(path_, whole.substr(0, size)).ok());
    EXPECT_FALSE(ReadOverlay(path_).ok()) << size;
  }
}

TEST_F(SettingsOverlayTest, HugeFileIsRefused) {
  ASSERT_TRUE(WriteFileAtomic(path_, std::string((1 << 20) + 1, ' ')).ok());
  EXPECT_FALSE(ReadOverlay(path_).ok());
}

// `shoal set upload=5mbit` once, later `shoal join --upload 20mbit`.
TEST(SettleSettings, WhatWasTypedLastHoldsAndIsSaid) {
  SettingsOverlay overlay;
  overlay.upload = BitsPerSecond{5'000'000};
  overlay.download = BitsPerSecond{9'000'000};
  DaemonConfig config;
  config.upload = BitsPerSecond{20'000'000};
  config.typed = {"upload"};
  config.download = BitsPerSecond{30'000'000};  // of a file or the environment
  const std::vector<std::string> said = SettleSettings(config, &overlay);
  EXPECT_FALSE(overlay.upload);
  EXPECT_EQ(overlay.download->value, 9'000'000u);
  ASSERT_EQ(said.size(), 2u);
  EXPECT_NE(said[1].find("--upload 20 Mbit/s replaces upload=5 Mbit/s"), std::string::npos);
  EXPECT_NE(said[0].find("download=9 Mbit/s of an earlier `shoal set` holds, not 30 Mbit/s"),
            std::string::npos);
  overlay.timed["upload"] = {"1mbit", 1};
  EXPECT_EQ(SettleSettings(config, &overlay).size(), 2u);
  EXPECT_TRUE(overlay.timed.empty());
  SettingsOverlay nothing;
  EXPECT_TRUE(SettleSettings(config, &nothing).empty());
}

// `shoal set on_battery=pause` once, later `shoald --on-battery train`.
TEST(SettleSettings, AFlagOfTheTermsIsNewerThanWhatWasSet) {
  SettingsOverlay overlay;
  overlay.terms = {{"on_battery", "pause"}, {"disk", "9GiB"}};
  overlay.timed["on_battery"] = {"pause", 5};
  DaemonConfig config;
  config.on_battery = "train";
  config.disk = "50GiB";  // of a file
  SettingsOverlay kept = overlay;
  const std::vector<std::string> held = SettleSettings(config, &kept);
  EXPECT_EQ(kept.terms, overlay.terms);
  EXPECT_TRUE(kept.timed.contains("on_battery"));
  ASSERT_EQ(held.size(), 2u);
  EXPECT_EQ(held[1],
            "on_battery=pause of an earlier `shoal set` holds, not train: `shoal set "
            "on_battery=default` ends that");
  config.typed = {"on_battery"};
  const std::vector<std::string> said = SettleSettings(config, &overlay);
  EXPECT_EQ(overlay.terms, (std::map<std::string, std::string>{{"disk", "9GiB"}}));
  EXPECT_TRUE(overlay.timed.empty());
  ASSERT_EQ(said.size(), 3u);
  EXPECT_NE(said[1].find("--on-battery train replaces what `shoal set on_battery=... --for` set"),
            std::string::npos);
  EXPECT_EQ(said[2], "--on-battery train replaces on_battery=pause of an earlier `shoal set`");
  EXPECT_FALSE(TermsInForce(config, overlay, 1).pauses_on_battery);
}

constexpr std::int64_t kNow = 1'796'000'000'000;

TEST(WithSettings, TheNewestWordCountsAndDefaultTakesItBack) {
  DaemonConfig config;
  config.upload = BitsPerSecond{20'000'000};
  config.schedule = "sat all";
  SettingsOverlay overlay;
  const auto set = [&](const std::map<std::string, std::string>& arguments) {
    const Result<SettingsOverlay> next = WithSettings(overlay, arguments, kNow);
    ASSERT_TRUE(next.ok()) << next.status().ToString();
    overlay = *next;
  };
  set({{"upload", "5mbit"}, {"schedule", "always"}, {"exclusive", "steam"}});
  EXPECT_EQ(TermsInForce(config, overlay, kNow).upload.value, 5'000'000u);
  EXPECT_TRUE(TermsInForce(config, overlay, kNow).schedule.always());
  set({{"upload", "off"}, {"for", "8h"}});
  EXPECT_EQ(TermsInForce(config, overlay, kNow).upload.value, 0u);
  EXPECT_EQ(TermsInForce(config, overlay, kNow).timed.size(), 1u);
  EXPECT_EQ(TermsInForce(config, overlay, kNow + 8 * 3'600'000).upload.value, 5'000'000u);
  set({{"upload", "7mbit"}});  // of now on, for good
  EXPECT_TRUE(overlay.timed.empty());
  EXPECT_EQ(TermsInForce(config, overlay, kNow).upload.value, 7'000'000u);
  set({{"upload", "default"}, {"schedule", "default"}, {"exclusive", "default"}});
  EXPECT_EQ(TermsInForce(config, overlay, kNow).upload.value, 20'000'000u);
  EXPECT_FALSE(TermsInForce(config, overlay, kNow).schedule.always());
  EXPECT_TRUE(TermsInForce(config, overlay, kNow).exclusive.empty());
}

TEST(WithSettings, DeviceMemoryIsASizeOfTheLimits) {
  DaemonConfig config;
  EXPECT_THAT(
      SettingsJson(config, {}, kNow),
      HasSubstr(R"("name":"device_memory","help":"Most memory of the device for the model, )"
                R"(like 6GiB; off: what it has","value":"off")"));
  config.device_memory_bytes = 3ull << 29;
  EXPECT_THAT(SettingsJson(config, {}, kNow), HasSubstr(R"("value":"1536MiB")"));
  SettingsOverlay set = WithSettings({}, {{"device_memory", "1GiB"}}, kNow).value();
  EXPECT_EQ(TermsInForce(config, set, kNow).device_memory_bytes, 1ull << 30);
  set = WithSettings(set, {{"device_memory", "off"}, {"for", "1h"}}, kNow).value();
  EXPECT_EQ(TermsInForce(config, set, kNow).device_memory_bytes, 0u);
  set = WithSettings(set, {{"device_memory", "default"}}, kNow).value();
  EXPECT_EQ(TermsInForce(config, set, kNow).device_memory_bytes, 3ull << 29);
  EXPECT_FALSE(WithSettings({}, {{"device_memory", "much"}}, kNow).ok());
}

TEST(WithSettings, EveryKeyIsAlsoOneOfTheSettingsFile) {
  const std::string file = FormatConfig(DaemonConfig{});
  for (const std::string& key : TermKeys()) EXPECT_THAT(file, HasSubstr("\n" + key + " = "));
}

TEST(WithSettings, TheCommandLineNamesTheSameKeysInTheSameOrder) {
  std::vector<std::string> names;
  for (const net::LiveSetting& setting : net::kLiveSettings) names.emplace_back(setting.name);
  EXPECT_EQ(names, TermKeys());
}

TEST(WithSettings, WhatIsWrongChangesNothingAndIsNamed) {
  const std::pair<std::map<std::string, std::string>, const char*> wrong[] = {
      {{{"colour", "red"}},
       "there is no setting 'colour'; `shoal set` takes upload, download, schedule"},
      {{{"schedule", "mon"}}, "schedule: 'mon'"},
      {{{"upload", "5mbit"}, {"for", "soon"}}, "write for example --for 8h"},
      {{{"upload", "5mbit"}, {"for", "0s"}}, "from 1s to 366d"},
      {{{"upload", "5mbit"}, {"for", "367d"}}, "from 1s to 366d"},
      {{{"upload", "default"}, {"for", "8h"}}, "needs no --for"}};
  for (const auto& [arguments, part] : wrong) {
    const Result<SettingsOverlay> next = WithSettings({}, arguments, kNow);
    ASSERT_FALSE(next.ok()) << part;
    EXPECT_THAT(next.status().message(), HasSubstr(part));
  }
}

}  // namespace
}  // namespace shoal::daemon
