#include "client/status_view.h"

#include <gmock/gmock.h>

#include <random>

namespace shoal::client {
namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kPeer = R"({"schemaVersion":1,"name":"attic","state":"training",
"stateReasons":[],"since":1000,"time":201000,
"swarm":{"name":"demo","state":"training","reason":"","step":40,"targetStep":200,"loss":3.25,
 "epochs":1.25,"targetEpochs":6.25,"losses":[[38,4.0],[39,3.25]],
 "heldOutLoss":3.5,"heldOutStep":30,"heldOut":[[0,4.5],[30,3.5]]},
"role":{"stage":0,"stages":2,"pipeline":1,"pipelines":2,"layers":[0,2],
 "lan":[0,1]},
"device":"cpu","memory":{"stateBytes":2097152},"fetch":{"doneBytes":5,"totalBytes":5},
"work":{"microBatches":32,"schedule":"zero-bubble","inFlightMax":12,"pendingWeightsMax":9,
 "memoryMaxBytes":3145728,"simulatedMs":6312.5,"unlimitedMs":6249.6,"samplesPerSecond":12.34,
 "time":[{"activity":"forward","ms":2000},
 {"activity":"backward_input","ms":2500},{"activity":"backward_weights","ms":2000},
 {"activity":"optimizer","ms":500},
 {"activity":"wait_gradient","ms":2700},{"activity":"wait_codec","ms":300},
 {"activity":"wait_input","ms":0}]},
"links":[{"channel":"boundary/1/0","name":"cellar","connected":true,"path":"direct","upBps":5000000,
 "downBps":2500000,"ratio":7.96,
 "sentWireBytes":1048576,"receivedWireBytes":1024,"rttMs":12.5,"queueBytes":0,
 "stallRateLimitMs":100,"stallNetworkMs":3700},
 {"channel":"shared/0.1","name":"cellar","connected":false}],
"traffic":{"forward":{"wireSentBytes":1024,"rawSentBytes":8192,"wireReceivedBytes":0,
 "rawReceivedBytes":0,"ratio":8.0},"backward":{},"replica":{},
 "control":{"wireSentBytes":100,"wireReceivedBytes":200}},
"limits":{"upBps":20000000,"downBps":0},
"terms":{"reason":"none","rules":["upload 20 Mbit/s in quiet hours"]},
"pacing":{"mode":"auto","lineBps":18000000,"upBps":19000000},
"deltaStore":{"bytes":2048,"records":16,"limit":1073741824,"hits":3,"misses":1},
"boundaries":[{"boundary":0,"side":"sender","mode":"delta","relativeDelta":0.0525,
 "lastRelativeDelta":0.049,"relativeDeltaP90":0.113,
 "forwardError":0.0131,"lastForwardError":0.01,"backwardError":null,
 "deltaHits":12,"firstVisits":4,"resends":0},
 {"boundary":1,"side":"receiver","mode":null,"relativeDelta":null}],
"health":[{"severity":"warning","text":"the disk is slow","fix":"buy another"}]})";

constexpr const char* kPeerText =
    "attic  training for 3m 20s\n"
    "  run          demo, training\n"
    "  progress     step 40 of 200, epoch 1.2 of 6.2, loss 3.2500, 12.3 samples/s\n"
    "  role         stage 0 (of 2), pipeline 1 (of 2), layers 0 to 1\n"
    "  LAN          shared by the peers of pipelines 0, 1, which add up first\n"
    "  loss         █▁\n"
    "  held out     3.5000 after 30 steps, 4.5000 before the first step\n"
    "  device       cpu, 2.00 MiB of weights and optimizer\n"
    "  limits       upload cap 20 Mbit/s, download no cap\n"
    "  terms        upload 20 Mbit/s in quiet hours\n"
    "  line         takes 18 Mbit/s up, as measured; uploads keep to 19 Mbit/s\n"
    "  computes     70 % of the time: forward 20, input gradients 25, weight gradients 20, "
    "optimizer 5\n"
    "  waits for    gradients of cellar 27 %, its codec 3 %\n"
    "  schedule     zero-bubble: at most 12 micro-batches in flight, 9 with weight gradients "
    "pending, "
    "up to 3.00 MiB of memory; simulated step 6.3s, 6.2s without bounds\n"
    "  delta store  2.00 KiB in 16 samples (quota 1.00 GiB), 75 % hits\n"
    "  boundary 0   tokens change by 5.2 % (a tenth by 11 % or more); activations sent with error "
    "1.3 %; "
    "12 changes, 4 first visits\n"
    "  link          peer    path    up          down        ratio  sent      received  rtt      "
    "busy  queue\n"
    "  boundary/1/0  cellar  direct  5 Mbit/s    2.5 Mbit/s  8.0x   1.00 MiB  1.00 KiB  12.5 ms  "
    "38 %  0 B\n"
    "  shared/0.1    cellar  -       connecting  -           -      0 B       0 B       -        "
    "0 %   0 B\n"
    "  traffic  sent      received  as fp32   ratio\n"
    "  forward  1.00 KiB  0 B       8.00 KiB  8.0x\n"
    "  control  100 B     200 B               \n"
    "  warning: the disk is slow; buy another\n";

