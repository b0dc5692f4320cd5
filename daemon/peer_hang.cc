// A peer part of which hangs (a GPU, a disk, a library): it gives its stage up at once, and takes
// none until what hangs has ended. Its control thread lives, and so nobody else would notice.

#include <memory>
#include <utility>

#include "common/log.h"
#include "daemon/peer_node.h"

namespace shoal::daemon {
namespace {

// For the farewell to leave the machine, and for the others to go on without this peer: who says
// hello while it still has a place in the plan is taken for another loss.
constexpr Duration kFarewellTime = std::chrono::seconds(2);
constexpr const char* kEnded = "what hung has ended";

}  // namespace

// To the scheduler it is lost, and who shares its stage goes on with what they hold. Posted: the
// stage reports this while it runs.
void PeerNode::OnStageHangs(const std::string& what) {
  SHOAL_ASSERT_ON(*control_);
  SHOAL_LOG(kError, "daemon", "stage.hangs", {"what", what});
  control_->Post("daemon.hangs", [this, what] {
    if (!hang_.empty() || state_ == PeerState::kDraining || state_ == PeerState::kStopped) return;
    hang_ = what;
    control::v1::PeerMessage message;
    message.mutable_leaving()->set_reason("as it hangs: " + what);
    connection_->Tell(std::move(message));
    EndStage();
    FinishHandover();
    AwaitEndOfHang();
    ChangeState(PeerState::kJoining, what);
    control_->PostAfter("daemon.hangs", kFarewellTime, [this] {
      if (state_ == PeerState::kJoining) Rejoin(hang_.empty() ? kEnded : hang_);
    });
  });
}

// What was posted behind the operation that hangs runs when that has ended.
void PeerNode::AwaitEndOfHang() {
  auto left = std::make_shared<int>(3);
  for (Executor* const executor : {compute_, codec_, store_}) {
    executor->Post("daemon.alive", [this, left] {
      control_->Post("daemon.alive", [this, left] {
        if (--*left > 0) return;
        SHOAL_LOG(kInfo, "daemon", "stage.hangs_no_more", {"what", hang_});
        hang_.clear();
        if (state_ == PeerState::kPaused && !rests()) Rejoin(kEnded);
      });
    });
  }
}

const std::string& PeerNode::hang() const {
  SHOAL_ASSERT_ON(*control_);
  return hang_;
}

// A new hello says whether this peer takes a stage. What was under way on the former stream never
// ends, and the scheduler asks again.
void PeerNode::Rejoin(const std::string& why) {
  SHOAL_ASSERT_ON(*control_);
  if (state_ == PeerState::kDraining || state_ == PeerState::kStopped || invite_text_.empty())
    return;
  offer_.reset();
  lost_offer_.reset();
  closed_ = 0;
  ChangeState(PeerState::kJoining, why);
  connection_->Open(invite_);
}

std::string PeerNode::PauseReason() const {
  SHOAL_ASSERT_ON(*control_);
  if (paused_ && overlay_.paused_until_ms > 0) {
    return "paused until " + terms_->NameOf(overlay_.paused_until_ms) +
           ": by its user; `shoal resume` ends that";
  }
  if (paused_) return "paused by its user; `shoal resume` ends that";
  if (hang_.empty()) return terms_->allowed().pause_text;
  return "takes no stage, as it hangs: " + hang_ +
         "; it goes on by itself when that ends, or start shoald again";
}

}  // namespace shoal::daemon
