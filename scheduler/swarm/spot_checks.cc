#include "scheduler/swarm/spot_checks.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

#include "common/log.h"
#include "common/text.h"
#include "scheduler/peers/peer_message_check.h"

namespace shoal::scheduler {
namespace {

// Of steps; by then all that comes has come.
constexpr std::uint64_t kSpotAge = 2;

std::string Percent(double share) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g %%", 100 * share);
  return text;
}

// Losses of micro-batches that do not add up to what was reported are those of none.
double ClaimedLoss(const control::v1::StepReady& ready, std::uint32_t place) {
  double sum = 0;
  for (const double loss : ready.losses()) sum += loss;
  const bool fits = static_cast<int>(place) < ready.losses_size() &&
                    std::abs(sum - ready.loss_sum()) <= 1e-6 * std::abs(ready.loss_sum()) + 1e-6;
  return fits ? ready.losses(static_cast<int>(place)) : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace

SpotChecks::SpotChecks(const RunConfig& config, const SwarmPlan& plan, const RunHistory& history,
                       Lifecycle* lifecycle, MemberFaults* faults, Reaction* reaction)
    : config_(config),
      plan_(plan),
      history_(history),
      lifecycle_(*lifecycle),
      faults_(*faults),
      reaction_(*reaction),
      random_(config.spot_check_seed) {}

void SpotChecks::Look() {
  while (!pending_.empty() && pending_.front().step + kSpotAge <= history_.step()) {
    const Pending old = std::move(pending_.front());
    pending_.pop_front();
    if (lifecycle_.active()) Judge(old);
  }
}

void SpotChecks::OnStepPlan(const control::v1::StepPlan& plan) {
  const std::optional<Pending> check = Draw(plan);
  if (!check) return;
  const control::v1::PipelinePlan& part = plan.pipelines(static_cast<int>(check->pipeline));
  Tell(*check, part.micro_batches(static_cast<int>(check->place)));
  pending_.push_back(*check);
}

// Any visit of a micro-batch to a stage is as likely as any other.
std::optional<SpotChecks::Pending> SpotChecks::Draw(const control::v1::StepPlan& plan) {
  const std::vector<std::uint32_t> counting = plan_.Counting();
  if (config_.spot_checks <= 0 || counting.size() < 2) return std::nullopt;
  std::uint64_t micro_batches = 0;
  for (const control::v1::PipelinePlan& part : plan.pipelines()) {
    micro_batches += static_cast<std::uint64_t>(part.micro_batches_size());
  }
  const std::uint64_t visits = micro_batches * config_.stages;
  const double drawn = static_cast<double>(random_() >> 11) * 0x1p-53;
  if (visits == 0 || drawn >= config_.spot_checks * static_cast<double>(visits)) {
    return std::nullopt;
  }
  Pending check;
  check.step = plan.step();
  check.stage = static_cast<std::uint32_t>(Below(config_.stages));
  std::uint64_t left = Below(micro_batches);
  while (left >= static_cast<std::uint64_t>(
                     plan.pipelines(static_cast<int>(check.pipeline)).micro_batches_size())) {
    left -= static_cast<std::uint64_t>(
        plan.pipelines(static_cast<int>(check.pipeline++)).micro_batches_size());
  }
  check.place = static_cast<std::uint32_t>(left);
  std::vector<std::uint32_t> others = counting;
  std::erase(others, check.pipeline);
  if (others.size() == counting.size()) return std::nullopt;  // it has just come in step
  while (check.checkers.size() < kSpotCheckersMax && !others.empty()) {
    const auto at = others.begin() + static_cast<std::ptrdiff_t>(Below(others.size()));
    check.checkers.push_back(plan_.positions()[*at][check.stage]);
    others.erase(at);
  }
  check.peer = plan_.positions()[check.pipeline][check.stage];
  check.reports.resize(check.checkers.size());
  return check;
}

void SpotChecks::Tell(const Pending& check, const control::v1::MicroBatchPlan& micro_batch) {
  control::v1::SchedulerMessage message;
  control::v1::SpotCheck* const told = message.mutable_spot_check();
  told->set_generation(history_.generation());
  told->set_step(check.step);
  told->set_pipeline(check.pipeline);
  told->set_stage(check.stage);
  told->set_place(check.place);
  *told->mutable_micro_batch() = micro_batch;
  std::vector<const Member*> members;
  if (check.stage > 0) members.push_back(plan_.At(check.pipeline, check.stage - 1));
  if (check.stage + 1 < config_.stages) {
    members.push_back(plan_.At(check.pipeline, check.stage + 1));
  }
  for (std::uint32_t p = 0; p < plan_.pipelines(); ++p) {
    const Member* const member = plan_.At(p, check.stage);
    if (member == nullptr || std::ranges::count(check.checkers, member->peer) == 0) continue;
    told->add_checkers(p);
    members.push_back(member);
  }
  std::erase(members, nullptr);
  reaction_.SendEach(members, message);
}

void SpotChecks::OnReady(const Member& member, const control::v1::StepReady& ready) {
  for (Pending& check : pending_) {
    if (check.step != ready.step() || check.peer != member.peer) continue;
    const auto place = static_cast<int>(check.place);
    const bool first = check.stage == 0, last = check.stage + 1 == config_.stages;
    check.silent = (!first && place >= ready.input_digests_size()) ||
                   (!last && place >= ready.output_digests_size());
    check.claim.emplace();
    if (!first && !check.silent) check.claim->input_digest = ready.input_digests(place);
    if (!last && !check.silent) check.claim->output_digest = ready.output_digests(place);
    if (last) check.claim->loss = ClaimedLoss(ready, check.place);
  }
  JudgeComplete();
}

void SpotChecks::OnChecked(const Member& member, const control::v1::SpotChecked& checked) {
  for (Pending& check : pending_) {
    if (check.step != checked.step()) continue;
    const auto found = std::ranges::find(check.checkers, member.peer);
    if (found == check.checkers.end()) continue;
    auto& report = check.reports[static_cast<std::size_t>(found - check.checkers.begin())];
    if (!report) report = checked;
  }
  JudgeComplete();
}

// Their pipelines tell nothing of the micro-batches that they had, and check none of others.
void SpotChecks::GoOnWithout() {
  const auto whole = [this](const PeerId& peer) {
    const auto position = plan_.PositionOf(peer);
    return position.has_value() && !plan_.HasGap(position->first);
  };
  counts_.missed += std::erase_if(pending_, [&](Pending& check) {
    if (check.step < history_.step()) return false;
    for (std::size_t i = check.checkers.size(); i-- > 0;) {
      if (whole(check.checkers[i])) continue;
      check.checkers.erase(check.checkers.begin() + static_cast<std::ptrdiff_t>(i));
      check.reports.erase(check.reports.begin() + static_cast<std::ptrdiff_t>(i));
    }
    return !whole(check.peer) || check.checkers.empty();
  });
}

void SpotChecks::JudgeComplete() {
  const auto complete = [](const Pending& check) {
    return check.claim && std::ranges::all_of(
                              check.reports, [](const auto& report) { return report.has_value(); });
  };
  const auto found = std::ranges::find_if(pending_, complete);
  if (found == pending_.end()) return;
  const Pending check = std::move(*found);
  pending_.erase(found);
  Judge(check);
}

void SpotChecks::Judge(const Pending& check) {
  const Member* const member = plan_.At(check.pipeline, check.stage);
  const bool here = member != nullptr && member->peer == check.peer && check.claim;
  if (here && check.silent) {
    ++counts_.done;
    return Fault(check, member->LabelWithPosition() +
                            " does not tell digests of its micro-batches: "
                            "its shoald is older than spot checks, or it hides something");
  }
  const bool first = check.stage == 0, last = check.stage + 1 == config_.stages;
  const SpotVerdict verdict =
      here ? JudgeSpotCheck(*check.claim, check.reports, first, last) : SpotVerdict();
  if (verdict.outcome == SpotOutcome::kNotDone) {
    ++counts_.missed;
    for (const auto& report : check.reports) {
      if (!report) continue;
      SHOAL_LOG(kInfo, "scheduler", "spot_check.missed", {"step", check.step},
                {"stage", check.stage},
                {"reason", CleanText(report->error(), kReasonCharactersMax)});
    }
    return;
  }
  ++counts_.done;
  if (verdict.outcome == SpotOutcome::kEqual) return;
  const std::string what = "micro-batch " + std::to_string(check.place) + " of step " +
                           std::to_string(check.step) + ": ";
  const std::string label = member->LabelWithPosition();
  const std::string differs = (last ? "the loss of " : "the output of ") + label + " differs by " +
                              Percent(verdict.difference) + " from what was computed again";
  switch (verdict.outcome) {
    case SpotOutcome::kDiffers: return Fault(check, what + differs);
    case SpotOutcome::kInputUnclear: {
      const Member* const before = plan_.At(check.pipeline, check.stage - 1);
      return Contradiction(check, before,
                           what + "what " + label +
                               " says that it got differs "
                               "from what the stage before shows");
    }
    case SpotOutcome::kOutputUnclear: {
      const Member* const behind = plan_.At(check.pipeline, check.stage + 1);
      return Contradiction(check, behind,
                           what + "what " + label +
                               " says that it sent differs "
                               "from what the stage behind shows");
    }
    default: break;
  }
  for (const Member* const host : plan_.Hosts()) {
    if (host->peer == check.checkers[verdict.checker]) {
      return Contradiction(check, host, what + "by the word of one checker alone, " + differs);
    }
  }
}

void SpotChecks::Fault(const Pending& check, const std::string& what) {
  const Member& member = *plan_.At(check.pipeline, check.stage);
  ++counts_.failed;
  const std::string quarantined = faults_.AddFault(member, FaultKind::kOutputs, what);
  counts_.last = what + quarantined;
  SHOAL_LOG(kWarning, "scheduler", "spot_check.failed", {"step", check.step},
            {"peer", member.LabelWithPosition()}, {"cause", what});
  if (!quarantined.empty() && lifecycle_.active()) faults_.Replace(member, counts_.last);
}

void SpotChecks::Contradiction(const Pending& check, const Member* other, const std::string& what) {
  ++counts_.undecided;
  if (other == nullptr) return;
  counts_.last =
      what + " (" + other->LabelWithPosition() + "); it is not known which of them is wrong";
  SHOAL_LOG(kWarning, "scheduler", "spot_check.undecided", {"step", check.step},
            {"cause", counts_.last});
  const std::pair<PeerId, PeerId> pair = std::minmax(check.peer, other->peer);
  Pair& known = contradictions_[pair];
  if (reaction_.now() - known.since > kFaultAge) known = {reaction_.now(), 0};
  if (++known.times < kSpotContradictionsMax || !lifecycle_.active()) return;
  contradictions_.erase(pair);
  lifecycle_.Hold(counts_.last + ", " + std::to_string(kSpotContradictionsMax) +
                  " times within an hour: let one of the two leave, or kick it, then continue "
                  "with: shoal swarm resume");
}

}  // namespace shoal::scheduler
