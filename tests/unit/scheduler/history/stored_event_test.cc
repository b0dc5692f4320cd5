#include "scheduler/history/stored_event.h"

#include <gtest/gtest.h>

#include <random>

namespace shoal::scheduler {
namespace {

std::string RoundTrip(const StoredEvent& event) {
  const auto decoded = DecodeEvent(EncodeEvent(event));
  EXPECT_TRUE(decoded.ok()) << decoded.status().ToString();
  EXPECT_EQ(decoded->index(), event.index());
  return EncodeEvent(*decoded);
}

TEST(StoredEventTest, FormIsPinned) {
  control::v1::ArtefactRef file;
  file.set_name("layer.0");
  file.set_hash(std::string(31, '\0') + '\xff');
  file.set_size(12);
  const std::string nobody(64, '0');
  const std::vector<std::pair<StoredEvent, std::string>> cases = {
      {RunBegan{RunId{0x12}, 0xfedcba9876543210},
       R"({"type":"run","run":"0000000000000012","config":"fedcba9876543210"})"},
      {SampleOrder{0xfedcba9876543210, 100, 8, 2, 3},
       R"({"type":"order","seed":"fedcba9876543210","train_rows":100,"micro_batches":8,)"
       R"("micro_batch_rows":2,"stages":3})"},
      {RunStarted{}, R"({"type":"started"})"},
      {SchedulerStarted{}, R"({"type":"scheduler"})"},
      {MemberCame{PeerId{}, "anna"}, R"({"type":"came","peer":")" + nobody + R"(","name":"anna"})"},
      {MemberGone{PeerId{}, "anna", "why", 7},
       R"({"type":"gone","peer":")" + nobody + R"(","name":"anna","reason":"why","unstored":7})"},
      {PlanMade{3, 20}, R"({"type":"plan","generation":3,"step":20})"},
      {PlanMade{4, 20, {PeerId{{0xab}}, PeerId{}}},
       R"({"type":"plan","generation":4,"step":20,"hosts":["ab)" + std::string(62, '0') + R"(",")" +
           std::string(64, '0') + R"("]})"},
      {PlanMade{4, 20, {PeerId{}, PeerId{}}, {3, {2, 0}}},
       R"({"type":"plan","generation":4,"step":20,"hosts":[")" + nobody + R"(",")" + nobody +
           R"("],"homes":[2,0],"home_count":3})"},
      {PipelinesCount{22, {0, 2}}, R"({"type":"counting","step":22,"pipelines":[0,2]})"},
      {PipelinesCount{22, {3}, 0, "y", {{1, 0}, {1, 2}}},
       R"({"type":"counting","step":22,"pipelines":[3],"cause":"y","lost":[[1,0],[1,2]]})"},
      {PipelinesCount{22, {3}, 25, "y", {}, {1}},
       R"({"type":"counting","step":22,"pipelines":[3],"dealt_until":25,"cause":"y","gone":[1]})"},
      {GenerationGoesOn{21}, R"({"type":"goes_on","step":21})"},
      {GenerationEnded{21, "why"}, R"({"type":"ended","step":21,"cause":"why"})"},
      {GenerationEnded{2, "why", 35}, R"({"type":"ended","step":2,"cause":"why","idle_ms":35})"},
      {LossesKnown{2, {1.5, 0.1}}, R"({"type":"losses","first":2,"values":[1.5,0.1]})"},
      {HeldOutMeasured{100, 2.5}, R"({"type":"held_out","step":100,"loss":2.5})"},
      {StepSkipped{4, "why"}, R"({"type":"skipped","step":4,"cause":"why"})"},
      {CheckpointMade{10, {file}},
       R"({"type":"checkpoint","step":10,"files":[{"name":"layer.0","hash":")" +
           std::string(62, '0') + R"(ff","size":12}]})"},
      {RunHeld{"why"}, R"({"type":"held","reason":"why"})"},
      {RunReleased{}, R"({"type":"released"})"},
      {RunFinished{30}, R"({"type":"finished","steps":30})"},
      {InviteMade{{{0xab}}, "Ana", 1, 1700000000000},
       R"({"type":"invite","key":"ab)" + std::string(62, '0') +
           R"(","name":"Ana","uses":1,"expires":1700000000000})"},
      {InviteRevoked{InviteId{0x12}}, R"({"type":"revoked","invite":"0000000000000012"})"},
      {MemberJoined{PeerId{}, "anna", InviteId{0x12}},
       R"({"type":"joined","peer":")" + std::string(64, '0') +
           R"(","name":"anna","invite":"0000000000000012"})"},
      {MemberKicked{PeerId{}, "why"},
       R"({"type":"kicked","peer":")" + nobody + R"(","reason":"why"})"},
      {MemberTakenBack{PeerId{}}, R"({"type":"taken_back","peer":")" + nobody + R"("})"},
      {MemberFault{PeerId{}, FaultKind::kWeights, "why"},
       R"({"type":"fault","peer":")" + std::string(64, '0') +
           R"(","kind":"weights","cause":"why"})"},
      {MemberFault{PeerId{}, FaultKind::kValues, "why", 1800000},
       R"({"type":"fault","peer":")" + std::string(64, '0') +
           R"(","kind":"values","cause":"why","quarantine_ms":1800000})"},
      {MemberPardoned{PeerId{}}, R"({"type":"pardoned","peer":")" + std::string(64, '0') + R"("})"},
      {RunRestored{20, 1000003}, R"({"type":"restored","step":20,"generation":1000003})"},
  };
  for (const auto& [event, text] : cases) {
    EXPECT_EQ(EncodeEvent(event), text);
    EXPECT_EQ(RoundTrip(event), text);
    EXPECT_FALSE(DecodeTimedEvent(text)->at_ms) << text;
    const std::string stamped = StampEvent(text, 1700000000123);
    EXPECT_EQ(stamped, text.substr(0, text.size() - 1) + R"(,"at":1700000000123})");
    EXPECT_EQ(DecodeTimedEvent(stamped)->at_ms, 1700000000123u);
    EXPECT_EQ(EncodeEvent(*DecodeEvent(stamped)), text);
  }
}

