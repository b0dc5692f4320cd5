#include "daemon/terms/terms.h"

#include <gmock/gmock.h>

#include "fake_machine.h"

namespace shoal::daemon {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class TermsTest : public testing::Test {
 protected:
  TermsTest() { UseCentralEurope(); }
  void Set(const std::string& key, const std::string& value) {
    const Status status = ApplyTerm(key, value, &settings_);
    ASSERT_TRUE(status.ok()) << status.ToString();
  }
  Allowed At(UnixSeconds time) const { return Decide(settings_, seen_, SystemCalendar(), time); }

  TermSettings settings_;
  TermObservations seen_;
};

TEST_F(TermsTest, WithoutRulesAllIsAllowed) {
  const Allowed allowed = At(kMonday);
  EXPECT_TRUE(allowed.trains());
  EXPECT_THAT(allowed.rules, IsEmpty());
  EXPECT_FALSE(allowed.next_change);
  EXPECT_EQ(allowed.upload.value, 0u);
}

TEST_F(TermsTest, AScheduleOverMidnightPausesAndNamesWhenItGoesOn) {
  Set("schedule", "mon-fri 18:00-08:00, sat-sun all");
  // Monday before 08:00 belongs to Sunday's night, which is not named; sat-sun ends at midnight.
  EXPECT_FALSE(At(kMonday + 7 * kHour).trains());
  EXPECT_TRUE(At(kMonday + kDay + 7 * kHour).trains());
  const Allowed noon = At(kMonday + 12 * kHour);
  EXPECT_EQ(noon.pause, PauseRule::kSchedule);
  EXPECT_EQ(noon.pause_text, "paused until 18:00: schedule");
  EXPECT_EQ(noon.until, kMonday + 18 * kHour);
  EXPECT_THAT(noon.rules, ElementsAre(noon.pause_text));
  EXPECT_TRUE(At(kMonday + 18 * kHour).trains());
  EXPECT_EQ(At(kMonday + 18 * kHour).next_change, kMonday + kDay + 8 * kHour);
  // Friday evening to Sunday's end is one stretch.
  EXPECT_EQ(At(kMonday + 4 * kDay + 19 * kHour).next_change, kMonday + 7 * kDay);
}

TEST_F(TermsTest, AStartThatIsDaysAwayHasItsDay) {
  Set("schedule", "sat 10:00-12:00");
  EXPECT_EQ(At(kMonday).pause_text, "paused until Sat 10:00: schedule");
}

// 29 March 2026: 02:00 becomes 03:00.
TEST_F(TermsTest, ATimeThatClocksSkipHoldsFromTheNextMinuteThatThereIs) {
  Set("schedule", "sun 02:30-05:00");
  const UnixSeconds sunday = kMonday + 83 * kDay;
  EXPECT_FALSE(At(sunday + kHour + 59 * 60).trains());
  EXPECT_EQ(At(sunday + kHour).next_change, sunday + 2 * kHour);
  EXPECT_TRUE(At(sunday + 2 * kHour).trains());
  EXPECT_EQ(At(sunday + 2 * kHour).next_change, sunday + 4 * kHour);  // 05:00, an hour earlier
}

// 25 October 2026: 03:00 becomes 02:00.
TEST_F(TermsTest, AnHourThatComesTwiceHoldsTwice) {
  Set("schedule", "02:00-03:00");
  const UnixSeconds sunday = kMonday + 293 * kDay - kHour;
  EXPECT_FALSE(At(sunday + 2 * kHour - 60).trains());
  EXPECT_TRUE(At(sunday + 2 * kHour).trains());
  EXPECT_TRUE(At(sunday + 4 * kHour - 60).trains());
  EXPECT_EQ(At(sunday + 2 * kHour).next_change, sunday + 4 * kHour);
  EXPECT_FALSE(At(sunday + 4 * kHour).trains());
}

TEST_F(TermsTest, QuietHoursLowerCapsAndNeverRaiseThem) {
  Set("upload", "20mbit");
  Set("download", "10mbit");
  Set("quiet", "08:00-22:00 upload=5mbit download=20mbit");
  const Allowed night = At(kMonday);
  EXPECT_EQ(night.upload.value, 20'000'000u);
  EXPECT_THAT(night.rules, IsEmpty());
  EXPECT_EQ(night.next_change, kMonday + 8 * kHour);
  const Allowed noon = At(kMonday + 12 * kHour);
  EXPECT_TRUE(noon.trains());
  EXPECT_EQ(noon.upload.value, 5'000'000u);
  EXPECT_EQ(noon.download.value, 10'000'000u);
  EXPECT_THAT(noon.rules, ElementsAre("upload 5 Mbit/s until 22:00: quiet hours"));
}

TEST_F(TermsTest, ACapForATimeGoesBeforeQuietHours) {
  Set("quiet", "all upload=5mbit");
  Set("upload", "50mbit");
  settings_.timed = {{"upload", "50mbit", kMonday + 2 * kHour}};
  const Allowed allowed = At(kMonday);
  EXPECT_EQ(allowed.upload.value, 50'000'000u);
  EXPECT_THAT(allowed.rules, ElementsAre("upload=50mbit until 02:00: set for a time"));
  EXPECT_EQ(allowed.next_change, kMonday + 2 * kHour);
}

TEST_F(TermsTest, ABudgetCountsTheMonthAndPausesToItsEnd) {
  Set("budget", "300GB/month");
  seen_.month_bytes = 212'000'000'000;
  Allowed allowed = At(kMonday);
  EXPECT_TRUE(allowed.trains());
  EXPECT_THAT(allowed.rules,
              ElementsAre("transfer budget: 212 of 300 GB used, resets on 1 February"));
  seen_.month_bytes = 300'000'000'000;
  allowed = At(kMonday);
  EXPECT_EQ(allowed.pause, PauseRule::kBudget);
  EXPECT_THAT(allowed.pause_text, HasSubstr("paused until 1 February: the transfer budget"));
  EXPECT_EQ(allowed.until, kMonday + 27 * kDay);
  EXPECT_EQ(allowed.next_change, allowed.until);
  // December's next month is in another year.
  EXPECT_EQ(At(kMonday - 5 * kDay).budget_resets, kMonday - 4 * kDay);
}

TEST_F(TermsTest, ProgramsAndBatteryPause) {
  seen_.on_battery = true;
  EXPECT_EQ(At(kMonday).pause, PauseRule::kBattery);
  Set("on_battery", "train");
  EXPECT_TRUE(At(kMonday).trains());
  seen_.program = "steam";
  EXPECT_EQ(At(kMonday).pause, PauseRule::kProgram);
  EXPECT_EQ(At(kMonday).pause_text, "paused: steam runs, or ran a moment ago");
  Set("schedule", "sat all");
  EXPECT_EQ(At(kMonday).pause, PauseRule::kSchedule);
}

TEST_F(TermsTest, WhoUsesTheGpuPausesWhereItsOwnerWantsThat) {
  seen_.gpu_user = "blender";
  EXPECT_TRUE(At(kMonday).trains());
  Set("gpu_free", "3m");
  EXPECT_EQ(At(kMonday).pause, PauseRule::kGpu);
  EXPECT_EQ(PauseRuleName(PauseRule::kGpu), "gpu");
  EXPECT_EQ(At(kMonday).pause_text, "paused: the GPU is used by blender, or was a moment ago");
  seen_.gpu_user.clear();
  EXPECT_TRUE(At(kMonday).trains());
}

TEST_F(TermsTest, APowerLimitPausesNobody) {
  Set("gpu_power", "200W");
  EXPECT_TRUE(At(kMonday).trains());
  EXPECT_EQ(At(kMonday).gpu_watts, 200u);
}

TEST_F(TermsTest, EveryKeyIsReadStrictlyAndItsErrorShowsAnExample) {
  const std::pair<const char*, const char*> wrong[] = {
      {"schedule", ""},
      {"schedule", "mon"},
      {"schedule", "mon 18:00"},
      {"schedule", "mon 18:00-25:00"},
      {"schedule", "mon 18:60-19:00"},
      {"schedule", "mon 24:00-08:00"},
      {"schedule", "mon 8:00-9:00"},
      {"schedule", "08:00-08:00"},
      {"schedule", "mon-fry all"},
      {"schedule", "mon all,"},
      {"schedule", "off"},
      {"quiet", "08:00-22:00"},
      {"quiet", "upload=5mbit"},
      {"quiet", "08:00-22:00 upload=5"},
      {"quiet", "08:00-22:00 upload=off"},
      {"quiet", "08:00-22:00 upload=5mbit upload=6mbit"},
      {"quiet", "08:00-22:00 speed=5mbit"},
      {"budget", "300GB"},
      {"budget", "300/month"},
      {"budget", "0GB/month"},
      {"budget", "-1GB/month"},
      {"budget", "300GB/week"},
      {"exclusive", ""},
      {"exclusive", "steam,,blender"},
      {"exclusive", "/usr/bin/steam"},
      {"on_battery", "maybe"},
      {"gpu_free", "3"},
      {"gpu_free", "0s"},
      {"gpu_free", "25h"},
      {"disk", "100"},
      {"disk", "much"},
      {"gpu_power", "200"},
      {"gpu_power", "0W"},
      {"gpu_power", "-5W"},
      {"gpu_power", "9000W"},
      {"gpu_power", "2.5W"},
      {"upload", "5"}};
  for (const auto& [key, value] : wrong) {
    TermSettings settings;
    const Status status = ApplyTerm(key, value, &settings);
    ASSERT_FALSE(status.ok()) << key << "=" << value;
    EXPECT_THAT(status.message(),
                testing::AnyOf(HasSubstr("write for example"), HasSubstr("none of pause, train")));
  }
  EXPECT_THAT(ApplyTerm("colour", "red", &settings_).message(), HasSubstr("upload, download, "));
  EXPECT_FALSE(ApplyTerm("exclusive", std::string(2000, 'a'), &settings_).ok());
}

TEST_F(TermsTest, EveryRuleCanBeTakenAway) {
  Set("schedule", "sat 10:00-12:00");
  Set("quiet", "fri-mon 08:00-24:00 download=20mbit");
  Set("budget", "1.5TB/month");
  Set("exclusive", "steam, blender");
  Set("gpu_free", "3m");
  Set("gpu_power", "200W");
  Set("disk", "100GiB");
  EXPECT_EQ(settings_.disk_bytes, 100ull << 30);
  EXPECT_THAT(settings_.exclusive, ElementsAre("steam", "blender"));
  EXPECT_EQ(settings_.budget_bytes, 1'500'000'000'000u);
  Set("schedule", "always");
  for (const char* key :
       {"quiet", "budget", "exclusive", "upload", "gpu_free", "gpu_power", "disk"})
    Set(key, "off");
  EXPECT_EQ(At(kMonday), Decide({}, {}, SystemCalendar(), kMonday));
}

}  // namespace
}  // namespace shoal::daemon
