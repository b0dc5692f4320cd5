// Groups whose messages travel by links: the stage group, and that of tensors that stages share.

#include "replica/group_links.h"

#include <algorithm>

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
    peer.member->fail = [](const Status& status, const PeerId*) {
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
