#include "scheduler/swarm/closing_checkpoint.h"

#include <algorithm>

#include "common/log.h"
#include "scheduler/config/swarm_limits.h"
#include "scheduler/swarm/plan_messages.h"

namespace shoal::scheduler {
namespace {

Duration ToDuration(double seconds) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
}

}  // namespace

ClosingCheckpoint::ClosingCheckpoint(const RunConfig& config, const ArtefactMap& initial,
                                     const SwarmPlan& plan, const RunHistory& history,
                                     Lifecycle* lifecycle, CheckpointUploads* uploads,
                                     const Reaction& reaction)
    : config_(config),
      initial_(initial),
      plan_(plan),
      history_(history),
      lifecycle_(*lifecycle),
      uploads_(*uploads),
      reaction_(reaction) {}

// Of the slowest stage, whose holders share its bytes out. Lines that nobody knows take
// `unknown_bps`; 0: they do not count.
double ClosingCheckpoint::SecondsToSave(std::vector<double> rates_bps, double unknown_bps) const {
  double most = 0;
  for (std::uint32_t stage = 0; stage < config_.stages; ++stage) {
    if (rates_bps[stage] == 0) rates_bps[stage] = unknown_bps;
    if (rates_bps[stage] == 0) continue;
    const std::uint64_t bytes = StateBytes(config_, stage, history_.checkpoint().files, initial_);
    most = std::max(most, 8 * static_cast<double>(bytes) / rates_bps[stage]);
  }
  return most;
}

// Those of a pipeline that hold so many steps and can save them.
std::vector<const Member*> ClosingCheckpoint::HoldersIn(std::uint32_t pipeline,
                                                        std::uint64_t step) const {
  std::vector<const Member*> holders;
  for (std::uint32_t s = 0; s < config_.stages; ++s) {
    const Member* const member = plan_.At(pipeline, s);
    const bool holds = member != nullptr && member->connected && member->save_error.empty() &&
                       member->held.generation() == history_.generation() &&
                       member->held.step() == step;
    if (holds) holders.push_back(member);
  }
  return holders;
}

bool ClosingCheckpoint::Begin(std::uint64_t step, double step_seconds) {
  step_ = 0;
  holders_.clear();
  std::vector<bool> held(config_.stages, false);
  std::vector<double> rates_bps(config_.stages, 0);
  for (std::uint32_t p = 0; p < plan_.pipelines(); ++p) {
    const std::vector<const Member*> holders = HoldersIn(p, step);
    // Where pipelines differ a checkpoint is of one of them.
    if (plan_.pipelines_differ() && (holders.size() < config_.stages || !holders_.empty())) {
      continue;
    }
    for (const Member* const member : holders) {
      const auto s = static_cast<std::uint32_t>(member->stage);
      holders_.push_back({member->peer, s});
      held[s] = true;
      rates_bps[s] += static_cast<double>(member->line.upload_bps);
    }
  }
  if (std::ranges::count(held, false) > 0) return false;
  const double to_save = SecondsToSave(rates_bps, 0);
  const auto undone = static_cast<double>(step - history_.checkpoint().step);
  if (to_save > undone * step_seconds + kClosingAlwaysSeconds) {
    SHOAL_LOG(kInfo, "scheduler", "closing.not_worth", {"step", step}, {"seconds_to_save", to_save},
              {"seconds_to_train", undone * step_seconds});
    return false;
  }
  step_ = step;
  until_ = reaction_.now() + kClosingLimit + ToDuration(3 * SecondsToSave(rates_bps, kUnknownBps));
  uploads_.BeginClosing(step_, holders_);
  SHOAL_LOG(kInfo, "scheduler", "closing.begin", {"step", step_}, {"holders", holders_.size()});
  return true;
}

void ClosingCheckpoint::Fill(const Member& member, control::v1::Abort* abort) const {
  if (!saving()) return;
  for (const CheckpointRounds::Saver& holder : holders_) {
    if (holder.peer != member.peer || !member.save_error.empty()) continue;
    abort->set_hold_step(step_);
    abort->set_save(true);
  }
}

void ClosingCheckpoint::Look() {
  if (!saving()) return;
  if (history_.checkpoint().step >= step_) return End("");
  if (!uploads_.Has(step_)) return End("no member of a stage is left that can save it");
  // What members hold is all that there is, and the organiser is told what to do.
  if (uploads_.not_kept()) until_ = std::max(until_, reaction_.now() + kClosingLimit);
  if (reaction_.now() > until_) End("it took too long");
}

void ClosingCheckpoint::End(const std::string& trouble) {
  SHOAL_LOG(kInfo, "scheduler", "closing.end", {"step", step_}, {"trouble", trouble});
  step_ = 0;
  uploads_.EndClosing();
  lifecycle_.SetStepsFate(trouble.empty() ? StepsFate::kSaved : StepsFate::kTrainedAgain, trouble);
}

}  // namespace shoal::scheduler