constexpr const char* kRun = R"({"run":{"name":"demo","state":"paused",
"reason":"attic of stage 0 left","step":7,"steps":100,"loss":2.5,"samplesPerSecond":8,
"stepSeconds":4.21,"checkpointStep":5,"checkpointEvery":10,
"skippedSteps":2,"lastSkipped":"attic's gradient at step 6",
"losses":[3,2.5],"heldOutLoss":2.25,"heldOutStep":1,"heldOut":[[1,2.25]]},
"members":[
 {"name":"attic","peer":"0123456789abcdef","stage":0,"pipeline":0,"connected":true,
  "state":"waiting","status":{
  "role":{"stage":0},"work":{"microBatches":100,"schedule":"zero-bubble","inFlightMax":12,
   "pendingWeightsMax":9,"simulatedMs":640.2,"unlimitedMs":633.4,
   "time":[{"activity":"forward","ms":3},{"activity":"wait_gradient","ms":1}]},
  "links":[{"upBps":1000000,"downBps":0},{"upBps":1000000,"downBps":500000}],
  "traffic":{"sentWireBytes":4096,"forward":{"rawSentBytes":800,"wireSentBytes":100}},
  "health":[{"severity":"warning","text":"boundary 0 sends whole activations",
   "fix":"lower the learning rate"}]}},
 {"name":"cellar","peer":"fedcba9876543210","stage":-1,"connected":false}],
"consistency":{"mChecks":7,"mMismatches":2},
"logs":{"failures":3,"lastFailure":"no space for run.jsonl"}})";

constexpr const char* kRunText =
    "demo  paused: attic of stage 0 left\n"
    "  progress    step 7 of 100, loss 2.5000, 8.0 samples/s, 4.2s a step\n"
    "  checkpoint  step 5, one every 10 steps\n"
    "  loss        █▁\n"
    "  held out    2.2500 after 1 step\n"
    "  peer    id        position             state    up        down        sent      ratio\n"
    "  attic   01234567  stage 0, pipeline 0  waiting  2 Mbit/s  500 kbit/s  4.00 KiB  8.0x\n"
    "  cellar  fedcba98  spare                gone     -         -           0 B       -\n"
    "  peer   computes  waits for            schedule     most in flight  most W pending  "
    "simulated step\n"
    "  attic  75 %      the next stage 25 %  zero-bubble  12              9               640ms "
    "for 64 "
    "micro-batches, 633ms without bounds\n"
    "  warning: the two ends of a boundary differed after 2 steps; what differs is sent again in "
    "full\n"
    "  warning: 2 steps were skipped; attic's gradient at step 6\n"
    "  warning: a log is not written; it tries again: no space for run.jsonl\n"
    "  attic, warning: boundary 0 sends whole activations; lower the learning rate\n";

TEST(StatusView, ShowsAPeer) {
  const Result<std::string> view = PeerView(kPeer);
  ASSERT_TRUE(view.ok()) << view.status().ToString();
  EXPECT_EQ(*view, kPeerText);
}

TEST(StatusView, ShowsARun) {
  const Result<std::string> view = SwarmView(kRun);
  ASSERT_TRUE(view.ok()) << view.status().ToString();
  EXPECT_EQ(*view, kRunText);
}

