// Groups whose messages travel by links: the stage group, and that of tensors that stages share.

#include "replica/group_links.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "tests/support/sim_links.h"
#include "tests/unit/replica/collective/group_channel_contract.h"

namespace shoal::replica {
namespace {

constexpr std::uint32_t kStages = 3, kPipelines = 3;

PeerId PeerAt(std::uint32_t stage, std::uint32_t pipeline) {
  PeerId peer;
  peer.key[0] = static_cast<std::uint8_t>(1 + stage);
  peer.key[1] = static_cast<std::uint8_t>(1 + pipeline);
  return peer;
}

// Three stages of three pipelines, and all their links.
class LinksRig : public collective::GroupRig {
 public:
  LinksRig() {
    for (std::uint32_t stage = 0; stage < kStages; ++stage) {
      for (std::uint32_t pipeline = 0; pipeline < kPipelines; ++pipeline) Add(stage, pipeline);
    }
    On([this] {
      for (Peer& peer : peers_) peer.links->Open();
    });
    EXPECT_TRUE(Wait([this] {
      return std::all_of(peers_.begin(), peers_.end(),
                         [](const Peer& peer) { return peer.links->up(); });
    }));
  }
  ~LinksRig() override {
    On([this] { peers_.clear(); });
  }

  // The member at (stage, pipeline) blames one of a group of its.
  void Blame(std::uint32_t stage, std::uint32_t pipeline, bool shared, std::size_t of) {
    GroupLinks& links = *peers_[stage * kPipelines + pipeline].links;
    collective::GroupChannel* const group = shared ? links.shared_group() : links.stage_group();
    blames_ = true;
    group->Blame(of, DataLoss("it is damaged"));
    blames_ = false;
  }
  std::vector<std::pair<Status, PeerId>>& failures() { return failures_; }

 protected:
  struct Peer {
    std::unique_ptr<net::LinkHub> hub;
    std::unique_ptr<Member> member;
    std::unique_ptr<GroupLinks> links;
  };

  net::LinkTarget Target(std::uint32_t from_stage, std::uint32_t from, std::uint32_t stage,
                         std::uint32_t pipeline) const {
    const auto a = std::pair(from_stage, from), b = std::pair(stage, pipeline);
    const auto [low, high] = std::minmax(a, b);
    net::LinkTarget target;
    target.peer = PeerAt(stage, pipeline);
    target.run = RunId{9};
    target.generation = 1;
    target.channel = std::to_string(low.first) + "." + std::to_string(low.second) + "-" +
                     std::to_string(high.first) + "." + std::to_string(high.second);
    return target;
  }
  void Add(std::uint32_t stage, std::uint32_t pipeline) {
    MemberConfig config;
    config.generation = 1;
    config.stage = stage;
    config.stages = kStages;
    config.sharing = {0, 1, 2};
    config.pipeline = pipeline;
    config.pipelines = kPipelines;
    Peer peer;
    peer.hub = net_.NewHub(PeerAt(stage, pipeline), executor_.get());
    peer.member = std::make_unique<Member>();
    peer.member->config = config;
    peer.member->control = executor_.get();
    peer.member->fail = [this](const Status& status, const PeerId* who) {
      if (blames_) return failures_.emplace_back(status, who != nullptr ? *who : PeerId()), void();
      ADD_FAILURE() << status.ToString();
    };
    std::vector<net::LinkTarget> group, shared;
    for (std::uint32_t other = 0; other < kPipelines; ++other) {
      group.push_back(Target(stage, pipeline, stage, other));
    }
    for (std::uint32_t other_stage = 0; other_stage < kStages; ++other_stage) {
      for (std::uint32_t other = 0; other < kPipelines; ++other) {
        shared.push_back(Target(stage, pipeline, other_stage, other));
      }
    }
    peer.links = std::make_unique<GroupLinks>(
        peer.member.get(), net::GenerationLinks(peer.hub.get(), RunId{9}, 1), group, shared, [] {});
    peers_.push_back(std::move(peer));
  }

  test_support::SimNetwork net_{
      &world_, {[this] { return std::chrono::milliseconds(1 + ++sent_ % 7); }, 1e6}};
  int sent_ = 0;
  bool blames_ = false;
  std::vector<std::pair<Status, PeerId>> failures_;
  std::vector<Peer> peers_;  // by stage, then pipeline
};

// Of stage 1, beside the same members in the other groups.
class StageGroupRig final : public LinksRig {
 public:
  std::size_t size() override { return kPipelines; }
  collective::GroupChannel* member(std::size_t rank) override {
    return peers_[kPipelines + rank].links->stage_group();
  }
};

class SharedGroupRig final : public LinksRig {
 public:
  std::size_t size() override { return kStages * kPipelines; }
  collective::GroupChannel* member(std::size_t rank) override {
    return peers_[rank].links->shared_group();
  }
};

// A group's message that cannot be right ends the generation, and whose it is.
TEST(GroupLinksTest, WhoIsBlamedIsNamedAsTheCause) {
  SharedGroupRig rig;
  for (const bool shared : {false, true}) {
    rig.On([&] { rig.Blame(1, 2, shared, shared ? 7 : 0); });
    ASSERT_EQ(rig.failures().size(), 1u);
    EXPECT_EQ(rig.failures()[0].second, shared ? PeerAt(2, 1) : PeerAt(1, 0));
    EXPECT_NE(rig.failures()[0].first.message().find("it is damaged"), std::string::npos);
    EXPECT_NE(rig.failures()[0].first.message().find(shared ? "stage 2 of pipeline 1"
                                                            : "stage 1 of pipeline 0"),
              std::string::npos);
    rig.failures().clear();
  }
  rig.On([&] { rig.Blame(1, 2, false, 2); });
  EXPECT_TRUE(rig.failures().empty()) << "nobody blames itself";
}

template <typename Rig>
std::unique_ptr<collective::GroupRig> New() {
  return std::make_unique<Rig>();
}

}  // namespace
}  // namespace shoal::replica

namespace shoal::collective {

INSTANTIATE_TEST_SUITE_P(StageGroup, GroupChannelContract,
                         testing::Values(&replica::New<replica::StageGroupRig>));
INSTANTIATE_TEST_SUITE_P(SharedGroup, GroupChannelContract,
                         testing::Values(&replica::New<replica::SharedGroupRig>));

}  // namespace shoal::collective
