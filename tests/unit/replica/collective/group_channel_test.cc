// Groups that need no links: those of tests, channels over one group, parts of a group.

#include "replica/collective/channel_mux.h"
#include "replica/collective/subgroup_channel.h"
#include "tests/support/executor_group.h"
#include "tests/support/memory_group.h"
#include "tests/unit/replica/collective/group_channel_contract.h"

namespace shoal::collective {
namespace {

using test_support::MemoryGroup;

class MemoryRig : public GroupRig {
 public:
  explicit MemoryRig(std::size_t members = 3)
      : group_(&world_, executor_.get(), members, [this] {
          // Messages of different pairs overtake each other.
          return std::chrono::milliseconds(1 + 7 * (++sent_ % 5));
        }) {}
  std::size_t size() override { return 3; }
  GroupChannel* member(std::size_t rank) override { return group_.member(rank); }

 protected:
  MemoryGroup group_;

 private:
  int sent_ = 0;
};

// The last of three channels; another one is in use beside it.
class MuxRig final : public MemoryRig {
 public:
  MuxRig() {
    for (std::size_t r = 0; r < size(); ++r) {
      muxes_.push_back(std::make_unique<ChannelMux>(
          group_.member(r), 3, [](const Status& status) { ADD_FAILURE() << status.ToString(); }));
      muxes_[r]->channel(0)->SetReceiver(
          [](std::size_t, std::uint64_t, const Buffer& payload) { EXPECT_EQ(payload.size(), 0u); });
    }
    for (std::size_t r = 1; r < size(); ++r) {
      EXPECT_TRUE(muxes_[0]->channel(0)->Send(r, 1, Buffer()).ok());
    }
  }
  GroupChannel* member(std::size_t rank) override { return muxes_[rank]->channel(2); }

 private:
  std::vector<std::unique_ptr<ChannelMux>> muxes_;
};

// Members 0, 2 and 3 of a group of four.
class PartRig final : public MemoryRig {
 public:
  PartRig() : MemoryRig(4) {
    for (const std::size_t rank : {0, 2, 3}) {
      GroupChannel* const whole = group_.member(rank);
      parts_.push_back(std::make_unique<SubgroupChannel>(whole, std::vector<std::size_t>{0, 2, 3}));
      whole->SetReceiver(
          [part = parts_.back().get()](std::size_t from, std::uint64_t tag, Buffer payload) {
            EXPECT_TRUE(part->Deliver(from, tag, &payload));
          });
    }
  }
  GroupChannel* member(std::size_t rank) override { return parts_[rank].get(); }

 private:
  std::vector<std::unique_ptr<SubgroupChannel>> parts_;
};

// That of tests with threads, here on an executor in virtual time.
class ExecutorRig final : public GroupRig {
 public:
  ExecutorRig() {
    for (std::size_t r = 0; r < size(); ++r) group_.Add(executor_.get());
  }
  std::size_t size() override { return 3; }
  GroupChannel* member(std::size_t rank) override { return group_.member(rank); }

 private:
  test_support::ExecutorGroup group_;
};

template <typename Rig>
std::unique_ptr<GroupRig> New() {
  return std::make_unique<Rig>();
}

INSTANTIATE_TEST_SUITE_P(Memory, GroupChannelContract, testing::Values(&New<MemoryRig>));
INSTANTIATE_TEST_SUITE_P(Executors, GroupChannelContract, testing::Values(&New<ExecutorRig>));
INSTANTIATE_TEST_SUITE_P(Mux, GroupChannelContract, testing::Values(&New<MuxRig>));
INSTANTIATE_TEST_SUITE_P(Part, GroupChannelContract, testing::Values(&New<PartRig>));

TEST(PartChannelTest, MessagesOfOthersAreNotItsOwn) {
  test_support::SimWorld world;
  const auto executor = world.NewExecutor("control");
  MemoryGroup group(&world, executor.get(), 4, [] { return Duration::zero(); });
  SubgroupChannel part(group.member(2), {0, 2});
  int calls = 0;
  part.SetReceiver([&calls](std::size_t from, std::uint64_t, const Buffer&) {
    EXPECT_EQ(from, 0u);
    ++calls;
  });
  Buffer payload;
  EXPECT_FALSE(part.Deliver(3, 1, &payload));
  EXPECT_TRUE(part.Deliver(0, 1, &payload));
  EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace shoal::collective
