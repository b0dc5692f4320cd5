#include <gmock/gmock.h>

#include <random>
#include <string>

#include "client/status_view.h"

namespace shoal::client {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kAudit = R"({"schemaVersion":1,"run":"0000000000000012","right":true,
"wrong":"","steps":60,"generations":3,"stepsThrownAway":8,
"thrownAway":[{"firstStep":12,"lastStep":18,"generation":1,"resumedBy":2},
 {"firstStep":40,"lastStep":40,"generation":2,"resumedBy":3}],
"skipped":[{"step":5,"cause":"a gradient is not finite"}],
"epochs":1,"stepsOfEpoch":10,"stepsPerEpoch":50,"samplesPerStep":8,"samples":480,
"members":[{"peer":"1f00a2b3c4","name":"attic","microBatches":240,"microBatchesThrownAway":32},
 {"peer":"2e00a2b3c4","name":"","microBatches":7,"microBatchesThrownAway":0}],
"history":[],"sample":{"row":17,"visits":[{"epoch":0,"step":31,"microBatch":1,"generation":2,
 "pipeline":0,"members":[0,1]},{"epoch":1,"step":55,"microBatch":1,"generation":3}]}})";

constexpr const char* kAuditText =
    "run 0000000000000012  the ledger is right: 480 samples, each counted once in its epoch\n"
    "  progress  60 steps in 3 generations, 1 epoch and 10 of 50 steps\n"
    "  lost      8 steps trained and thrown away\n"
    "            steps 12 to 18 of generation 1, as generation 2 went back\n"
    "            step 40 of generation 2, as generation 3 went back\n"
    "  skipped   step 5: a gradient is not finite\n"
    "  member            micro-batches counted  thrown away\n"
    "  attic (1f00a2b3)  240                    32\n"
    "  2e00a2b3          7                      0\n"
    "  sample 17 in epoch  step  micro-batch  generation  counted by, stage after stage\n"
    "  0                   31    1            2           attic (1f00a2b3), 2e00a2b3\n"
    "  1                   55    1            3           -\n";

TEST(AuditView, SaysWhatTheLedgerSays) {
  const auto view = AuditView(kAudit);
  ASSERT_TRUE(view.ok());
  EXPECT_EQ(*view, kAuditText);
}

TEST(AuditView, SaysWhatIsWrong) {
  EXPECT_EQ(*AuditView(R"({"run":"12","right":false,"wrong":"step 3 has no plan"})"),
            "run 12  the ledger is wrong: step 3 has no plan\n");
}

TEST(AuditView, ShowsTheNewestOfManyLines) {
  std::string text = R"({"run":"12","right":true,"steps":60,"skipped":[)";
  for (int i = 0; i < 30; ++i) {
    text += (i > 0 ? "," : "") + (R"({"step":)" + std::to_string(i)) + R"(,"cause":"x"})";
  }
  EXPECT_THAT(*AuditView(text + "]}"), AllOf(HasSubstr("skipped   20 earlier ones"),
                                             HasSubstr("step 20: x"), Not(HasSubstr("step 19:"))));
}

constexpr const char* kEvents = R"({"run":"12","generations":3,"stepsLost":2,
"secondsWithoutStep":4.9,"entries":9,"events":[
{"kind":"began","time":1700000000000},
{"kind":"joined","time":1700000001999,"peer":"1f00a2b3c4","name":"attic","unstored":0},
{"kind":"generation","time":1700000002000,"step":0,"generation":1,"pipelines":1,
 "stepsBefore":"none","stepsLost":0,"secondsWithoutStep":null,"atMost":false,"replaced":[]},
{"kind":"ended","time":1700000006000,"generation":1,"step":4,"reason":"lost cellar"},
{"kind":"left","time":1700000007000,"peer":"2e00a2b3c4","name":"cellar","reason":"why",
 "unstored":3},
{"kind":"generation","time":1700000008000,"step":2,"generation":2,"pipelines":1,
 "stepsBefore":"trained_again","stepsLost":2,"secondsWithoutStep":3.5,"atMost":false,
 "replaced":[{"pipeline":0,"stage":1,"from":{"peer":"2e00a2b3c4","name":"cellar"},
 "to":{"peer":"3d00a2b3c4","name":""}},{"pipeline":1,"stage":0,
 "from":{"peer":"4c00a2b3c4","name":"shed"},"to":null}]},
{"kind":"counting","time":1700000009000,"step":3,"pipelines":[0,2],"reason":"lost peer anna"},
{"kind":"skipped","time":1700000010000,"step":3,"reason":"not finite"},
{"kind":"scheduler","time":null},
{"kind":"generation","time":1700000012000,"step":9,"generation":3,"pipelines":1,
 "stepsBefore":"kept","stepsLost":0,"secondsWithoutStep":1.4,"atMost":true,"replaced":[]},
{"kind":"paused","time":1700000013000,"reason":"by the organiser"},
{"kind":"resumed","time":1700000014000},
{"kind":"finished","time":1700000015000,"step":1}]})";

constexpr const char* kEventsText =
    "run 12  3 generations, 2 steps lost, 4.9s without a step between them\n"
    "  time (UTC)           event       \n"
    "  2023-11-14 22:13:20  began       \n"
    "  2023-11-14 22:13:21  joined      attic (1f00a2b3)\n"
    "  2023-11-14 22:13:22  generation  1 from step 0: the first\n"
    "  2023-11-14 22:13:26  ended       1 before step 4: lost cellar\n"
    "  2023-11-14 22:13:27  left        cellar (2e00a2b3): why; before it 3 more joined or left "
    "too often to be listed\n"
    "  2023-11-14 22:13:28  generation  2 from step 2: 2 steps lost, trained again, 3.5s without "
    "a step; stage 1, pipeline 0: 3d00a2b3 for cellar (2e00a2b3); stage 0, pipeline 1: nobody any "
    "more\n"
    "  2023-11-14 22:13:29  counting    from step 3 on pipelines 0 2: lost peer anna\n"
    "  2023-11-14 22:13:30  skipped     step 3: not finite\n"
    "  -                    scheduler   started again\n"
    "  2023-11-14 22:13:32  generation  3 from step 9: no step lost, kept in memory, at most 1.4s "
    "without a step\n"
    "  2023-11-14 22:13:33  paused      by the organiser\n"
    "  2023-11-14 22:13:34  resumed     \n"
    "  2023-11-14 22:13:35  finished    after 1 step\n";

TEST(EventsView, SaysWhatHappenedAndWhatItCost) {
  const auto view = EventsView(kEvents);
  ASSERT_TRUE(view.ok());
  EXPECT_EQ(*view, kEventsText);
}

TEST(ReportView, ForeignTextNeitherSteersTheTerminalNorCrashes) {
  EXPECT_FALSE(AuditView("nonsense").ok());
  EXPECT_FALSE(EventsView("[]").ok());
  EXPECT_THAT(*EventsView(R"({"events":[{"kind":"left","name":"a\u001b[2J","peer":"00"}]})"),
              Not(HasSubstr("\x1b")));
  EXPECT_THAT(*EventsView(R"({"events":[{"kind":"began","time":1e300}]})"),
              HasSubstr("9999-12-31 23:59:59"));
  std::mt19937 random(6);
  for (const std::string whole : {kAudit, kEvents}) {
    for (int round = 0; round < 3000; ++round) {
      std::string bytes = whole;
      for (int i = 0; i < 3; ++i) bytes[random() % bytes.size()] = static_cast<char>(random());
      (void)AuditView(bytes).ok();
      (void)EventsView(bytes).ok();
    }
  }
}

}  // namespace
}  // namespace shoal::client
