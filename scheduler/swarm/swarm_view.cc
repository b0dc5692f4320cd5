#include "scheduler/swarm/swarm_view.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "common/units.h"
#include "scheduler/peers/memory_shortage.h"
#include "scheduler/steps/plausibility.h"
#include "scheduler/swarm/plan_messages.h"

namespace shoal::scheduler {
namespace {

double Seconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }

}  // namespace

std::string SwarmView::WaitingFor() const {
  if (std::string lost = of_.artefacts.LostText(); !lost.empty()) return lost;
  if (of_.uploads.not_kept()) return of_.uploads.Trouble();
  const std::size_t here = of_.members.candidates();
  if (here >= of_.plan.needed() && of_.plan.too_little_memory()) {
    std::vector<PeerMemory> peers;
    for (const auto& [peer, member] : of_.members.all()) {
      if (member.candidate()) peers.push_back({member.Label(), member.memory_bytes});
    }
    std::string text = MemoryShortageText(of_.config, std::move(peers));
    if (!text.empty()) return text;
  }
  const bool enough = here >= of_.plan.needed();
  if (const auto step = of_.uploads.awaited(); step && enough) {
    return "it continues from the checkpoint of step " + std::to_string(*step) +
           ", which its members upload";
  }
  if (enough) return "it continues in a moment";
  std::string text = "waiting for " + std::to_string(of_.plan.needed() - here) +
                     (of_.plan.needed() - here == 1 ? " more peer (" : " more peers (") +
                     std::to_string(here) + " of " + std::to_string(of_.plan.needed()) +
                     " are here)";
  const bool begins = of_.plan.may_shrink() && !of_.history.started();
  if (begins && here >= of_.config.stages) {
    text += ", or begin with fewer pipelines: shoal swarm start";
  }
  constexpr int kNamed = 4;
  int named = 0;
  for (const Member* member : of_.plan.Hosts()) {
    if (member->candidate()) continue;
    if (++named > kNamed) continue;
    text += (named == 1 ? ", missing: " : ", ") + member->LabelWithPosition();
  }
  named = 0;
  for (const auto& [peer, member] : of_.members.all()) {
    if (member.quarantine.empty() || ++named > kNamed) continue;
    text += (named == 1 ? ", in quarantine: " : ", ") + member.Label();
  }
  return text;
}

std::string SwarmView::Reason() const {
  switch (of_.lifecycle.state()) {
    case RunState::kWaiting:
      if (of_.members.candidates() >= of_.plan.needed() && !of_.history.started() &&
          !of_.config.auto_start) {
        return "enough peers are here (" + std::to_string(of_.members.candidates()) +
               "); start the run with: shoal swarm start";
      }
      return WaitingFor();
    case RunState::kPreparing:
      return std::to_string(of_.plan.ready()) + " of " + std::to_string(of_.plan.placed()) +
             " peers have their layers and links";
    case RunState::kTraining: return TrainingReason();
    case RunState::kPaused:
      if (of_.history.held()) {
        return of_.lifecycle.cause() + (of_.uploads.not_kept() ? "; " + of_.uploads.Trouble() : "");
      }
      return of_.lifecycle.cause() + (of_.lifecycle.cause().empty() ? "" : "; ") + WaitingFor();
    case RunState::kFailed: return of_.lifecycle.cause();
    case RunState::kFinished: return "";
  }
  return "";
}

std::string SwarmView::TrainingReason() const {
  std::string text;
  const auto add = [&text](const std::string& what) {
    text += (text.empty() || what.empty() ? "" : "; ") + what;
  };
  if (const auto& ending = of_.lifecycle.ending()) {
    add((ending->hold ? "pausing" : ending->cause + ",") +
        " as soon as the next checkpoint is whole");
  }
  add(of_.uploads.Trouble());
  if (const auto& doubt = of_.faults.doubt()) add(doubt->cause + "; the run goes on");
  add(RepairText());
  return text.empty() ? Warning() : text;
}