TEST(StatusView, SaysOnceWhatSeveralPeersSay) {
  const auto view =
      SwarmView(R"({"members":[{"name":"a","status":{"health":[)"
                R"({"severity":"warning","text":"t","fix":"f"}]}},)"
                R"({"name":"b","status":{"health":[{"severity":"warning","text":"t","fix":"f"},)"
                R"({"severity":"error","text":"u","fix":"g"}]}}]})");
  EXPECT_THAT(view.value(), HasSubstr("  a, b, warning: t; f\n  b, error: u; g\n"));
}

TEST(StatusView, SaysWhereCopiesAreAndWhyTheyAreNot) {
  const auto view = [](const std::string& store) {
    return SwarmView(R"({"checkpointStore":{)" + store + "}}").value();
  };
  EXPECT_THAT(view(R"("address":"")"), Not(HasSubstr("stored")));
  EXPECT_THAT(view(R"("address":"s3://b/a","state":"idle","step":null)"),
              HasSubstr("nothing in s3://b/a\n"));
  EXPECT_THAT(view(R"("address":"s3://b/a","state":"uploading","step":10,"pendingStep":20)"),
              HasSubstr("step 10 in s3://b/a, step 20 uploading\n"));
  EXPECT_THAT(view(R"("address":"s3://b/a","state":"waiting","step":10,"pendingStep":20,)"
                   R"("lastFailure":"the store answered PUT with 503")"),
              HasSubstr("step 10 in s3://b/a, step 20 waits to try again; last failure: the store "
                        "answered PUT with 503\n"));
}

TEST(StatusView, TellsPeersOfOneNameApart) {
  const auto member = [](const std::string& name, const std::string& id, const char* use) {
    return R"({"name":")" + name + R"(","peer":")" + id +
           R"(","status":{"work":{"time":[{"activity":")" + use + R"(","ms":1}]},"health":[)" +
           R"({"severity":"warning","text":")" + use + R"(","fix":"f"}]}})";
  };
  const auto view = SwarmView(R"({"members":[)" + member("vm", "aaaaaaaa11", "forward") + "," +
                              member("vm", "bbbbbbbb22", "exchange") + "," +
                              member("attic", "cccccccc33", "forward") + "]}");
  EXPECT_THAT(view.value(),
              AllOf(HasSubstr("  vm (aaaaaaaa)  100 %"), HasSubstr("  vm (bbbbbbbb)  0 %"),
                    HasSubstr("  attic          100 %"),
                    HasSubstr("  vm (aaaaaaaa), attic, warning: forward; f\n"),
                    HasSubstr("  vm (bbbbbbbb), warning: exchange; f\n")));
}

TEST(StatusView, LeavesOutWhatIsMissing) {
  const Result<std::string> peer = PeerView(R"({"name":"attic","state":"idle",)"
                                            R"("stateReasons":["no invite yet"]})");
  ASSERT_TRUE(peer.ok());
  EXPECT_THAT(*peer, AllOf(HasSubstr("attic  idle: no invite yet\n"), Not(HasSubstr("run ")),
                           Not(HasSubstr("device")), Not(HasSubstr("loss"))));
  EXPECT_TRUE(PeerView("{}").ok());
  EXPECT_TRUE(SwarmView("{}").ok());
}

TEST(StatusView, SaysWhatAReceiverAndTheGuardDo) {
  const auto view = PeerView(
      R"({"boundaries":[{"boundary":2,"side":"receiver","mode":"wide delta","backwardError":0.3,)"
      R"("deltaHits":1,"resends":3},{"boundary":3,"mode":"full"}]})");
  EXPECT_THAT(view.value(),
              AllOf(HasSubstr("boundary 2   changes with twice the bits, as they are large; "
                              "gradients sent with error 30 %; 1 changes, 0 first visits; "
                              "3 sent again in full\n"),
                    HasSubstr("boundary 3   whole activations, as changes are too large\n")));
}

TEST(StatusView, SaysHowGradientsWithMTravel) {
  const auto view =
      PeerView(R"({"boundaries":[{"boundary":2,"side":"receiver","deltaHits":5,"gradients":)"
               R"({"relativeDelta":0.13,"relativeDeltaP90":0.3,"deltaHits":4,"firstVisits":2,)"
               R"("resends":1}},)"
               R"({"boundary":3,"gradients":{"relativeDelta":null,"deltaHits":1}},)"
               R"({"boundary":4,"deltaHits":1,"gradients":null}]})");
  EXPECT_THAT(view.value(),
              AllOf(HasSubstr("boundary 2   5 changes, 0 first visits; gradients change by 13 % "
                              "(a tenth by 30 % or more); gradients: 4 changes, 2 first visits; "
                              "1 sent again in full\n"),
                    HasSubstr("boundary 3   gradients: 1 changes, 0 first visits\n"),
                    HasSubstr("boundary 4   1 changes, 0 first visits\n")));
}

TEST(StatusView, SaysHowManyGradientsAreLowRank) {
  const auto view = [](const std::string& low_rank) {
    return PeerView(R"({"boundaries":[{"boundary":1,"lowRank":)" + low_rank + "}]}").value();
  };
  const std::string counts = R"("messages":80,"ratio":0.25,"bitsPerValue":0.75,)"
                             R"("otherBitsPerValue":2.7)";
  EXPECT_THAT(view("{" + counts + R"(,"correlation":0.913,"lazy":true})"),
              HasSubstr("boundary 1   25 % of 80 gradients low rank (0.75 bits a value, others "
                        "2.70), their error is added to the next one (activations alike "
                        "by 0.91)\n"));
  EXPECT_THAT(view("{" + counts + R"(,"correlation":null,"lazy":false})"),
              HasSubstr("others 2.70), their error is dropped\n"));
  EXPECT_THAT(view("{" + counts + R"(,"correlation":null,"lazy":null})"),
              HasSubstr("others 2.70)\n"));
  EXPECT_THAT(view("null"), Not(HasSubstr("low rank")));
}

TEST(StatusView, NamesOnlyTheBoundsThatTheScheduleHas) {
  const auto view = [](const std::string& role, const std::string& work) {
    return PeerView(R"({"role":)" + role + R"(,"work":{)" + work + "}}").value();
  };
  const std::string plain =
      R"("schedule":"1f1b","inFlightMax":3,"pendingWeightsMax":1,"simulatedMs":0,"unlimitedMs":0)";
  EXPECT_THAT(view("{}", R"("microBatches":8,)" + plain),
              HasSubstr("  schedule     1f1b: at most 3 micro-batches in flight\n"));
  EXPECT_THAT(view("{}", R"("microBatches":8,"schedule":"1f1b","inFlightMax":1,)"
                         R"("simulatedMs":80,"unlimitedMs":80)"),
              HasSubstr("at most 1 micro-batch in flight; simulated step 80ms, as without "
                        "bounds\n"));
  // Before the first step of a generation nothing was chosen.
  EXPECT_THAT(view("{}", R"("microBatches":0,)" + plain), Not(HasSubstr("schedule")));
  EXPECT_THAT(view("null", R"("microBatches":8,)" + plain), Not(HasSubstr("schedule")));
  const std::string run = SwarmView(R"({"members":[{"name":"a","status":{"role":{},"work":{)"
                                    R"("time":[{"activity":"forward","ms":9}],"microBatches":8,)" +
                                    plain + "}}}]}")
                              .value();
  EXPECT_THAT(
      run, HasSubstr("  a     100 %     -          1f1b      3               -               -\n"));
  const std::string early = SwarmView(R"({"members":[{"name":"a","status":{"work":{"time":[)"
                                      R"({"activity":"wait_step","ms":9}]}}}]})")
                                .value();
  EXPECT_THAT(
      early,
      HasSubstr(
          "  a     0 %       end of step 100 %  -         -               -               -"));
  EXPECT_THAT(SwarmView(R"({"members":[{"name":"a"}]})").value(), Not(HasSubstr("computes")));
}

TEST(StatusView, ShowsHowFarAFetchIs) {
  const auto view = PeerView(R"({"fetch":{"doneBytes":1048576,"totalBytes":4194304}})");
  EXPECT_THAT(view.value(), HasSubstr("fetched      1.00 MiB of 4.00 MiB"));
}

TEST(StatusView, ShowsADeltaStore) {
  const std::string stats = StoreView("stats", R"({"directory":"/srv/shoal","records":3,
      "bytes":3072,"diskBytes":4096,"notice":"","boundaries":[{"run":"00000000000000ff",
      "boundary":1,"side":"receiver","records":3,"oldestStep":4,"newestStep":9}]})")
                                .value();
  EXPECT_THAT(stats, HasSubstr("/srv/shoal  3 records, 3.00 KiB of m in 4.00 KiB of files\n"));
  EXPECT_THAT(stats, HasSubstr("00000000000000ff  1         receiver  3        4 to 9"));
  EXPECT_THAT(StoreView("verify", R"({"records":3,"good":3,"damaged":0})").value(),
              HasSubstr("every record is as it was written"));
  EXPECT_THAT(StoreView("verify", R"({"records":2,"good":2,"damaged":1})").value(),
              HasSubstr("1 records were dropped"));
  EXPECT_THAT(StoreView("compact", R"({"diskBytesBefore":2048})").value(), HasSubstr("2.00 KiB"));
  EXPECT_THAT(StoreView("drop", R"({"dropped":7,"notice":"look"})").value(),
              testing::AllOf(HasSubstr("dropped 7 records"), HasSubstr("warning: look")));
  EXPECT_FALSE(StoreView("stats", "[]").ok());
}

TEST(StatusView, ShowsInvitesAndMembers) {
  const auto invites = InvitesView(R"({"schemaVersion":1,"invites":[
    {"id":"01ab","name":"Ana\u001b[31m","state":"used up","uses":2,"usesLeft":0,
     "expiresUnixMs":1700000000000,"usedBy":[{"peer":"abcdef0123","name":"attic"},
     {"peer":"1"},{"peer":"2"},{"peer":"3"},{"peer":"4"}]},
    {"id":"02cd","name":"standing invite","state":"open","uses":null,"usesLeft":null,
     "expiresUnixMs":null,"usedBy":[]}]})");
  ASSERT_TRUE(invites.ok());
  EXPECT_THAT(*invites, AllOf(HasSubstr("01ab"), HasSubstr("0 of 2"), HasSubstr("used up"),
                              HasSubstr("2023-11-14 22:13 UTC"), HasSubstr("attic (abcdef01)"),
                              HasSubstr("and 1 more"), Not(HasSubstr("\x1b"))));
  EXPECT_THAT(*invites, AllOf(HasSubstr("no limit"), HasSubstr("never")));
  const auto members = MembersView(R"({"schemaVersion":1,"members":[
    {"peer":"abcdef0123","name":"attic","invite":"01ab","inviteName":"Ana",
     "sinceUnixMs":1700000000000,"lastSeenUnixMs":null,"state":"kicked","connected":false,
     "reason":"noise"},
    {"peer":"cc","name":"liar","invite":"02cd","inviteName":"","sinceUnixMs":1,
     "lastSeenUnixMs":1,"state":"quarantine","connected":true,"reason":"its loss is -50",
     "quarantineUntilUnixMs":1700000000000},
    {"peer":"bb","name":"","invite":"02cd","inviteName":"","sinceUnixMs":1,
     "lastSeenUnixMs":1,"state":"training","connected":true,"reason":""}]})");
  ASSERT_TRUE(members.ok());
  EXPECT_THAT(*members, AllOf(HasSubstr("abcdef01"), HasSubstr("Ana"), HasSubstr("kicked: noise"),
                              HasSubstr("02cd"), HasSubstr("now"), HasSubstr("training"),
                              HasSubstr("quarantine until 2023-11-14 22:13 UTC: its loss is -50")));
  EXPECT_THAT(*MembersView(R"({"members":[]})"), HasSubstr("nobody has joined yet"));
  EXPECT_FALSE(MembersView("nonsense").ok());
  EXPECT_TRUE(InvitesView(R"({"invites":[7,{"expiresUnixMs":1e300,"usedBy":"x"}]})").ok());
}

