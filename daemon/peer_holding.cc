// What a peer keeps of its stage when a generation ends or the scheduler is gone.

#include <utility>
#include <vector>

#include "common/log.h"
#include "daemon/peer_node.h"

namespace shoal::daemon {
namespace {

constexpr Duration kHoldMax = std::chrono::minutes(10);
constexpr std::size_t kHeldLosses = 256;  // as many as the scheduler takes
// Who is asked to upload what it saved hears that soon after it said so.
constexpr Duration kUploadAskedWithin = std::chrono::seconds(2);

}  // namespace

// What the scheduler may not know, if it was started again.
void PeerNode::AddHeld(control::v1::Held* held) const {
  const std::optional<pipeline::StepInProgress> at = stage_->in_progress();
  held->set_generation(stage_->plan().generation());
  held->set_step(at ? at->applied : *stage_->held());
  if (at) {
    held->set_runs(true);
    held->set_planned(at->planned);
    if (stage_->last_reduce()) *held->mutable_reduce() = *stage_->last_reduce();
    held->set_config_hash(stage_->plan().config_hash());
  }
  held->set_pipeline(stage_->position().pipeline());
  held->set_stage(stage_->position().stage());
  held->set_synced(stage_->synced());
  if (stage_->last_apply()) *held->mutable_last_apply() = *stage_->last_apply();
  // Of its last steps, those in a row.
  std::uint64_t first = held->step();
  auto loss = losses_.rbegin();
  std::vector<double> values;
  while (loss != losses_.rend() && values.size() < kHeldLosses) {
    if (loss->first < first) {
      if (loss->first + 1 != first) break;
      values.push_back(loss->second);
      --first;
    }
    ++loss;
  }
  held->set_first_loss(first);
  held->mutable_losses()->Add(values.rbegin(), values.rend());
}

void PeerNode::OnAbort(const control::v1::Abort& abort) {
  SHOAL_ASSERT_ON(*control_);
  ChangeState(PeerState::kWaiting, abort.reason());
  if (abort.hold_step() == 0 || (!abort.save() && handover_ != Handover::kNone)) {
    EndStage();
    return FinishHandover();
  }
  HoldStage();
  if (abort.has_apply()) stage_->ApplyHeld(abort.apply());
  if (!abort.save()) return;
  closed_ = abort.generation();
  awaits_request_ = true;
  stage_->Close(abort.hold_step(), [this] {
    control_->PostAfter("daemon.closed", kUploadAskedWithin, [this, closed = closed_] {
      if (closed_ != closed) return;
      awaits_request_ = false;
      if (!Closes()) FinishHandover();
    });
  });
}

// Whether the scheduler waits for what this peer holds, or saved, of the generation that ended.
bool PeerNode::Closes() const {
  SHOAL_ASSERT_ON(*control_);
  if (closed_ == 0) return false;
  return awaits_request_ || (stage_ && stage_->closing()) || (offer_ && offer_->busy());
}

// Without a scheduler the step at hand goes on until an order is missing: to the end of its
// micro-batches, or of its exchanges. One that is started again goes on with it if all members do.
void PeerNode::GoOnAlone() {
  SHOAL_ASSERT_ON(*control_);
  if (!stage_->goes_on()) return HoldStage();
  SHOAL_LOG(kInfo, "daemon", "stage.goes_on", {"generation", stage_->plan().generation()});
  LetGoLater();
}

void PeerNode::OnGoOn() {
  SHOAL_ASSERT_ON(*control_);
  hold_until_.reset();
  if (state_ == PeerState::kWaiting && stage_->goes_on()) ChangeState(PeerState::kTraining, "");
  stage_->TellAgain();
}

void PeerNode::OnLinkTrouble(const std::string& text) {
  SHOAL_ASSERT_ON(*control_);
  link_trouble_ = text;
  // It went on alone, and there is nobody who could leave the other out.
  if (state_ == PeerState::kJoining) HoldStage();
}

// The stage stays in memory until the next plan, or the scheduler says that nobody needs it. One
// that says nothing does not keep it for good.
void PeerNode::HoldStage() {
  SHOAL_ASSERT_ON(*control_);
  hub_->Admit({});
  samples_per_second_ = 0;
  stage_->Hold();
  LetGoLater();
}

void PeerNode::LetGoLater() {
  SHOAL_ASSERT_ON(*control_);
  if (hold_until_) return;
  hold_until_ = control_->clock().Now() + kHoldMax;
  control_->PostAfter("daemon.hold", kHoldMax, [this, generation = stage_->plan().generation()] {
    if (!hold_until_ || control_->clock().Now() < *hold_until_) return;
    hold_until_.reset();
    const bool held = stage_ && stage_->plan().generation() == generation &&
                      state_ != PeerState::kSyncing && state_ != PeerState::kTraining;
    if (!held || stage_->closing()) return;
    SHOAL_LOG(kInfo, "daemon", "stage.let_go", {"generation", generation});
    EndStage();
  });
}

}  // namespace shoal::daemon