TEST(StoredEventTest, KindsOfFaultsArePinned) {
  for (const auto& [kind, name] : {std::pair(FaultKind::kWeights, "weights"),
                                   {FaultKind::kValues, "values"},
                                   {FaultKind::kOutputs, "outputs"},
                                   {FaultKind::kFailures, "failures"}}) {
    const std::string text = EncodeEvent(MemberFault{PeerId{}, kind, "why"});
    EXPECT_NE(text.find("\"kind\":\"" + std::string(name) + "\""), text.npos) << text;
    EXPECT_EQ(RoundTrip(MemberFault{PeerId{}, kind, "why"}), text);
  }
}

TEST(StoredEventTest, LossesKeepEveryBit) {
  std::mt19937_64 random(3);
  LossesKnown known;
  for (int i = 0; i < 1000; ++i) {
    known.losses.push_back(std::generate_canonical<double, 53>(random) * 12);
  }
  const auto decoded = DecodeEvent(EncodeEvent(known));
  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(std::get<LossesKnown>(*decoded).losses, known.losses);
}

TEST(StoredEventTest, ForeignBytesAreErrors) {
  for (const std::string text :
       {"",
        "{",
        "[]",
        "7",
        R"({"type":"other"})",
        R"({"type":"plan"})",
        R"({"type":"plan","generation":"x","step":1})",
        R"({"type":"plan","generation":1,"step":1,"homes":[0]})",
        R"({"type":"plan","generation":1,"step":1,"home_count":1})",
        R"({"type":"plan","generation":1,"step":1,"homes":{"x":0},"home_count":1})",
        R"({"type":"plan","generation":1,"step":1,"homes":[1],"home_count":1})",
        R"({"type":"plan","generation":1,"step":1,"homes":[0,0],"home_count":2})",
        R"({"type":7})",
        R"({"type":"skipped","step":4})",
        R"({"type":"finished","steps":1e30})",
        R"({"type":"finished","steps":2.5})",
        R"({"type":"finished","steps":-1})",
        R"({"type":"started","at":-1})",
        R"({"type":"started","at":"noon"})",
        R"({"type":"order","seed":7,"train_rows":1,"micro_batches":1,)"
        R"("micro_batch_rows":1,"stages":1})",
        R"({"type":"order","seed":"0000000000000007","train_rows":1})",
        R"({"type":"came","peer":"00","name":"anna"})",
        R"({"type":"came","name":"anna"})",
        R"({"type":"invite","key":"00","name":"","uses":1,"expires":0})",
        R"({"type":"invite","name":"","uses":1,"expires":0})",
        R"({"type":"revoked","invite":"12"})",
        R"({"type":"joined","peer":"00","name":"","invite":"0000000000000012"})",
        R"({"type":"kicked","peer":"00","reason":""})",
        R"({"type":"taken_back"})",
        R"({"type":"pardoned"})",
        R"({"type":"fault","peer":"00","kind":"weights","cause":""})",
        R"({"type":"gone","peer":"00","name":"anna","reason":""})",
        R"({"type":"ended","step":4})",
        R"({"type":"ended","step":4,"cause":"","idle_ms":-1})",
        R"({"type":"counting","step":4})",
        R"({"type":"counting","step":4,"pipelines":[]})",
        R"({"type":"counting","step":4,"pipelines":7})",
        R"({"type":"counting","step":4,"pipelines":[0],"gone":7})",
        R"({"type":"counting","step":4,"pipelines":[0],"lost":7})",
        R"({"type":"counting","step":4,"pipelines":[0],"lost":[7]})",
        R"({"type":"counting","step":4,"pipelines":[0],"lost":[[1]]})",
        R"({"type":"counting","step":4,"pipelines":[0],"lost":[[1,-1]]})",
        R"({"type":"counting","step":4,"pipelines":[0],"lost":[{"a":1,"b":2}]})",
        R"({"type":"counting","step":4,"pipelines":[0],"lost":[[1,0],[1,0]]})",
        R"({"type":"counting","step":4,"pipelines":[0],"lost":[[1,1],[1,0]]})",
        R"({"type":"counting","step":4,"pipelines":[0],"gone":[2,2]})",
        R"({"type":"counting","step":4,"pipelines":[1,1]})",
        R"({"type":"counting","step":4,"pipelines":[1,0]})",
        R"({"type":"counting","step":4,"pipelines":[4294967296]})",
        R"({"type":"counting","step":-1,"pipelines":[0]})",
        R"({"type":"counting","step":5,"pipelines":[0],"dealt_until":5})",
        R"({"type":"counting","step":5,"pipelines":[0],"dealt_until":70})",
        R"({"type":"run","run":"zz","config":"0000000000000000"})",
        R"({"type":"losses","first":0,"values":[null]})",
        R"({"type":"held_out","step":1,"loss":null})",
        R"({"type":"held_out","loss":1})",
        R"({"type":"checkpoint","step":1,"files":[{"name":"a","hash":"00","size":1}]})"}) {
    EXPECT_EQ(DecodeEvent(text).status().code(), StatusCode::kDataLoss) << text;
  }
}