TEST(StatusView, RefusesWhatIsNoStatus) {
  for (const char* text : {"", "[]", "3", "\"text\"", "null", "{", "{\"a\":", "\xff"}) {
    EXPECT_EQ(PeerView(text).status().code(), StatusCode::kDataLoss) << text;
    EXPECT_EQ(SwarmView(text).status().code(), StatusCode::kDataLoss) << text;
  }
}

TEST(StatsView, ShowsDaysAndAllOfThem) {
  const auto view = StatsView(
      R"({"schemaVersion":1,"days":[{"day":"2026-11-28","trainedMs":7500000,"microBatches":512,)"
      R"("sentBytes":2048,"receivedBytes":1024}],"total":{"trainedMs":9000000,"microBatches":600,)"
      R"("sentBytes":4096,"receivedBytes":1024},"diskBytes":5120})");
  ASSERT_TRUE(view.ok());
  EXPECT_EQ(*view,
            "day         trained  micro-batches  sent      received\n"
            "2026-11-28  2h 05m   512            2.00 KiB  1.00 KiB\n"
            "in all      2h 30m   600            4.00 KiB  1.00 KiB\n"
            "disk space now: 5.00 KiB\n");
  const auto energy = StatsView(R"({"days":[{"day":"2026-11-28","energyJoules":360000}],)"
                                R"("total":{"energyJoules":4500000},"diskBytes":0})");
  ASSERT_TRUE(energy.ok());
  EXPECT_THAT(*energy, HasSubstr("received  energy\n"));
  EXPECT_THAT(*energy, HasSubstr("100 Wh\n"));
  EXPECT_THAT(*energy, HasSubstr("1.25 kWh\n"));
  EXPECT_TRUE(StatsView("{\"days\":[1,{}],\"total\":[]}").ok());
  EXPECT_FALSE(StatsView("[]").ok());
}

