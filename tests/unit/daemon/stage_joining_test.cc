// How a stage comes to a peer otherwise than from a checkpoint.

#include "stage_host_fixture.h"

namespace shoal::daemon {
namespace {

TEST_F(StageHostTest, GoesOnInPlaceWithoutFetchingToTheSameWeights) {
  checkpoint_ = false;
  Start(MakePlan(0));
  WaitFor(PeerMessage::kPlanReady);
  Step(0);
  const std::uint64_t after = Step(1);
  Start(MakePlan(0));
  WaitFor(PeerMessage::kPlanReady);
  Step(0);
  const std::size_t fetches = client_.offsets.size();
  // The scheduler goes when all have agreed on the step, and comes back to order it.
  apply_ = false;
  Step(1);
  On([this] { host_->Hold(); });
  ASSERT_TRUE(WaitUntil(control_.get(), [this] { return host_->held() == 1; }));
  On([this] {
    EXPECT_TRUE(host_->synced());
    EXPECT_EQ(host_->last_apply()->step(), 0u);
    control::v1::Apply other = order_;
    other.set_step(2);
    host_->ApplyHeld(other);
    EXPECT_EQ(host_->held(), 1u);
    host_->ApplyHeld(order_);
  });
  ASSERT_TRUE(WaitUntil(control_.get(), [this] { return host_->held() == 2; }));
  apply_ = true;

  control::v1::Plan plan = MakePlan(2);
  plan.set_in_place(true);
  plan.clear_artefacts();
  On([&] {
    EXPECT_FALSE(host_->synced());
    owner_.told.clear();
    auto next = std::make_unique<StageHost>(resources_, &owner_, plan, plan.positions(0));
    next->StartInPlace(std::move(host_));
    host_ = std::move(next);
  });
  EXPECT_EQ(WaitFor(PeerMessage::kPlanReady).plan_ready().generation(), 3u);
  EXPECT_EQ(client_.offsets.size(), fetches);
  Step(2);
  const std::uint64_t third = Step(3);

  // The same without an interruption.
  Start(MakePlan(0));
  WaitFor(PeerMessage::kPlanReady);
  Step(0);
  EXPECT_EQ(Step(1), after);
  Step(2);
  EXPECT_EQ(Step(3), third);
}

TEST_F(StageHostTest, NewAddressesOfOthersTakeThePlaceOfThePlans) {
  control::v1::Plan plan = MakePlan(0);
  const std::string other(32, 'b'), bad(32, 'c');
  for (const std::string& peer : {other, bad}) {
    plan.add_positions()->set_peer(peer);
    plan.mutable_positions()->rbegin()->add_addresses("10.0.0.1:1");
  }
  control::v1::NewAddresses news;
  const auto add = [&](const std::string& peer, const std::string& address) {
    news.add_peers()->set_peer(peer);
    news.mutable_peers()->rbegin()->add_addresses(address);
  };
  add(other, "10.0.0.2:2");
  add(bad, std::string(301, 'a'));
  add(std::string(32, 'd'), "10.0.0.3:3");
  add("short", "10.0.0.3:3");
  add(plan.positions(0).peer(), "10.0.0.4:4");
  news.add_peers()->set_peer(other);  // without addresses
  On([&] {
    host_ = std::make_unique<StageHost>(resources_, &owner_, plan, plan.positions(0));
    host_->OnNewAddresses(news);
    const control::v1::Plan& now = host_->plan();
    ASSERT_EQ(now.positions_size(), 3);
    EXPECT_EQ(now.positions(0).SerializeAsString(), plan.positions(0).SerializeAsString());
    ASSERT_EQ(now.positions(1).addresses_size(), 1);
    EXPECT_EQ(now.positions(1).addresses(0), "10.0.0.2:2");
    EXPECT_EQ(now.positions(2).addresses(0), "10.0.0.1:1");
    host_.reset();
  });
}

// A plan in place names no artefacts; what was fetched for the stage is needed again by a plan that
// is not, and was deleted with the old checkpoints.
TEST_F(StageHostTest, ACheckpointInPlaceLeavesTheDataFileThere) {
  checkpoint_ = false;
  Start(MakePlan(0));
  WaitFor(PeerMessage::kPlanReady);
  Step(0);
  On([this] { host_->Hold(); });
  ASSERT_TRUE(WaitUntil(control_.get(), [this] { return host_->held() == 1; }));
  control::v1::Plan plan = MakePlan(1);
  plan.set_in_place(true);
  plan.clear_artefacts();
  On([&] {
    owner_.told.clear();
    auto next = std::make_unique<StageHost>(resources_, &owner_, plan, plan.positions(0));
    next->StartInPlace(std::move(host_));
    host_ = std::move(next);
  });
  WaitFor(PeerMessage::kPlanReady);
  checkpoint_ = true;
  for (const std::uint64_t step : {1, 2}) {
    Step(step);
    EXPECT_EQ(WaitFor(PeerMessage::kCheckpointDone).checkpoint_done().error(), "");
  }
  storage::ContentHash data;
  std::ranges::copy(offered_.back().hash(), data.digest.begin());
  EXPECT_TRUE(RunOn(store_.get(), [&] { return content_->PathOf(data); }).ok());
}

TEST_F(StageHostTest, APlanInPlaceNeedsWhatItSays) {
  checkpoint_ = false;
  const auto fails = [this](const control::v1::Plan& plan) {
    Start(MakePlan(0));
    WaitFor(PeerMessage::kPlanReady);
    Step(0);
    On([this] { host_->Hold(); });
    EXPECT_TRUE(WaitUntil(control_.get(), [this] { return host_->held() == 1; }));
    On([&] {
      owner_.told.clear();
      auto next = std::make_unique<StageHost>(resources_, &owner_, plan, plan.positions(0));
      next->StartInPlace(std::move(host_));
      host_ = std::move(next);
    });
    return WaitFor(PeerMessage::kPlanFailed).plan_failed().error();
  };
  control::v1::Plan plan = MakePlan(2);
  plan.set_in_place(true);
  EXPECT_THAT(fails(plan), HasSubstr("does not hold its stage after 2 steps"));
  plan.set_resume_step(1);
  plan.mutable_config()->set_seed(99);
  EXPECT_THAT(fails(plan), HasSubstr("of another place or configuration"));
  plan.mutable_positions(0)->set_shadow(true);
  EXPECT_THAT(fails(plan), HasSubstr("has not prepared the stage that it is to follow"));
  On([&] {
    owner_.told.clear();
    host_ = std::make_unique<StageHost>(resources_, &owner_, plan, plan.positions(0));
    host_->StartInPlace(nullptr);
  });
  EXPECT_THAT(WaitFor(PeerMessage::kPlanFailed).plan_failed().error(),
              HasSubstr("holds no stage any more"));
}

// What never changes is here before the plan is; a plan that comes right behind the last step waits
// for it.
TEST_F(StageHostTest, PreparesAStageAndGoesOnBehindTheLastStep) {
  checkpoint_ = false;
  control::v1::Plan prepare = MakePlan(0);
  const control::v1::Position own = prepare.positions(0);
  prepare.clear_positions();
  prepare.set_generation(0);
  On([&] {
    host_ = std::make_unique<StageHost>(resources_, &owner_, prepare, own);
    host_->Prepare();
  });
  const control::v1::Prepared prepared = WaitFor(PeerMessage::kPrepared).prepared();
  EXPECT_EQ(prepared.error(), "");
  EXPECT_EQ(prepared.stage(), own.stage());

  Start(MakePlan(0));
  WaitFor(PeerMessage::kPlanReady);
  Step(0);
  control::v1::Plan plan = MakePlan(1);
  plan.set_in_place(true);
  plan.clear_artefacts();
  const auto go_on = [&] {
    auto next = std::make_unique<StageHost>(resources_, &owner_, plan, plan.positions(0));
    next->StartInPlace(std::move(host_));
    host_ = std::move(next);
  };
  On([&] {
    owner_.told.clear();
    host_->Hold();  // whether it has settled is not waited for
    go_on();
  });
  WaitFor(PeerMessage::kPlanReady);
  Step(1);
  // A generation that ends before the last step has settled: the stage is kept.
  plan.set_resume_step(2);
  On([&] {
    host_->Hold();
    go_on();
    host_->Hold();
  });
  ASSERT_TRUE(WaitUntil(control_.get(), [this] { return host_->held() == 2; }));
  On([&] {
    owner_.told.clear();
    go_on();
  });
  WaitFor(PeerMessage::kPlanReady);
  Step(2);
}

}  // namespace
}  // namespace shoal::daemon