// Why fewer pipelines count than the run wants, and how far that is mended; empty: all do.
std::string SwarmView::RepairText() const {
  const std::size_t counting = of_.steps.counting().newest().size();
  if (counting >= of_.config.pipelines) return "";
  std::string text =
      std::to_string(counting) + " of " + std::to_string(of_.config.pipelines) + " pipelines train";
  const std::string& since = of_.lifecycle.last_end();
  if (!since.empty()) text += ", since " + since;
  constexpr int kNamed = 4;
  int named = 0;
  std::vector<const Member*> follow;
  const auto add = [&](const std::string& what) {
    if (++named <= kNamed) text += (named == 1 ? "; " : ", ") + what;
  };
  for (const auto& [peer, member] : of_.members.all()) {
    if (member.placed() && of_.plan.IsShadow(peer)) {
      std::string got = member.LabelWithPosition() + " gets its stage from its group";
      if (member.state_bytes_wanted > 0) {
        got += " (" + FormatBytes(std::min(member.state_bytes, member.state_bytes_wanted)) +
               " of " + FormatBytes(member.state_bytes_wanted) + ")";
      }
      add(got);
    } else if (member.placed() && of_.plan.HasGap(static_cast<std::uint32_t>(member.pipeline))) {
      follow.push_back(&member);
    } else if (member.candidate() && !member.placed() && member.preparation.stage) {
      add(member.Label() +
          (member.preparation.ready ? " is ready for stage " : " gets ready for stage ") +
          std::to_string(*member.preparation.stage));
    }
  }
  if (follow.size() == 1) {
    add(follow.front()->LabelWithPosition() + " follows the others until its pipeline is whole");
  } else if (!follow.empty()) {
    add(std::to_string(follow.size()) + " peers follow the others until their pipelines are whole");
  }
  const std::size_t here = of_.members.candidates();
  if (here < of_.plan.needed()) {
    const std::size_t missing = of_.plan.needed() - here;
    text += "; " + std::to_string(missing) + (missing == 1 ? " more peer is" : " more peers are") +
            " wanted for all";
  }
  return text;
}

std::string SwarmView::Warning() const {
  return of_.config.without_weights ? "" : FlatLossText(of_.history.losses());
}

control::v1::RunStatus SwarmView::Message() const {
  control::v1::RunStatus status;
  status.set_state(std::string(RunStateName(of_.lifecycle.state())));
  status.set_reason(Reason());
  status.set_step(of_.history.step());
  status.set_steps(of_.config.steps);
  status.set_loss(of_.history.losses().empty() ? 0 : of_.history.losses().back());
  if (!of_.history.held_out().empty()) {
    *status.mutable_held_out() = ToMessage(of_.history.held_out().back());
  }
  status.set_peers(static_cast<std::uint32_t>(of_.members.connected()));
  status.set_peers_needed(of_.plan.needed());
  return status;
}

RunView SwarmView::At(TimePoint now) const {
  RunView view;
  view.state = of_.lifecycle.state();
  view.reason = Reason();
  view.generation = of_.history.generation();
  view.step = of_.history.step();
  view.steps = of_.config.steps;
  view.checkpoint_step = of_.history.checkpoint().step;
  view.checkpoint_every = of_.uploads.Every();
  view.skipped_steps = of_.history.skipped().size();
  view.last_skipped = of_.history.last_skipped();
  view.losses = of_.history.losses();
  view.held_out = of_.history.held_out();
  view.loss = of_.history.losses().empty() ? 0 : of_.history.losses().back();
  view.step_seconds = of_.steps.times().seconds();
  view.last_step_seconds = of_.steps.times().last();
  view.seconds_in_control = of_.steps.times().control_seconds();
  if (view.step_seconds > 0) {
    view.samples_per_second = static_cast<double>(of_.config.micro_batches) *
                              of_.config.micro_batch_rows / view.step_seconds;
  }
  const std::map<PeerId, Quarantine::Term> terms = of_.faults.InQuarantine(now);
  for (const auto& [peer, term] : terms) {
    view.quarantines.push_back({peer, term.cause, Seconds(term.left)});
  }
  for (const auto& [peer, member] : of_.members.all()) {
    MemberView shown;
    shown.peer = peer;
    shown.name = member.name;
    shown.device = member.device;
    shown.address = member.address;
    shown.quarantine = member.quarantine;
    if (const auto term = terms.find(peer); term != terms.end()) {
      shown.quarantine_s = Seconds(term->second.left);
    }
    shown.state = !member.connected            ? "away"
                  : !member.quarantine.empty() ? "quarantine"
                                               : member.state;
    shown.connected = member.connected;
    shown.wants_stage = member.wants_stage;
    shown.pipeline = member.pipeline;
    shown.stage = member.stage;
    shown.last_heard_s = std::max(0.0, Seconds(now - member.last_heard));
    shown.status_json = member.status_json;
    view.members.push_back(std::move(shown));
  }
  view.m_checks = of_.applied.counts().m_checks();
  view.m_mismatches = of_.applied.counts().m_mismatches();
  view.weight_checks = of_.applied.counts().weight_checks();
  view.weight_mismatches = of_.applied.counts().weight_mismatches();
  view.last_difference = of_.applied.last_difference();
  view.spot_checks = of_.spots.counts();
  view.refused_values = of_.steps.values().refused();
  view.last_refused = of_.steps.values().last_refused();
  view.warning = Warning();
  view.timings = of_.steps.timings();
  view.lans = of_.plan.lans().stages;
  return view;
}

}  // namespace shoal::scheduler