TEST(SettingsView, ShowsWhatIsSetAndForHowLong) {
  const auto view = SettingsView(
      R"({"schemaVersion":1,"settings":[{"name":"upload","help":"Cap","value":"20mbit","until":0},)"
      R"({"name":"quiet","help":"Times","value":"off","until":1764421200000}]})");
  ASSERT_TRUE(view.ok());
  EXPECT_THAT(*view, HasSubstr("setting  value"));
  EXPECT_THAT(*view, ContainsRegex("\nupload   20mbit +Cap\n"));
  EXPECT_THAT(*view, ContainsRegex("\nquiet    off until [A-Z][a-z]+ 2025-11-[0-9]+ "
                                   "[0-9]+:[0-9]+  Times\n"));
  EXPECT_THAT(*view, HasSubstr("`shoal set KEY=VALUE`"));
  EXPECT_TRUE(SettingsView(R"({"settings":[3,{"until":1e300}]})").ok());
  EXPECT_FALSE(SettingsView("[]").ok());
}

TEST(StatusView, ForeignNamesCannotSteerTheTerminal) {
  const auto view = SwarmView(
      "{\"members\":[{\"name\":\"a\\u001b[2Jb\\nc\",\"peer\":\"x\",\"connected\":true}]}");
  ASSERT_TRUE(view.ok());
  EXPECT_THAT(*view, HasSubstr("a?[2Jb?c"));
  EXPECT_EQ(view->find('\x1b'), std::string::npos);
}

