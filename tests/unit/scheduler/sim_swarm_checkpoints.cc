// What peers save of checkpoints, and what the server has of that.

#include <algorithm>

#include "scheduler/swarm/plan_messages.h"
#include "unit/scheduler/sim_swarm.h"

namespace shoal::scheduler {

using control::v1::PeerMessage;

// Begins with the step.
std::string SimHash(const std::string& name, std::uint64_t step) {
  std::string hash = static_cast<char>(step % 100) + name;
  hash.resize(32, 'c');
  return hash;
}

void SimSwarm::Prune() {
  std::set<std::string> needed;
  for (const auto& file : state_->NeededArtefacts()) needed.insert(file.hash());
  std::erase_if(here_, [&](const auto& entry) { return !needed.contains(entry.first); });
}

std::set<std::string> SimSwarm::UploadersOf(std::uint32_t stage) const {
  std::set<std::string> names;
  const auto weights = state_->CurrentWeights();
  for (const std::string& part : StageParts(config_, stage)) {
    names.insert(here_.at(weights.at(part).hash()));
    names.insert(here_.at(weights.at(part + ".optimizer").hash()));
  }
  return names;
}

void SimSwarm::Want(const control::v1::ArtefactRef& file) {
  wanted_.push_back(file.name());
  if (!here_.contains(file.hash())) return;
  At(Delay(10), [this, hash = file.hash(), life = scheduler_life_] {
    if (life == scheduler_life_) Feed(ArtefactHere{hash});
  });
}

// What it is asked for and has arrives, unless it is asked for something else before.
void SimSwarm::OnWanted(SimPeer* peer, const control::v1::WantArtefacts& want) {
  const ConnectionId connection = peer->connection;
  if (want.request() > 0) peer->request = want.request();
  const auto asked = [this, connection, request = want.request()] {
    const SimPeer* const now = ByConnection(connection);
    return now != nullptr && (request == 0 || now->request == request);
  };
  Duration last = want.request() > 0 ? Duration() : std::chrono::seconds(3);
  for (const auto& file : want.files()) {
    const bool has = want.request() > 0 ? peer->saved.contains(file.hash())
                                        : peer->has != nullptr && peer->has(file);
    if (!has) continue;
    const Duration delay = Delay(300);
    last = std::max(last, delay);
    At(delay, [this, asked, hash = file.hash(), name = peer->name, life = scheduler_life_] {
      if (life != scheduler_life_ || !asked()) return;
      here_.emplace(hash, name);
      Feed(ArtefactHere{hash});
    });
  }
  At(last + std::chrono::milliseconds(1), [this, asked, connection, request = want.request()] {
    for (std::size_t i = 0; asked() && i < peers_.size(); ++i) {
      if (peers_[i].get() != ByConnection(connection)) continue;
      PeerMessage offered;
      offered.mutable_artefacts_offered()->set_request(request);
      Say(i, offered);
    }
  });
}

void SimSwarm::Save(SimPeer* peer, std::uint64_t step) {
  PeerMessage saved;
  control::v1::CheckpointDone* done = saved.mutable_checkpoint_done();
  done->set_generation(peer->generation);
  done->set_step(step);
  for (const auto& artefact : peer->plan.artefacts()) {
    if (artefact.name() == "data" || artefact.name().ends_with(".optimizer")) continue;
    for (const char* suffix : {"", ".optimizer"}) {
      control::v1::ArtefactRef* file = done->add_files();
      file->set_name(artefact.name() + suffix);
      file->set_hash(SimHash(file->name(), step));
      file->set_size(50);
      peer->saved.insert(file->hash());
    }
  }
  Answer(peer, 800, saved);
}

}  // namespace shoal::scheduler
