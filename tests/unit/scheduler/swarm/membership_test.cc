#include "scheduler/swarm/membership.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "scheduler/config/swarm_limits.h"
#include "unit/scheduler/swarm/swarm_parts.h"

namespace shoal::scheduler {
namespace {

using ::testing::HasSubstr;

control::v1::Hello NewHello() {
  control::v1::Hello hello;
  hello.set_protocol(net::kProtocolVersion);
  hello.set_listen_port(1);
  return hello;
}

struct Hall : SwarmParts {
  Hall() : SwarmParts(1, 1) {}
  Member* Come(ConnectionId connection, std::uint32_t number) {
    membership.OnConnected({connection, SimPeerId(number), "10.0.0.1"});
    return membership.Admit(connection, NewHello());
  }
};

std::vector<StoredEvent> Stored(SwarmParts* swarm) {
  std::vector<StoredEvent> events;
  for (const Persist& persist : swarm->Take<Persist>()) {
    events.push_back(*DecodeEvent(persist.event));
  }
  return events;
}

TEST(Membership, WhoSpeaksAnotherVersionIsNotAdmitted) {
  Hall parts;
  parts.membership.OnConnected({1, SimPeerId(1), "10.0.0.1"});
  parts.reaction.Take();
  control::v1::Hello hello = NewHello();
  hello.set_protocol(1);
  EXPECT_EQ(parts.membership.Admit(1, hello), nullptr);
  const auto actions = parts.reaction.Take();
  ASSERT_EQ(actions.size(), 2u);
  EXPECT_TRUE(std::get<SendTo>(actions[0]).message.has_refused());
  EXPECT_FALSE(std::get<Disconnect>(actions[1]).reason.ok());
  EXPECT_TRUE(parts.members.all().empty());
}

TEST(Membership, TheNewestConnectionOfAPeerCounts) {
  Hall parts;
  Member* const member = parts.Come(1, 1);
  parts.Train();
  parts.reaction.Take();
  EXPECT_EQ(parts.Come(2, 1), member);
  const auto dropped = parts.Take<Disconnect>();
  ASSERT_EQ(dropped.size(), 1u);
  EXPECT_EQ(dropped[0].connection, 1u);
  EXPECT_FALSE(parts.lifecycle.active()) << "the one before was lost";
  parts.membership.OnDisconnected({1, "late"});
  EXPECT_TRUE(member->connected);
  EXPECT_EQ(parts.membership.Heard(2), member);
}

TEST(Membership, WhoSaysNothingIsDropped) {
  Hall parts;
  parts.Come(1, 1);
  parts.membership.OnConnected({2, SimPeerId(2), "10.0.0.2"});  // without a hello
  parts.Train();
  parts.Wait(parts.config.peer_timeout);
  parts.Wait(Duration(1));
  parts.membership.DropSilent();
  EXPECT_EQ(parts.Take<Disconnect>().size(), 1u);
  EXPECT_FALSE(parts.lifecycle.active());
  EXPECT_THAT(parts.lifecycle.cause(), HasSubstr("lost"));
  parts.Wait(kHelloTimeout);
  parts.membership.DropSilent();
  EXPECT_EQ(parts.Take<Disconnect>().size(), 1u);
}

TEST(Membership, WithoutAHelloNothingIsHeard) {
  Hall parts;
  parts.membership.OnConnected({1, SimPeerId(1), "10.0.0.1"});
  EXPECT_EQ(parts.membership.Heard(1), nullptr);
  EXPECT_EQ(parts.Take<Disconnect>().size(), 1u);
  EXPECT_FALSE(parts.membership.MayTake({1, {}})) << "it was dropped";
}

TEST(Membership, OfAStatusOnlyWhatItMayHaveIsKept) {
  Hall parts;
  Member* const member = parts.Come(1, 1);
  parts.reaction.Take();
  control::v1::Heartbeat heartbeat;
  heartbeat.set_status_json(R"({"work":{"step":2,"other":3},"other":["x"]})");
  parts.membership.OnHeartbeat(member, heartbeat);
  EXPECT_EQ(member->status_json, R"({"work":{"step":2}})");
  heartbeat.set_status_json("[1]");
  parts.membership.OnHeartbeat(member, heartbeat);
  EXPECT_EQ(parts.Take<Disconnect>().size(), 1u);
}

// Three stages of two pipelines, whose members train, and what these are told.
struct Street : SwarmParts {
  Street() : SwarmParts(3, 2) {
    for (std::uint32_t number = 1; number <= 6; ++number) {
      membership.OnConnected({number, SimPeerId(number), "10.0.0.1"});
      membership.Admit(number, NewHello());
    }
    Train();
    members.AddressesPlanned();
    reaction.Take();
  }
  void Say(Member* member, const std::vector<std::string>& addresses,
           const std::string& mapped = "") {
    control::v1::Heartbeat heartbeat;
    for (const std::string& address : addresses) heartbeat.add_addresses(address);
    heartbeat.set_mapped_address(mapped);
    membership.OnHeartbeat(member, heartbeat);
  }
  std::map<ConnectionId, control::v1::NewAddresses> Told() {
    membership.TellAddresses();
    std::map<ConnectionId, control::v1::NewAddresses> told;
    for (const SendTo& sent : Take<SendTo>()) {
      EXPECT_EQ(sent.message.new_addresses().generation(), history.generation());
      EXPECT_TRUE(told.emplace(sent.connection, sent.message.new_addresses()).second);
    }
    return told;
  }
  static std::vector<std::string> Texts(const control::v1::Reachable& peer) {
    return {peer.addresses().begin(), peer.addresses().end()};
  }
};

TEST(Membership, NeighboursHearOfNewAddresses) {
  Street parts;
  EXPECT_TRUE(parts.Told().empty()) << "the plan had them";
  Member* const changed = &parts.At(0, 1);
  parts.Say(changed, {});
  EXPECT_TRUE(parts.Told().empty()) << "it said nothing new";
  parts.Say(changed, {"10.0.0.9", "192.0.2.1:7"}, "192.0.2.5:9");
  auto told = parts.Told();
  ASSERT_EQ(told.size(), 3u);  // before, behind and beside it
  for (const Member* const other : {&parts.At(0, 0), &parts.At(0, 2), &parts.At(1, 1)}) {
    ASSERT_EQ(told[other->connection].peers_size(), 1);
    const control::v1::Reachable& peer = told[other->connection].peers(0);
    EXPECT_EQ(peer.peer(), std::string(changed->peer.key.begin(), changed->peer.key.end()));
    EXPECT_THAT(Street::Texts(peer),
                testing::ElementsAre("10.0.0.9:1", "192.0.2.1:7", "10.0.0.1:1", "192.0.2.5:9"));
  }
  EXPECT_TRUE(parts.Told().empty()) << "once";
}

TEST(Membership, WhoseAddressesFlapIsNotToldAllTheTime) {
  Street parts;
  Member* const changed = &parts.At(0, 1);
  parts.Say(changed, {"10.0.0.2"});
  EXPECT_EQ(parts.Told().size(), 3u);
  for (const char* const address : {"10.0.0.3", "10.0.0.4"}) {
    parts.Say(changed, {address});
    EXPECT_TRUE(parts.Told().empty());
  }
  parts.Wait(kAddressesEvery);
  auto told = parts.Told();
  ASSERT_EQ(told.size(), 3u);
  EXPECT_THAT(Street::Texts(told[parts.At(0, 0).connection].peers(0)),
              testing::ElementsAre("10.0.0.4:1", "10.0.0.1:1"));
}

TEST(Membership, NewAddressesOfSeveralComeInOneMessage) {
  Street parts;
  parts.Say(&parts.At(0, 0), {"10.0.0.2"});
  parts.Say(&parts.At(0, 2), {"10.0.0.3"});
  parts.At(1, 2).told_plan = false;  // it came back, and waits for the next plan
  auto told = parts.Told();
  EXPECT_EQ(told.size(), 2u);
  EXPECT_EQ(told[parts.At(0, 1).connection].peers_size(), 2);
  EXPECT_EQ(told[parts.At(1, 0).connection].peers_size(), 1);
}

TEST(Membership, OutsideOfAGenerationThePlanTellsTheAddresses) {
  Street parts;
  parts.Say(&parts.At(0, 0), {"10.0.0.2"});
  parts.membership.OnDisconnected({parts.At(1, 1).connection, "gone"});
  EXPECT_FALSE(parts.lifecycle.active());
  parts.reaction.Take();
  EXPECT_TRUE(parts.Told().empty());
}

TEST(Membership, WhoIsKickedIsToldWhyAndLost) {
  Hall parts;
  const PeerId peer = parts.Come(1, 1)->peer;
  parts.Train();
  parts.reaction.Take();
  parts.membership.OnKicked({peer, "the organiser removed it"});
  const auto actions = parts.reaction.Take();
  const auto* const told = std::get_if<SendTo>(&actions.at(0));
  ASSERT_NE(told, nullptr);
  EXPECT_EQ(told->message.refused().code(), static_cast<int>(StatusCode::kPermissionDenied));
  EXPECT_EQ(told->message.refused().error(), "the organiser removed it");
  EXPECT_FALSE(parts.lifecycle.active()) << "its stage is lost, as if it had died";
  EXPECT_THAT(parts.lifecycle.cause(), HasSubstr("the organiser removed it"));
  parts.membership.OnKicked({peer, "once more"});
  EXPECT_TRUE(parts.reaction.Take().empty()) << "it is not here any more";
}

TEST(Membership, ASpareThatLeavesIsForgottenAndAHostIsNot) {
  Hall parts;
  Member* const host = parts.Come(1, 1);
  const Member* const spare = parts.Come(2, 2);
  parts.Train();
  parts.membership.OnLeaving(*spare, "");
  EXPECT_EQ(parts.members.all().size(), 1u);
  EXPECT_TRUE(parts.lifecycle.active());
  parts.membership.OnLeaving(*host, "enough");
  EXPECT_EQ(parts.members.all().size(), 1u);
  EXPECT_THAT(parts.lifecycle.cause(), HasSubstr("it leaves, enough"));
}

TEST(Membership, AHandOverWaitsForACheckpointIfStepsWereTrained) {
  Hall parts;
  Member* const host = parts.Come(1, 1);
  parts.Prepare();
  parts.membership.OnHandingOver(host, "its owner needs it");
  EXPECT_FALSE(parts.lifecycle.active()) << "nothing is lost";
  EXPECT_FALSE(parts.plan.Propose(parts.config.pipelines)) << "it wants no stage";
  host->wants_stage = true;
  parts.Train();
  parts.membership.OnHandingOver(host, "its owner needs it");
  EXPECT_TRUE(parts.lifecycle.active());
  ASSERT_TRUE(parts.lifecycle.ending());
  EXPECT_THAT(parts.lifecycle.ending()->cause, HasSubstr("its owner needs it"));
}

TEST(Membership, StoresAMemberOnceForEachConnection) {
  Hall parts;
  Stored(&parts);
  ASSERT_NE(parts.Come(1, 1), nullptr);
  EXPECT_EQ(Stored(&parts).size(), 1u);
  ASSERT_NE(parts.membership.Admit(1, NewHello()), nullptr) << "a second hello";
  EXPECT_TRUE(Stored(&parts).empty());
  ASSERT_NE(parts.Come(2, 1), nullptr) << "the older connection hangs";
  const auto again = Stored(&parts);
  ASSERT_EQ(again.size(), 2u);
  EXPECT_EQ(std::get<MemberGone>(again[0]).reason, "the same peer connected again");
  EXPECT_TRUE(std::holds_alternative<MemberCame>(again[1]));
  parts.membership.OnLeaving(*parts.members.Find(SimPeerId(1)), "a\nholiday");
  parts.membership.OnDisconnected({2, "closed"});
  const auto gone = Stored(&parts);
  ASSERT_EQ(gone.size(), 1u);
  EXPECT_EQ(std::get<MemberGone>(gone[0]).reason, "it leaves, a holiday");
}

}  // namespace
}  // namespace shoal::scheduler
