#include "scheduler/swarm/swarm_artefacts.h"

#include <utility>

#include "common/log.h"
#include "model/families/trained_part.h"

namespace shoal::scheduler {

SwarmArtefacts::SwarmArtefacts(const ArtefactMap& initial, const Members& members,
                               const SwarmPlan& plan, RunJournal* journal, Lifecycle* lifecycle,
                               Reaction* reaction)
    : initial_(initial),
      members_(members),
      plan_(plan),
      journal_(*journal),
      history_(journal->history()),
      lifecycle_(*lifecycle),
      reaction_(*reaction) {}

ArtefactMap SwarmArtefacts::Weights() const {
  if (history_.checkpoint().step > 0) return history_.checkpoint().files;
  ArtefactMap weights = initial_;
  std::erase_if(weights, [](const auto& entry) {
    return entry.first == "data" || entry.first.ends_with(model::kBaseSuffix);
  });
  return weights;
}

// What the run may still hand out.
ArtefactMap SwarmArtefacts::NeededByHash() const {
  ArtefactMap needed;
  for (const ArtefactMap& artefacts : {initial_, Weights()}) {
    for (const auto& [name, artefact] : artefacts) needed[artefact.hash()] = artefact;
  }
  return needed;
}

void SwarmArtefacts::OnLost(const std::vector<std::string>& hashes) {
  const ArtefactMap needed = NeededByHash();
  ArtefactMap lost;
  for (const std::string& hash : hashes) {
    const auto found = needed.find(hash);
    if (found != needed.end() && !lost_.Contains(hash)) lost.insert(*found);
  }
  if (lost.empty()) return;
  Want(lost);
  // Whoever is preparing could not fetch it; training goes on with what is loaded.
  if (lifecycle_.state() == RunState::kPreparing) {
    lifecycle_.PlanAgain("an artefact is damaged or gone at the scheduler");
  }
}

void SwarmArtefacts::Want(const ArtefactMap& by_hash) {
  lost_.Add(by_hash);
  SHOAL_LOG(kWarning, "scheduler", "artefacts.lost", {"which", Describe()});
  WantArtefacts wanted;
  for (const auto& [hash, file] : by_hash) wanted.files.push_back(file);
  reaction_.Add(std::move(wanted));
  for (const auto& [peer, member] : members_.all()) {
    if (member.connected) AskFor(member);
  }
}

void SwarmArtefacts::AskFor(const Member& member) {
  if (lost_.empty()) return;
  lost_.Asked(member.peer);
  control::v1::SchedulerMessage message;
  for (const auto& [hash, file] : lost_.by_hash())
    *message.mutable_want_artefacts()->add_files() = file;
  reaction_.Send(member, std::move(message));
}

void SwarmArtefacts::OnFound(const std::string& hash) {
  if (!lost_.Found(hash)) return;
  SHOAL_LOG(kInfo, "scheduler", "artefacts.whole");
  lifecycle_.PlanAtOnce();
}

bool SwarmArtefacts::NobodyElseToAsk() const {
  if (members_.candidates() < plan_.needed()) return false;
  for (const auto& [peer, member] : members_.all()) {
    if (member.connected && !lost_.HasOffered(peer)) return false;
  }
  return true;
}

bool SwarmArtefacts::MakeWhole() {
  // A checkpoint made since may have replaced what was lost.
  lost_.KeepOnly(NeededByHash());
  const RunHistory::Checkpoint older = history_.older();
  if (lost_.empty() || older.step == 0 || !NobodyElseToAsk()) return lost_.empty();
  SHOAL_LOG(kWarning, "scheduler", "checkpoint.older", {"step", older.step},
            {"instead_of", history_.checkpoint().step}, {"reason", Describe()});
  lifecycle_.SetCause("no peer has all artefacts of step " +
                      std::to_string(history_.checkpoint().step) +
                      ", so the run goes back to step " + std::to_string(older.step));
  CheckpointMade made{older.step, {}};
  for (const auto& [name, file] : older.files) made.files.push_back(file);
  journal_.Record(made);
  ArtefactMap by_hash;
  for (const control::v1::ArtefactRef& file : made.files) by_hash[file.hash()] = file;
  lost_.KeepOnly(NeededByHash());
  // The server keeps the newest checkpoint only, the peers one more.
  Want(by_hash);
  return false;
}

std::string SwarmArtefacts::LostText() const { return lost_.empty() ? "" : Describe(); }

std::string SwarmArtefacts::Describe() const {
  std::string text = lost_.Describe();
  if (history_.checkpoint().step > 0)
    text += " of the checkpoint of step " + std::to_string(history_.checkpoint().step);
  if (!NobodyElseToAsk()) return text + ": waiting for peers that have them";
  return text +
         ", and no peer that is here has them: bring back a peer that took part, or put model and "
         "data, or the folder `artefacts`, back and start shoal-scheduler again; or start anew "
         "from "
         "the model's weights with shoal-scheduler --forget-history";
}

}  // namespace shoal::scheduler
