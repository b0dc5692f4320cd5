// How a stage comes to a peer otherwise than from a checkpoint: it holds it already, or gets it
// from its group while that trains.

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "common/log.h"
#include "daemon/stage_host.h"
#include "daemon/stage_messages.h"
#include "replica/methods/replica_method.h"

namespace shoal::daemon {

void StageHost::Prepare() {
  SHOAL_ASSERT_ON(*resources_.control);
  prepares_ = true;
  Start();
}

// Whether the run and the stage are the same; in how many pipelines may differ.
bool StageHost::SameStage(const StageHost& former) const {
  control::v1::RunConfig before = former.plan_.config(), now = plan_.config();
  before.set_pipelines(0);
  now.set_pipelines(0);
  return former.own_.stage() == own_.stage() && former.own_.first_layer() == own_.first_layer() &&
         former.own_.last_layer() == own_.last_layer() &&
         before.SerializeAsString() == now.SerializeAsString();
}

FetchProgress StageHost::fetch_progress() const {
  SHOAL_ASSERT_ON(*resources_.control);
  if (!own_.shadow() || !runner_) return fetcher_.progress();
  const pipeline::RunnerStats stats = runner_->stats();
  return {stats.state_bytes, stats.state_bytes_wanted};
}

Status StageHost::CanGoOnWith(const StageHost& former) const {
  if (former.loaded_ == nullptr || former.held() != plan_.resume_step()) {
    return FailedPrecondition("this peer does not hold its stage after " +
                              std::to_string(plan_.resume_step()) + " steps any more");
  }
  if (former.shadow()) return FailedPrecondition("this peer has only a part of its stage's state");
  // With methods that keep more than weights and moments, the same place in the same group.
  const auto method = replica::ParseReplicaMethod(plan_.config().replica_method());
  const bool moves =
      method.ok() && (method->traits.follows_steps || method->traits.pipelines_differ);
  const bool place = former.own_.pipeline() == own_.pipeline() &&
                     former.plan_.config().pipelines() == plan_.config().pipelines();
  return SameStage(former) && (moves || place)
             ? Status::Ok()
             : FailedPrecondition("this peer holds a stage of another place or configuration");
}

void StageHost::StartInPlace(std::unique_ptr<StageHost> former) {
  SHOAL_ASSERT_ON(*resources_.control);
  if (Status checked = CheckPlan(plan_); !checked.ok()) return FailPlan(checked);
  former_ = std::move(former);
  // One that went on without a scheduler, as far as it came.
  const bool on = former_ != nullptr && former_->runner_ != nullptr && !former_->held_;
  if (on && !former_->settling_) former_->Hold();
  const bool settles = former_ != nullptr && former_->settling_ && !former_->held_;
  if (!settles) return GoOnWithFormer();
  // The plan came right behind the last step.
  former_->on_settled_ = [this] {
    resources_.control->Post("stage.go_on", [this, alive = alive_] {
      if (*alive && !failed_) GoOnWithFormer();
    });
  };
}

// The generation has ended before it began here: this holds what the former does.
void StageHost::SettleAsFormer() {
  if (!former_->held_) {
    former_->on_settled_ = [this] {
      resources_.control->Post("stage.settle", [this, alive = alive_] {
        if (*alive && former_) SettleAsFormer();
      });
    };
    return;
  }
  const std::unique_ptr<StageHost> former = std::exchange(former_, nullptr);
  former->runner_.reset();
  loaded_ = std::exchange(former->loaded_, nullptr);
  OnSettled(*former->held_);
}

void StageHost::GoOnWithFormer() {
  const std::unique_ptr<StageHost> former = std::exchange(former_, nullptr);
  if (former == nullptr) {
    return FailPlan(FailedPrecondition("this peer holds no stage any more"));
  }
  const Status can = own_.shadow() ? TakeShadowOf(*former) : CanGoOnWith(*former);
  if (!can.ok()) return FailPlan(can);
  owner_->OnStageState(PeerState::kSyncing, own_.shadow()
                                                ? "joining the peers that hold its stage"
                                                : "going on with the stage that it holds");
  former->runner_.reset();
  OnLoaded(std::exchange(former->loaded_, nullptr));
}

// What a shadow has got so far is right after the steps that it holds, and no others.
Status StageHost::TakeShadowOf(const StageHost& former) {
  if (former.loaded_ == nullptr || !SameStage(former)) {
    return FailedPrecondition("this peer has not prepared the stage that it is to follow");
  }
  const bool follows = former.own_.shadow() && former.held() == plan_.resume_step();
  if (follows && former.runner_ != nullptr) missing_ = former.runner_->missing_state();
  return Status::Ok();
}

void StageHost::OnNewAddresses(const control::v1::NewAddresses& news) {
  SHOAL_ASSERT_ON(*resources_.control);
  for (const control::v1::Reachable& peer : news.peers()) {
    const auto position =
        std::ranges::find(plan_.positions(), peer.peer(),
                          [](const auto& each) -> const std::string& { return each.peer(); });
    if (position == plan_.positions().end() || peer.peer() == own_.peer()) continue;
    if (Status checked = CheckAddresses(peer.addresses());
        !checked.ok() || peer.addresses().empty()) {
      SHOAL_LOG(kWarning, "daemon", "addresses.not_taken", {"peer", position->name()},
                {"error", checked.message()});
      continue;
    }
    const auto index = static_cast<int>(position - plan_.positions().begin());
    *plan_.mutable_positions(index)->mutable_addresses() = peer.addresses();
    resources_.hub->UseAddresses(ToPeerId(peer.peer()),
                                 {peer.addresses().begin(), peer.addresses().end()});
    SHOAL_LOG(kInfo, "daemon", "addresses.new", {"peer", position->name()});
  }
}

void StageHost::TellPrepared(const Status& status) {
  control::v1::PeerMessage message;
  message.mutable_prepared()->set_stage(own_.stage());
  if (!status.ok()) message.mutable_prepared()->set_error(status.ToString());
  owner_->Tell(std::move(message));
}

void StageHost::OnCaughtUp(std::uint64_t steps) {
  SHOAL_ASSERT_ON(*resources_.control);
  caught_up_ = true;
  SHOAL_LOG(kInfo, "daemon", "stage.caught_up", {"steps", steps});
  control::v1::PeerMessage message;
  message.mutable_caught_up()->set_generation(plan_.generation());
  message.mutable_caught_up()->set_step(steps);
  owner_->Tell(std::move(message));
  ShowTraining(whole_);
}

}  // namespace shoal::daemon
