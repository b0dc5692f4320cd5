#include "scheduler/history/checkpoint_rounds.h"

#include <algorithm>

#include "scheduler/config/swarm_limits.h"

namespace shoal::scheduler {
namespace {

// So many times what its line needs for a part, and so long: steps take the most of a line.
constexpr double kPatience = 10;
constexpr double kPatienceSeconds = 60;

double SecondsFor(std::uint64_t bytes, std::uint64_t bps) {
  return 8 * static_cast<double>(bytes) / (bps > 0 ? static_cast<double>(bps) : kUnknownBps);
}

}  // namespace

CheckpointRounds::CheckpointRounds(std::vector<std::vector<std::string>> parts)
    : parts_(std::move(parts)) {}

CheckpointRounds::Holder* CheckpointRounds::Round::Find(const PeerId& peer, Group** group) {
  for (Group& one : groups) {
    const auto found = one.holders.find(peer);
    if (found == one.holders.end()) continue;
    *group = &one;
    return &found->second;
  }
  return nullptr;
}

bool CheckpointRounds::Reset(std::uint64_t step) {
  const bool any = pending();
  rounds_.clear();
  KeepHere();
  asked_ = step;
  return any;
}

bool CheckpointRounds::full() const { return rounds_.size() >= kPendingCheckpointsMax; }

void CheckpointRounds::Begin(std::uint64_t step, std::uint64_t generation,
                             const std::vector<Saver>& savers) {
  rounds_.erase(step);
  if (full()) rounds_.erase(rounds_.begin());
  Round& round = rounds_[step];
  round.generation = generation;
  round.groups.resize(parts_.size());
  for (std::uint32_t stage = 0; stage < parts_.size(); ++stage) {
    for (const std::string& part : parts_[stage]) round.parts[part].stages.push_back(stage);
  }
  for (const Saver& saver : savers) {
    Group& group = round.groups[saver.stage];
    group.awaited += group.holders.try_emplace(saver.peer).second;
  }
  asked_ = step;
  KeepHere();
}

bool CheckpointRounds::Saves(std::uint64_t step, std::uint64_t generation,
                             const PeerId& peer) const {
  const auto round = rounds_.find(step);
  return round != rounds_.end() && round->second.generation == generation &&
         std::ranges::any_of(round->second.groups,
                             [&](const Group& group) { return group.holders.contains(peer); });
}

Status CheckpointRounds::AddSaved(std::uint64_t step, const PeerId& peer,
                                  const ArtefactMap& files) {
  Round& round = rounds_.at(step);
  Group* group = nullptr;
  Holder* const holder = round.Find(peer, &group);
  const auto stage = static_cast<std::uint32_t>(group - round.groups.data());
  std::map<std::string, Pair> saved;
  for (const std::string& part : parts_[stage]) {
    const auto weights = files.find(part), moments = files.find(part + ".optimizer");
    for (const auto& [name, found] :
         {std::pair(part, weights), std::pair(part + ".optimizer", moments)}) {
      if (found == files.end()) return InvalidArgument(name);
    }
    saved[part] = {weights->second, moments->second};
  }
  EndWaiting(&round, group, holder);
  holder->parts = std::move(saved);
  return Status::Ok();
}

// What of a group has changed may concern parts that are another stage's.
void CheckpointRounds::Change(Round* round, Group* group) const {
  group->changed = true;
  for (const std::string& part : parts_[static_cast<std::size_t>(group - round->groups.data())]) {
    round->groups[round->parts.at(part).stages.front()].changed = true;
  }
}

void CheckpointRounds::EndWaiting(Round* round, Group* group, Holder* holder) const {
  group->awaited -= std::exchange(holder->awaited, false);
  Change(round, group);
}

void CheckpointRounds::AddFailed(std::uint64_t step, const PeerId& peer) {
  Group* group = nullptr;
  Round& round = rounds_.at(step);
  Holder* const holder = round.Find(peer, &group);
  EndWaiting(&round, group, holder);
  holder->parts.clear();
  for (auto& [name, part] : round.parts) {
    if (part.owner == peer && !IsHere(part)) part.owner.reset();
  }
}

void CheckpointRounds::AwaitOnly(const std::set<PeerId>& peers) {
  for (auto& [step, round] : rounds_) {
    for (Group& group : round.groups) {
      for (auto& [peer, holder] : group.holders) {
        if (!peers.contains(peer)) EndWaiting(&round, &group, &holder);
      }
    }
  }
}

void CheckpointRounds::AwaitUntil(TimePoint until) {
  for (auto& [step, round] : rounds_) {
    round.compared = false;
    for (Group& group : round.groups) {
      for (auto& [peer, holder] : group.holders) {
        if (holder.awaited && !holder.until) holder.until = until;
      }
    }
  }
}

bool CheckpointRounds::Distrust(const std::set<PeerId>& peers) {
  const std::size_t ended = std::erase_if(rounds_, [&](const auto& entry) {
    return std::ranges::any_of(entry.second.parts, [&](const auto& named) {
      const Part& part = named.second;
      const auto [weights, moments] = part.files.hashes();
      return part.owner && peers.contains(*part.owner) &&
             (here_.contains(weights) || here_.contains(moments));
    });
  });
  for (auto& [step, round] : rounds_) {
    for (const PeerId& peer : peers) {
      Group* group = nullptr;
      if (round.Find(peer, &group) == nullptr) continue;
      AddFailed(step, peer);
      group->holders.erase(peer);  // nor is what it tells later
    }
  }
  KeepHere();
  return ended > 0;
}

void CheckpointRounds::Drop(std::uint64_t step) {
  rounds_.erase(step);
  KeepHere();
}

void CheckpointRounds::AddHere(const std::string& hash, TimePoint now) {
  for (const auto& [step, round] : rounds_) {
    for (const auto& [name, part] : round.parts) {
      const auto [weights, moments] = part.files.hashes();
      if (!part.owner || (weights != hash && moments != hash)) continue;
      here_.insert(hash);
      if (const auto told = told_.find(*part.owner); told != told_.end()) told->second.since = now;
    }
  }
}

void CheckpointRounds::DropLate(const Line& line, TimePoint now) {
  for (auto& [step, round] : rounds_) {
    for (Group& group : round.groups) {
      for (auto& [peer, holder] : group.holders) {
        if (!holder.until || now < *holder.until) continue;
        holder.until.reset();
        holder.away = false;
        EndWaiting(&round, &group, &holder);
      }
    }
    std::set<PeerId> late;
    for (const auto& [name, part] : round.parts) {
      if (!part.owner || IsHere(part)) continue;
      const auto told = told_.find(*part.owner);
      const auto bps = line(*part.owner);
      if (told == told_.end() || !bps) continue;
      const std::chrono::duration<double> patience(
          kPatienceSeconds + kPatience * SecondsFor(part.files.bytes(), *bps));
      if (now - told->second.since < patience) continue;
      if (HoldersOf(round, name, line).here.size() > 1) late.insert(*part.owner);
    }
    for (const PeerId& peer : late) AddFailed(step, peer);
  }
}

bool CheckpointRounds::AddOffered(const PeerId& peer, std::uint64_t request) {
  const auto told = told_.find(peer);
  if (told == told_.end() || told->second.number != request) return false;
  bool failed = false;
  for (auto& [step, round] : rounds_) {
    Group* group = nullptr;
    if (round.Find(peer, &group) == nullptr) continue;
    Change(&round, group);  // it may take over from others
    const bool lacks = std::ranges::any_of(round.parts, [&](const auto& part) {
      return part.second.owner == peer && !IsHere(part.second);
    });
    if (lacks) AddFailed(step, peer);
    failed = failed || lacks;
  }
  return failed;
}

bool CheckpointRounds::Postpone(const PeerId& peer, std::uint64_t request,
                                const std::set<std::string>& excused) {
  const auto told = told_.find(peer);
  if (told == told_.end() || told->second.number != request) return false;
  const bool any = std::ranges::any_of(told->second.hashes, [&](const std::string& hash) {
    return !here_.contains(hash) && excused.contains(hash);
  });
  if (any) told_.erase(told);
  return any;
}

void CheckpointRounds::Moved(const PeerId& peer, Move how, TimePoint now) {
  told_.erase(peer);
  changed_ = changed_ || pending();
  for (auto& [step, round] : rounds_) {
    Group* group = nullptr;
    Holder* const holder = round.Find(peer, &group);
    if (holder == nullptr) continue;
    holder->away = how == Move::kGone;
    holder->until.reset();
    if (how == Move::kGone) {
      holder->until = now + kReturnGrace;
    } else if (holder->awaited && how == Move::kReturned) {
      holder->until = now + kSaveLimit;
    }
    how == Move::kRestarted ? EndWaiting(&round, group, holder) : Change(&round, group);
  }
}

bool CheckpointRounds::IsHere(const Part& part) const {
  const auto [weights, moments] = part.files.hashes();
  return part.owner && here_.contains(weights) && here_.contains(moments);
}

// Who is here and has what most have of the part; all of them where as many have something else.
CheckpointRounds::Holders CheckpointRounds::HoldersOf(const Round& round, const std::string& name,
                                                      const Line& line) const {
  std::vector<std::pair<PeerId, const Pair*>> all;
  std::map<std::string, std::size_t> weights;
  for (const std::uint32_t stage : round.parts.at(name).stages) {
    for (const auto& [peer, holder] : round.groups[stage].holders) {
      const auto part = holder.parts.find(name);
      if (part == holder.parts.end()) continue;
      all.emplace_back(peer, &part->second);
      ++weights[part->second.weights.hash()];
    }
  }
  const auto most = [](const auto& counts) {
    std::size_t of = 0;
    for (const auto& [what, count] : counts) of = std::max(of, count);
    return of;
  };
  const std::size_t alike = most(weights);
  Holders holders;
  holders.tie = std::ranges::count(weights, alike, [](const auto& one) { return one.second; }) > 1;
  std::erase_if(all, [&](const auto& one) { return weights[one.second->weights.hash()] < alike; });
  std::map<std::pair<std::string, std::string>, std::size_t> pairs;
  for (const auto& [peer, pair] : all) ++pairs[pair->hashes()];
  const std::size_t equal = most(pairs);
  for (const auto& [peer, pair] : all) {
    if (pairs[pair->hashes()] == equal && line(peer)) holders.here.emplace(peer, pair);
  }
  return holders;
}

bool CheckpointRounds::Awaited(const Round& round, const Part& part) {
  return std::ranges::any_of(part.stages,
                             [&](std::uint32_t stage) { return round.groups[stage].awaited > 0; });
}

bool CheckpointRounds::MayComeBack(const Round& round, const std::string& name) {
  return std::ranges::any_of(round.parts.at(name).stages, [&](std::uint32_t stage) {
    return std::ranges::any_of(round.groups[stage].holders, [&](const auto& named) {
      return named.second.away && named.second.parts.contains(name);
    });
  });
}

std::optional<CheckpointRounds::Expected> CheckpointRounds::ExpectedAfter(std::uint64_t step,
                                                                          const Line& line) const {
  for (auto found = rounds_.rbegin(); found != rounds_.rend() && found->first > step; ++found) {
    const Round& round = found->second;
    const bool expected = std::ranges::all_of(round.parts, [&](const auto& named) {
      const auto& [name, part] = named;
      return IsHere(part) || Awaited(round, part) || MayComeBack(round, name) ||
             !HoldersOf(round, name, line).here.empty();
    });
    if (!expected) continue;
    Expected newest{found->first, 0, true};
    for (const auto& [peer, seconds] : LoadOf(line)) {
      newest.seconds = std::max(newest.seconds, seconds);
    }
    for (const auto& [name, part] : round.parts) {
      newest.dealt = newest.dealt && part.owner.has_value();
    }
    return newest;
  }
  return std::nullopt;
}

CheckpointRounds::Load CheckpointRounds::LoadOf(const Line& line) const {
  Load load;
  for (const auto& [step, round] : rounds_) {
    for (const auto& [name, part] : round.parts) {
      if (!part.owner || IsHere(part)) continue;
      load[*part.owner] += SecondsFor(part.files.bytes(), line(*part.owner).value_or(0));
    }
  }
  return load;
}

// Longest processing time first: the largest part to who would be done with it first.
CheckpointRounds::Trouble CheckpointRounds::DealGroup(Round* round, std::uint32_t stage,
                                                      const Line& line, Load* load) const {
  struct Open {
    std::string name;
    std::map<PeerId, const Pair*> holders;
    std::uint64_t bytes() const { return holders.begin()->second->bytes(); }
  };
  Trouble trouble;
  std::vector<Open> open;
  for (const std::string& name : parts_[stage]) {
    const Part& part = round->parts.at(name);
    if (part.stages.front() != stage || IsHere(part) || Awaited(*round, part)) continue;
    Holders holders = HoldersOf(*round, name, line);
    if (holders.here.empty()) {
      if (!MayComeBack(*round, name)) trouble.lost = name;
    } else if (holders.tie && (part.stages.size() > 1 || !round->compared)) {
      trouble.differs = name;
    } else if (!part.owner || !holders.here.contains(*part.owner)) {
      open.push_back({name, std::move(holders.here)});
    }
  }
  std::ranges::stable_sort(open,
                           [](const Open& a, const Open& b) { return a.bytes() > b.bytes(); });
  for (const Open& one : open) {
    const std::pair<const PeerId, const Pair*>* best = nullptr;
    double least = 0;
    for (const auto& holder : one.holders) {
      const double done = (*load)[holder.first] + SecondsFor(one.bytes(), *line(holder.first));
      if (best != nullptr && done >= least) continue;
      best = &holder;
      least = done;
    }
    Part& part = round->parts.at(one.name);
    part.owner = best->first;
    part.files = *best->second;
    (*load)[best->first] = least;
  }
  return trouble;
}

// Who has nothing left takes a part of who has the most, where that is here sooner by it. What its
// owner uploads at present, the first of its parts, stays.
void CheckpointRounds::TakeOver(Round* round, std::uint32_t stage, const Line& line,
                                Load* load) const {
  std::map<PeerId, std::vector<std::string>> left;  // by owner, in the order of requests
  for (const auto& [name, part] : round->parts) {
    if (part.stages.front() == stage && part.owner && !IsHere(part)) {
      left[*part.owner].push_back(name);
    }
  }
  std::erase_if(left, [](const auto& owned) { return owned.second.size() < 2; });
  for (const auto& [idle, holder] : round->groups[stage].holders) {
    if (left.empty()) return;
    if (!line(idle) || (*load)[idle] > 0) continue;
    auto taken = left.end();
    for (auto owned = left.begin(); owned != left.end(); ++owned) {
      const std::string& name = owned->second.back();
      const double most = taken == left.end() ? 0 : (*load)[taken->first];
      const auto own = holder.parts.find(name);
      if (own == holder.parts.end() || (*load)[owned->first] <= most) continue;
      if (SecondsFor(own->second.bytes(), *line(idle)) >= (*load)[owned->first]) continue;
      if (HoldersOf(*round, name, line).here.contains(idle)) taken = owned;
    }
    if (taken == left.end()) continue;
    Part& part = round->parts.at(taken->second.back());
    (*load)[*part.owner] -= SecondsFor(part.files.bytes(), line(*part.owner).value_or(0));
    part.owner = idle;
    part.files = holder.parts.at(taken->second.back());
    (*load)[idle] += SecondsFor(part.files.bytes(), *line(idle));
    taken->second.pop_back();
    if (taken->second.size() < 2) left.erase(taken);
  }
}

CheckpointRounds::Dealt CheckpointRounds::Deal(const Line& line, TimePoint now) {
  Dealt dealt;
  std::optional<Load> load;
  for (auto& [step, round] : rounds_) {
    for (std::uint32_t stage = 0; stage < parts_.size(); ++stage) {
      Group& group = round.groups[stage];
      if (!group.changed || group.awaited > 0) continue;
      if (!load) load = LoadOf(line);
      group.changed = false;
      changed_ = true;
      const Trouble trouble = DealGroup(&round, stage, line, &*load);
      // Others are said another time.
      const bool said = dealt.lost || dealt.differs;
      if (said) group.changed = !trouble.lost.empty() || !trouble.differs.empty();
      if (!said && !trouble.lost.empty()) dealt.lost = Lost{step, stage};
      if (!said && !trouble.differs.empty()) dealt.differs = Differs{step, trouble.differs};
      TakeOver(&round, stage, line, &*load);
    }
  }
  if (std::exchange(changed_, false)) dealt.requests = Changes(line, now);
  return dealt;
}

void CheckpointRounds::LookAgain() {
  for (auto& [step, round] : rounds_) {
    for (Group& group : round.groups) group.changed = true;
  }
}

// The oldest round first.
std::vector<CheckpointRounds::Request> CheckpointRounds::Changes(const Line& line, TimePoint now) {
  std::map<PeerId, std::vector<control::v1::ArtefactRef>> lists;
  for (const auto& [peer, told] : told_) lists.try_emplace(peer);
  for (const auto& [step, round] : rounds_) {
    for (const auto& [name, part] : round.parts) {
      if (!part.owner || IsHere(part)) continue;
      for (const auto* const file : {&part.files.weights, &part.files.moments}) {
        if (!here_.contains(file->hash())) lists[*part.owner].push_back(*file);
      }
    }
  }
  std::vector<Request> requests;
  for (auto& [peer, files] : lists) {
    if (!line(peer)) continue;
    Told& told = told_[peer];
    std::set<std::string> before, wanted;
    for (const std::string& hash : told.hashes) {
      if (!here_.contains(hash)) before.insert(hash);
    }
    for (const control::v1::ArtefactRef& file : files) wanted.insert(file.hash());
    if (wanted == before) continue;
    told = {++requests_, std::move(wanted), now};
    requests.push_back({peer, told.number, std::move(files)});
  }
  return requests;
}

std::optional<CheckpointRounds::Whole> CheckpointRounds::TakeWhole() {
  for (auto found = rounds_.rbegin(); found != rounds_.rend(); ++found) {
    const Round& round = found->second;
    const bool whole =
        std::ranges::all_of(round.groups, [](const Group& group) { return group.awaited == 0; }) &&
        std::ranges::all_of(round.parts, [&](const auto& part) { return IsHere(part.second); });
    if (!whole) continue;
    Whole taken{found->first, {}};
    for (const auto& [name, part] : round.parts) {
      taken.files[name] = part.files.weights;
      taken.files[name + ".optimizer"] = part.files.moments;
    }
    rounds_.erase(rounds_.begin(), rounds_.upper_bound(taken.step));
    KeepHere();
    return taken;
  }
  return std::nullopt;
}

std::vector<control::v1::ArtefactRef> CheckpointRounds::Files() const {
  std::vector<control::v1::ArtefactRef> files;
  for (const auto& [step, round] : rounds_) {
    for (const auto& [name, part] : round.parts) {
      if (!part.owner) continue;
      files.push_back(part.files.weights);
      files.push_back(part.files.moments);
    }
  }
  return files;
}

// Forgets what no round has; requests may have changed.
void CheckpointRounds::KeepHere() {
  std::set<std::string> needed;
  for (const control::v1::ArtefactRef& file : Files()) needed.insert(file.hash());
  std::erase_if(here_, [&](const std::string& hash) { return !needed.contains(hash); });
  changed_ = true;
}

}  // namespace shoal::scheduler
