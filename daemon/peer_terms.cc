// What a peer does on the terms of its owner: it pauses by rules and takes part again, within caps
// that change with the time.

#include <algorithm>
#include <optional>
#include <utility>

#include "common/log.h"
#include "common/units.h"
#include "daemon/peer_node.h"
#include "net/base/local_addresses.h"

namespace shoal::daemon {

Usage PeerNode::Measured() const {
  SHOAL_ASSERT_ON(*control_);
  TrafficTotals totals = past_;
  if (stage_) AddRunner(stage_->stats(), stage_->link_stats(), &totals);
  const net::ControlStats control = connection_->stats();
  Usage usage;
  usage.micro_batches = totals.micro_batches;
  usage.sent_bytes = totals.link_sent_wire_bytes + control.sent_wire_bytes;
  usage.received_bytes = totals.link_received_wire_bytes + control.received_wire_bytes;
  usage.energy_joules = gpu_->energy_mj() / 1000;
  return usage;
}

bool PeerNode::Trains() const {
  SHOAL_ASSERT_ON(*control_);
  return state_ == PeerState::kTraining;
}

// Others of its stage may share the upload; it has no gradients.
std::uint64_t PeerNode::HandoverBytes() const {
  SHOAL_ASSERT_ON(*control_);
  return stage_ && state_ == PeerState::kTraining ? stage_->budget().state_bytes : 0;
}

void PeerNode::OnGpuUser(const std::string& program) {
  SHOAL_ASSERT_ON(*control_);
  terms_->OnGpuUser(program);
}

// CUDA does not find a card again in a process that has lost it: another one begins anew, or says
// that the card is still away.
void PeerNode::OnGpuLost(const std::string& why) {
  SHOAL_ASSERT_ON(*control_);
  SHOAL_LOG(kError, "daemon", "gpu.lost", {"reason", why});
  on_stop_(Aborted("the GPU is lost (the driver says: " + why +
                   "); shoald ends, so that a new one finds it; see `nvidia-smi`, and in a "
                   "container start the container again"));
}

void PeerNode::OnTerms() {
  SHOAL_ASSERT_ON(*control_);
  const Allowed& allowed = terms_->allowed();
  hub_->SetCaps(allowed.upload, allowed.download);
  gpu_->LimitPower(allowed.gpu_watts);
  memory_->Allow(allowed.device_memory_bytes, StageBytes());
  const bool rested = rests();
  ruled_ = !allowed.trains();
  if (state_ == PeerState::kDraining || state_ == PeerState::kStopped) return;
  if (rests() != rested) return rests() ? RestByRule() : TakePart();
  if (state_ == PeerState::kPaused) reasons_ = {PauseReason()};
}

// As `shoal pause` does. Who goes already, or hands over, says with its next hello that it rests.
void PeerNode::RestByRule() {
  SHOAL_ASSERT_ON(*control_);
  if (handover_ != Handover::kNone) return;
  if (BeginHandover(Handover::kPause, "its owner's terms pause it")) return;
  handover_ = Handover::kPause;
  FinishHandover();
}

// Least that the stage takes of its device.
std::optional<std::uint64_t> PeerNode::StageBytes() const {
  SHOAL_ASSERT_ON(*control_);
  if (!stage_) return std::nullopt;
  if (stage_->prepares() || state_ == PeerState::kSyncing) return kStageIsMade;
  const StageBudget budget = stage_->budget();
  return budget.state_bytes + budget.micro_batch_bytes;
}

// As a pause, but its next hello asks for a stage that takes less.
void PeerNode::OnStageTooLarge(std::uint64_t limit_bytes) {
  SHOAL_ASSERT_ON(*control_);
  if (state_ == PeerState::kDraining || state_ == PeerState::kStopped) return;
  if (handover_ != Handover::kNone) return;  // it goes already
  const std::string reason = "its owner limits its memory to " + FormatBytes(limit_bytes);
  if (BeginHandover(Handover::kShrink, reason)) return;
  handover_ = Handover::kShrink;
  FinishHandover();
}

// The scheduler goes by the last hello. While the stage fits, that can wait for its end.
void PeerNode::TellMemory() {
  SHOAL_ASSERT_ON(*control_);
  const bool free = state_ == PeerState::kWaiting && !stage_ && handover_ == Handover::kNone;
  if (!free || memory_told_ == memory_->bytes()) return;
  handover_ = Handover::kShrink;
  FinishHandover();
}

// While the stage is handed over its end comes first; the hello behind it says that we want one.
void PeerNode::TakePart() {
  SHOAL_ASSERT_ON(*control_);
  if (handover_ == Handover::kNone) Rejoin("resuming");
}

void PeerNode::OnSecond(std::int64_t now_ms) {
  SHOAL_ASSERT_ON(*control_);
  const Usage& usage = terms_->ledger().total();
  history_->Look(now_ms,
                 {usage.trained_ms, usage.micro_batches, usage.sent_bytes, usage.received_bytes},
                 step_, loss_);
  if (state_ == PeerState::kDraining || state_ == PeerState::kStopped) return;
  LookForNetwork();
  const TermSettings terms = Terms(now_ms);
  gpu_->Look(terms.gpu_free.has_value());
  KeepDisk(terms.disk_bytes);
  TellMemory();
  if (handover_ == Handover::kPause && ruled_ && !paused_ && terms_->BudgetSpent()) {
    SHOAL_LOG(kWarning, "daemon", "handover.gave_up", {"reason", "the transfer budget is used up"});
    FinishHandover();
  }
  if (!paused_ || overlay_.paused_until_ms == 0 || now_ms < overlay_.paused_until_ms) return;
  SHOAL_LOG(kInfo, "daemon", "pause.ends", {"reason", "its time is over"});
  (void)Resume();
}

// After longer than the scheduler waits for a heartbeat the connection is gone at its other end.
void PeerNode::OnSlept(Duration slept) {
  SHOAL_ASSERT_ON(*control_);
  if (state_ == PeerState::kDraining || state_ == PeerState::kStopped) return;
  if (slept < timeouts_.peer_timeout) return connection_->RetryNow();
  connection_->Drop(Unavailable("this machine slept for " + FormatDuration(slept)));
}

// Connections of an address that this machine has lost are dead, and another network is no reason
// to wait.
void PeerNode::LookForNetwork() {
  SHOAL_ASSERT_ON(*control_);
  const std::optional<OwnNetwork::Change> change = network_.Look();
  if (!change) return;
  const std::size_t ended = net::EndConnectionsFrom(change->lost);
  SHOAL_LOG(kInfo, "daemon", "network.changed", {"addresses_lost", change->lost.size()},
            {"connections_ended", ended});
  hub_->NetworkChanged();
  connection_->RetryNow();
}

void PeerNode::KeepDisk(std::uint64_t bytes_max) {
  SHOAL_ASSERT_ON(*control_);
  disk_->LookForSpace();
  if (!disk_->Due(bytes_max, !stage_)) return;
  DiskOrder order;
  order.bytes_max = bytes_max;
  order.idle = !stage_;
  order.space =
      config_.store_space == "tight" ? storage::StoreSpace::kTight : storage::StoreSpace::kDefault;
  if (const auto run = RunId::FromHex(run_id_); run.ok()) order.run = *run;
  // While it gets a stage, what it will need is known in part only.
  if (stage_ && state_ == PeerState::kTraining) order.blobs = stage_->blobs();
  disk_->Keep(std::move(order));
}

void PeerNode::AddTerms(StatusSnapshot* s) const {
  SHOAL_ASSERT_ON(*control_);
  const Allowed& allowed = terms_->allowed();
  TermsReport& report = s->terms;
  if (paused_) {
    report.reason = "user";
    report.until_ms = overlay_.paused_until_ms;
  } else if (!hang_.empty()) {
    report.reason = "hang";
  } else {
    report.reason = PauseRuleName(allowed.pause);
    report.until_ms = allowed.until.value_or(0) * 1000;
  }
  report.rules = allowed.rules;
  for (std::string& text : gpu_->Texts(Terms(terms_->now_ms()).gpu_free.has_value())) {
    report.rules.push_back(std::move(text));
  }
  if (!disk_->text().empty()) report.rules.push_back(disk_->text());
  if (std::string text = memory_->Text(); !text.empty()) report.rules.push_back(std::move(text));
  report.next_change_ms = allowed.next_change.value_or(0) * 1000;
  report.budget_used_bytes = allowed.budget_used_bytes;
  report.budget_bytes = allowed.budget_bytes;
  report.budget_resets_ms = allowed.budget_resets.value_or(0) * 1000;
  report.usage = terms_->ledger().total();
  s->gpu = gpu_->reading();
}

// Checkpoints are counted on the thread that writes them.
void PeerNode::Stats(std::function<void(Result<net::CommandResult>)> reply) {
  SHOAL_ASSERT_ON(*control_);
  terms_->Count();
  const std::uint64_t bytes = delta_store_->stats().disk_bytes + content_->bytes();
  store_->Post("terms.disk", [this, bytes, reply = std::move(reply)]() mutable {
    std::uint64_t all = bytes;
    for (const storage::StoredRun& run : checkpoints_->Runs()) all += run.bytes;
    control_->Post("terms.stats", [this, all, reply = std::move(reply)] {
      reply(net::CommandResult{"", StatsJson(terms_->ledger(), all)});
    });
  });
}

}  // namespace shoal::daemon
