#include "scheduler/swarm/closing_checkpoint.h"

#include <algorithm>
#include <utility>

#include "common/log.h"
#include "common/text.h"
#include "scheduler/config/swarm_limits.h"
#include "scheduler/peers/peer_message_check.h"
#include "scheduler/swarm/checkpoint_uploads.h"
#include "scheduler/swarm/plan_messages.h"

namespace shoal::scheduler {
namespace {

constexpr std::uint64_t kUnknownUploadBps = 0;

Duration ToDuration(double seconds) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
}

}  // namespace

ClosingCheckpoint::ClosingCheckpoint(const RunConfig& config, const ArtefactMap& initial,
                                     const SwarmPlan& plan, RunJournal* journal,
                                     Lifecycle* lifecycle, Reaction* reaction)
    : config_(config),
      initial_(initial),
      plan_(plan),
      journal_(*journal),
      history_(journal->history()),
      lifecycle_(*lifecycle),
      reaction_(*reaction) {}

// The holder, if it is here and can save.
const Member* ClosingCheckpoint::At(const Holder& holder) const {
  const Member* const member = plan_.At(holder.pipeline, holder.stage);
  const bool there = member != nullptr && member->peer == holder.peer && member->connected;
  return there && !holder.failed && member->save_error.empty() ? member : nullptr;
}

// The holder of a stage with the fastest line.
std::optional<std::size_t> ClosingCheckpoint::BestOf(std::uint32_t stage) const {
  std::optional<std::size_t> best;
  std::uint64_t rate = 0;
  for (std::size_t i = 0; i < holders_.size(); ++i) {
    if (holders_[i].stage != stage) continue;
    const Member* const member = At(holders_[i]);
    if (member == nullptr || (best && member->line.upload_bps <= rate)) continue;
    best = i;
    rate = member->line.upload_bps;
  }
  return best;
}

bool ClosingCheckpoint::Choose() {
  uploaders_.clear();
  for (std::uint32_t stage = 0; stage < config_.stages; ++stage) {
    const std::optional<std::size_t> best = BestOf(stage);
    if (!best) return false;
    uploaders_.push_back(*best);
  }
  return true;
}

// Of the slowest uploader. Lines that nobody knows do not count.
double ClosingCheckpoint::SecondsToSave() const {
  const ArtefactMap& saved = history_.checkpoint().files;
  double most = 0;
  for (std::uint32_t stage = 0; stage < config_.stages; ++stage) {
    const Member* const member = At(holders_[uploaders_[stage]]);
    if (member == nullptr || member->line.upload_bps == kUnknownUploadBps) continue;
    std::uint64_t bytes = 0;
    for (const std::string& part : StageParts(config_, stage)) {
      const auto of = [&part](const ArtefactMap& files, const char* suffix) -> std::uint64_t {
        const auto found = files.find(part + suffix);
        return found == files.end() ? 0 : found->second.size();
      };
      // Before the first checkpoint: two moments beside the weights.
      bytes += saved.empty() ? 3 * of(initial_, "") : of(saved, "") + of(saved, ".optimizer");
    }
    most = std::max(most,
                    8 * static_cast<double>(bytes) / static_cast<double>(member->line.upload_bps));
  }
  return most;
}

bool ClosingCheckpoint::Begin(std::uint64_t step, double step_seconds) {
  step_ = 0;
  holders_.clear();
  for (std::uint32_t p = 0; p < plan_.pipelines(); ++p) {
    for (std::uint32_t s = 0; s < config_.stages; ++s) {
      const Member* const member = plan_.At(p, s);
      const bool holds = member != nullptr && member->connected &&
                         member->held.generation() == history_.generation() &&
                         member->held.step() == step;
      if (holds) holders_.push_back({member->peer, p, s});
    }
  }
  if (!Choose()) return false;
  const double to_save = SecondsToSave();
  const auto undone = static_cast<double>(step - history_.checkpoint().step);
  if (to_save > undone * step_seconds + kClosingAlwaysSeconds) {
    SHOAL_LOG(kInfo, "scheduler", "closing.not_worth", {"step", step}, {"seconds_to_save", to_save},
              {"seconds_to_train", undone * step_seconds});
    return false;
  }
  step_ = step;
  until_ = reaction_.now() + kClosingLimit + ToDuration(3 * to_save);
  uploaded_.assign(config_.stages, false);
  rounds_.Reset(history_.checkpoint().step, {});  // who uploads is known here
  rounds_.Begin(step_, config_.stages);
  SHOAL_LOG(kInfo, "scheduler", "closing.begin", {"step", step_}, {"holders", holders_.size()});
  return true;
}

void ClosingCheckpoint::Fill(const Member& member, control::v1::Abort* abort) const {
  if (!saving()) return;
  for (std::size_t i = 0; i < holders_.size(); ++i) {
    if (holders_[i].peer != member.peer || holders_[i].failed) continue;
    abort->set_hold_step(step_);
    abort->set_save(true);
    abort->set_upload(uploaders_[holders_[i].stage] == i);
  }
}

void ClosingCheckpoint::OnDone(const Member& member, const control::v1::CheckpointDone& done) {
  if (!saving() || done.step() != step_) return;
  const auto holder = std::find_if(holders_.begin(), holders_.end(),
                                   [&](const Holder& one) { return one.peer == member.peer; });
  if (holder == holders_.end()) return;
  const bool uploads = &*holder == &holders_[uploaders_[holder->stage]];
  Status status = Status::Ok();
  if (!done.error().empty()) {
    status = Internal(CleanText(done.error(), kReasonCharactersMax));
  } else if (uploads) {
    status = AddCheckpointFiles(config_, member, done, &rounds_);
  }
  if (!status.ok()) {
    holder->failed = true;
    SHOAL_LOG(kWarning, "scheduler", "closing.failed", {"peer", member.LabelWithPosition()},
              {"step", step_}, {"error", status.message()});
    if (uploads) Replace(holder->stage);
    return;
  }
  if (!uploads) return;
  uploaded_[holder->stage] = true;
  rounds_.AddReport(step_, holder->pipeline, holder->stage);
  const auto files = rounds_.TakeWhole(step_);
  if (!files) return;
  RecordCheckpoint(step_, *files, &journal_, &reaction_);
  End("");
}

void ClosingCheckpoint::Look() {
  if (!saving()) return;
  if (reaction_.now() > until_) return End("it took too long");
  for (std::uint32_t stage = 0; saving() && stage < config_.stages; ++stage) {
    if (!uploaded_[stage] && At(holders_[uploaders_[stage]]) == nullptr) Replace(stage);
  }
}

// Another holder of the stage uploads, if there is one.
void ClosingCheckpoint::Replace(std::uint32_t stage) {
  const std::optional<std::size_t> other = BestOf(stage);
  if (!other) {
    return End("no member of stage " + std::to_string(stage) + " is left that can save it");
  }
  uploaders_[stage] = *other;
  const Member* const member = At(holders_[*other]);
  control::v1::SchedulerMessage message;
  message.mutable_abort()->set_generation(history_.generation());
  message.mutable_abort()->set_reason(lifecycle_.cause());
  Fill(*member, message.mutable_abort());
  reaction_.Send(*member, std::move(message));
}

void ClosingCheckpoint::End(const std::string& trouble) {
  SHOAL_LOG(kInfo, "scheduler", "closing.end", {"step", step_}, {"trouble", trouble});
  step_ = 0;
  lifecycle_.SetStepsFate(trouble.empty() ? StepsFate::kSaved : StepsFate::kTrainedAgain, trouble);
}

}  // namespace shoal::scheduler