TEST(StoredEventTest, AFaultOfAnotherKindOrTimeIsAnError) {
  const std::string text = EncodeEvent(MemberFault{PeerId{}, FaultKind::kValues, "why", 1800000});
  ASSERT_TRUE(DecodeEvent(text).ok());
  for (const auto& [from, to] : {std::pair("values", "other"), std::pair("1800000", "-1"),
                                 std::pair("1800000", "1e30"), std::pair("\"why\"", "7")}) {
    std::string bad = text;
    bad.replace(bad.find(from), std::string(from).size(), to);
    EXPECT_EQ(DecodeEvent(bad).status().code(), StatusCode::kDataLoss) << bad;
  }
}

TEST(StoredEventTest, RandomAndTruncatedBytesNeverCrash) {
  std::mt19937 random(4);
  for (const StoredEvent& event :
       {StoredEvent(LossesKnown{2, {1.5, 0.1}}), StoredEvent(PipelinesCount{22, {0, 2}, 25}),
        StoredEvent(SampleOrder{1, 100, 8, 2, 3}), StoredEvent(MemberGone{PeerId{}, "a", "why", 7}),
        StoredEvent(MemberCame{PeerId{}, "a", 7}),
        StoredEvent(MemberFault{PeerId{}, FaultKind::kValues, "why", 1800000}),
        StoredEvent(MemberFault{PeerId{}, FaultKind::kOutputs, "why", 0}),
        StoredEvent(GenerationEnded{21, "why", 350})}) {
    const std::string whole = StampEvent(EncodeEvent(event), 1700000000123);
    for (std::size_t size = 0; size < whole.size(); ++size) {
      EXPECT_FALSE(DecodeEvent(whole.substr(0, size)).ok());
    }
    for (int round = 0; round < 3000; ++round) {
      std::string bytes = whole;
      for (int i = 0; i < 3; ++i) bytes[random() % bytes.size()] = static_cast<char>(random());
      (void)DecodeTimedEvent(bytes).ok();
    }
  }
}

}  // namespace
}  // namespace shoal::scheduler