TEST(StatusView, ValuesOfOtherTypesDoNoHarm) {
  const char* values[] = {
      "null", "true",    "-1", "1e300", "-1e300",           "\"x\"",
      "[]",   "[1,2,3]", "{}", "[[]]",  "[null,[1,1e300]]", "18446744073709551615"};
  const std::string texts[] = {kPeer, kRun};
  // Every value after a colon is replaced by every other kind of value in turn.
  for (const std::string& text : texts) {
    for (std::size_t at = text.find(':'); at != std::string::npos; at = text.find(':', at + 1)) {
      int depth = 0;
      std::size_t end = at + 1;
      bool quoted = false;
      for (; end < text.size(); ++end) {
        const char c = text[end];
        if (c == '"') quoted = !quoted;
        if (quoted) continue;
        if (c == '{' || c == '[') ++depth;
        if ((c == '}' || c == ']' || c == ',') && depth == 0) break;
        if (c == '}' || c == ']') --depth;
      }
      for (const char* value : values) {
        const std::string changed = text.substr(0, at + 1) + value + text.substr(end);
        EXPECT_TRUE(PeerView(changed).ok()) << changed;
        EXPECT_TRUE(SwarmView(changed).ok()) << changed;
      }
    }
  }
}

TEST(StatusView, RandomAndCutTextsDoNoHarm) {
  std::mt19937_64 random(7);
  const std::string texts[] = {kPeer, kRun};
  for (const std::string& text : texts) {
    for (std::size_t size = 0; size < text.size(); ++size) {
      EXPECT_FALSE(PeerView(text.substr(0, size)).ok());
    }
    for (int round = 0; round < 2000; ++round) {
      std::string changed = text;
      for (int i = 0; i < 3; ++i) changed[random() % changed.size()] = static_cast<char>(random());
      (void)PeerView(changed);
      (void)SwarmView(changed);
    }
  }
}

}  // namespace
}  // namespace shoal::client
