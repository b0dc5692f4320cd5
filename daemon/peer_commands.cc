// What the CLI orders of a peer; join and set are in peer_membership.cc.

#include <memory>
#include <utility>

#include "common/log.h"
#include "daemon/peer_node.h"

namespace shoal::daemon {
namespace {

// A checkpoint that is not whole by then is not worth its owner's wait.
constexpr Duration kHandoverMax = std::chrono::minutes(10);

constexpr const char* kEnding =
    "this shoald ends already, once others have what it holds; `shoal status` shows how far it is";

}  // namespace

void PeerNode::OnCommand(const std::string& name,
                         const std::map<std::string, std::string>& arguments,
                         std::function<void(Result<net::CommandResult>)> reply) {
  SHOAL_ASSERT_ON(*control_);
  SHOAL_LOG(kInfo, "daemon", "command", {"name", name});
  if (state_ == PeerState::kDraining || state_ == PeerState::kStopped) {
    return reply(FailedPrecondition("shoald is stopping; start it again with `shoal join INVITE`"));
  }
  if (name == "join") return reply(Join(arguments));
  if (name == "pause") return reply(Pause(arguments));
  if (name == "resume") return reply(Resume());
  if (name == "leave") return reply(Leave(arguments.contains("now")));
  if (name == "finish") return reply(Finish(arguments.contains("now")));
  if (name == "set") return reply(Set(arguments));
  if (name == "settings") return reply(Settings());
  if (name == "stats") return Stats(std::move(reply));
  if (name == "stop") {
    reply(net::CommandResult{"shoald stops", ""});
    control_->Post("daemon.stop_command", [this] { on_stop_(Status::Ok()); });
    return;
  }
  reply(InvalidArgument(
      "shoald has no command '" + name +
      "'; it has join, pause, resume, leave, finish, set, settings, stats, page and "
      "stop"));
}

Result<net::CommandResult> PeerNode::Pause(const std::map<std::string, std::string>& arguments) {
  if (handover_ >= Handover::kLeave) return FailedPrecondition(kEnding);
  std::int64_t until_ms = 0;
  if (const auto lasts = arguments.find("for"); lasts != arguments.end()) {
    SHOAL_ASSIGN_OR_RETURN(until_ms, EndOf(lasts->second, terms_->now_ms()));
  }
  const bool timed = until_ms > 0 || overlay_.paused_until_ms > 0;
  if (paused_ && handover_ == Handover::kNone && !timed) {
    return net::CommandResult{"already paused; `shoal resume` ends the pause", ""};
  }
  const bool rested = rests() && handover_ == Handover::kNone;
  paused_ = true;
  overlay_.paused_until_ms = until_ms;
  std::string kept = KeepSettings();
  if (until_ms > 0) kept = "\nit takes part again at " + terms_->NameOf(until_ms) + kept;
  if (rested) {
    if (state_ == PeerState::kPaused) reasons_ = {PauseReason()};
    return net::CommandResult{"paused; `shoal resume` ends the pause" + kept, ""};
  }
  if (!arguments.contains("now") && BeginHandover(Handover::kPause, "its owner pauses it")) {
    return net::CommandResult{
        "pausing: the run saves a checkpoint first, so that no step is lost; `shoal status` shows "
        "when it is done, `shoal pause --now` does not wait for it" +
            kept,
        ""};
  }
  handover_ = Handover::kPause;
  FinishHandover();
  return net::CommandResult{
      "paused: this peer gives its stage back; `shoal resume` ends the pause" + kept, ""};
}

Result<net::CommandResult> PeerNode::Resume() {
  const std::string ruled = ruled_ ? "; but " + terms_->allowed().pause_text +
                                         "; `shoal set KEY=VALUE --for 2h` changes a rule for a "
                                         "time"
                                   : "";
  if (handover_ >= Handover::kLeave) return FailedPrecondition(kEnding);
  if (!paused_) return net::CommandResult{"not paused by its user" + ruled, ""};
  paused_ = false;
  overlay_.paused_until_ms = 0;
  const std::string kept = KeepSettings();
  if (rests()) {
    if (state_ == PeerState::kPaused) reasons_ = {PauseReason()};
    return net::CommandResult{"its user pauses it no more" + ruled + kept, ""};
  }
  TakePart();
  return net::CommandResult{"resumed: this peer takes a stage as soon as one is free" + kept, ""};
}

Result<net::CommandResult> PeerNode::Leave(bool now) {
  ForgetInvite();
  paused_ = false;
  overlay_.paused_until_ms = 0;
  const std::string kept = KeepSettings();
  if (!now && BeginHandover(Handover::kLeave, "its owner leaves")) {
    return net::CommandResult{
        "leaving: the run saves a checkpoint first, so that no step is lost; then shoald stops. "
        "`shoal leave --now` does not wait for it" +
            kept,
        ""};
  }
  const bool told = client() != nullptr;
  handover_ = Handover::kLeave;
  FinishHandover();
  return net::CommandResult{
      std::string(told ? "left the run; shoald stops."
                       : "shoald stops and joins no more; its scheduler cannot be reached, and "
                         "goes on listing this peer, as gone.") +
          " Its files stay in " + config_.directory + kept,
      ""};
}

Result<net::CommandResult> PeerNode::Finish(bool now) {
  if (!now && BeginHandover(Handover::kFinish, "its owner stops it")) {
    return net::CommandResult{
        "finishing: the run saves a checkpoint first, so that no step is lost; then shoald stops, "
        "and stays a member. `shoal finish --now` does not wait for it",
        ""};
  }
  handover_ = Handover::kFinish;
  FinishHandover();
  return net::CommandResult{
      "shoald stops and stays a member: `shoald` or `shoal join INVITE` goes on", ""};
}

// A full disk must keep nobody from pausing or leaving: only the next start does not know of it.
std::string PeerNode::KeepSettings() {
  overlay_.paused = paused_;
  const Status status = WriteOverlay(config_.directory + "/overlay.json", overlay_);
  if (status.ok()) return "";
  SHOAL_LOG(kWarning, "daemon", "overlay.not_written", {"error", status.message()});
  return "\nthe next start of shoald will not know this: " + status.message();
}

// False: nothing is to be handed over, or nobody is there to take it.
bool PeerNode::BeginHandover(Handover how, const std::string& reason) {
  SHOAL_ASSERT_ON(*control_);
  const bool closing = Closes();  // goes when that is done
  if (!closing && (!stage_ || state_ != PeerState::kTraining)) return false;
  const bool asked = handover_ != Handover::kNone;
  if (handover_ != Handover::kStop) handover_ = how;  // the process waits for that
  if (asked) return true;
  if (closing) {
    control_->PostAfter("daemon.handover", kHandoverMax, [this, closed = closed_] {
      if (closed_ == closed) FinishHandover();
    });
    return true;
  }
  control::v1::PeerMessage message;
  message.mutable_handing_over()->set_reason(reason);
  connection_->Tell(std::move(message));
  control_->PostAfter(
      "daemon.handover", kHandoverMax, [this, generation = stage_->plan().generation()] {
        if (!stage_ || stage_->plan().generation() != generation) return;
        SHOAL_LOG(kWarning, "daemon", "handover.gave_up", {"generation", generation});
        FinishHandover();
      });
  return true;
}

bool PeerNode::HandOver(std::function<void()> done) {
  SHOAL_ASSERT_ON(*control_);
  handed_over_ = std::move(done);
  const bool waits = BeginHandover(Handover::kStop, "its shoald is told to end");
  if (!waits) handed_over_();
  return waits;
}

void PeerNode::FinishHandover() {
  SHOAL_ASSERT_ON(*control_);
  const Handover how = std::exchange(handover_, Handover::kNone);
  if (how == Handover::kNone) return;
  if (how == Handover::kStop) return handed_over_();
  if (how == Handover::kLeave || how == Handover::kFinish) {
    control::v1::PeerMessage message;
    message.mutable_leaving()->set_reason(how == Handover::kLeave ? "left by its user"
                                                                  : "stopped by its user");
    connection_->Tell(std::move(message));
    EndStage();
    control_->Post("daemon.leave", [this] { on_stop_(Status::Ok()); });
    return;
  }
  // A timer of a handover may run while the process ends.
  if (state_ == PeerState::kDraining || state_ == PeerState::kStopped) return;
  if (invite_text_.empty()) return;
  // A new hello tells the scheduler. Posted: this may be a callback of the connection.
  EndStage();
  const char* const why =
      how == Handover::kShrink ? "telling how much memory a stage may take" : "resuming";
  ChangeState(PeerState::kJoining, rests() ? "pausing" : why);
  control_->Post("daemon.pause", [this, said = reasons_.front()] {
    if (state_ == PeerState::kJoining) Rejoin(said);
  });
}

}  // namespace shoal::daemon
