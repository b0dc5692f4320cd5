#include "scheduler/swarm/checkpoint_uploads.h"

#include <utility>

#include "common/log.h"
#include "common/text.h"
#include "scheduler/config/swarm_limits.h"
#include "scheduler/peers/peer_message_check.h"
#include "scheduler/swarm/plan_messages.h"

namespace shoal::scheduler {
namespace {

// Of a part's two files: weights that may be stored in 16 bits, and two moments in fp32; headers.
constexpr std::uint64_t kBytesPerPartByte = 4;
constexpr std::uint64_t kHeaderBytes = 1 << 20;
// Members are asked for files that the scheduler's disk did not take.
constexpr Duration kAskAgainAfter = std::chrono::seconds(10);

std::vector<std::vector<std::string>> PartsOfStages(const RunConfig& config) {
  std::vector<std::vector<std::string>> parts;
  for (std::uint32_t stage = 0; stage < config.stages; ++stage) {
    parts.push_back(StageParts(config, stage));
  }
  return parts;
}

}  // namespace

CheckpointUploads::CheckpointUploads(const RunConfig& config, const ArtefactMap& initial,
                                     Members* members, const SwarmPlan& plan, RunJournal* journal,
                                     Lifecycle* lifecycle, MemberFaults* faults, Reaction* reaction)
    : config_(config),
      initial_(initial),
      members_(*members),
      plan_(plan),
      journal_(*journal),
      history_(journal->history()),
      lifecycle_(*lifecycle),
      faults_(*faults),
      reaction_(*reaction),
      rounds_(PartsOfStages(config)) {}

void CheckpointUploads::BeginGeneration(bool in_place) {
  distrusted_.clear();
  newer_until_.reset();
  awaited_.reset();
  closing_ = 0;
  interval_.ForgetSteps();
  if (in_place) return rounds_.LookAgain();
  rounds_.Reset(history_.checkpoint().step);
  DropUnneeded();
}

void CheckpointUploads::EndGeneration() {
  if (closing_ == 0) rounds_.AwaitUntil(reaction_.now() + kSaveLimit);
}

void CheckpointUploads::DropAll() {
  if (rounds_.Reset(rounds_.asked())) DropUnneeded();
}

// What the server was told to want, or has of it, may go.
void CheckpointUploads::DropUnneeded() {
  if (!rounds_.pending()) interval_.Drop();
  reaction_.Add(ArtefactsUnneeded{});
}

// Whether what a member of the plan saves counts.
bool CheckpointUploads::MaySave(const Member* member) const {
  return member != nullptr && !plan_.IsShadow(member->peer) && !distrusted_.contains(member->peer);
}

void CheckpointUploads::Begin() {
  std::vector<CheckpointRounds::Saver> savers;
  for (std::uint32_t pipeline = 0; pipeline < plan_.pipelines(); ++pipeline) {
    for (std::uint32_t stage = 0; stage < config_.stages; ++stage) {
      const Member* const member = plan_.At(pipeline, stage);
      if (MaySave(member)) savers.push_back({member->peer, stage});
    }
  }
  rounds_.Begin(history_.step(), history_.generation(), savers);
  interval_.Begin(reaction_.now());
}

void CheckpointUploads::BeginClosing(std::uint64_t step,
                                     const std::vector<CheckpointRounds::Saver>& savers) {
  rounds_.AwaitOnly({});
  rounds_.Begin(step, history_.generation(), savers);
  closing_ = step;
}

void CheckpointUploads::EndClosing() {
  closing_ = 0;
  rounds_.AwaitOnly({});
}

std::uint64_t CheckpointUploads::Every() const {
  if (config_.checkpoint_every > 0) return config_.checkpoint_every;
  return interval_.Steps({history_.trained(), history_.set_back()});
}

void CheckpointUploads::GoOnWithout() {
  std::set<PeerId> hosts;
  for (const Member* const member : plan_.Hosts()) hosts.insert(member->peer);
  rounds_.AwaitOnly(hosts);
}

bool CheckpointUploads::Distrust(const std::set<PeerId>& peers) {
  distrusted_.insert(peers.begin(), peers.end());
  const bool dropped = rounds_.Distrust(peers);
  if (dropped) DropUnneeded();
  return dropped;
}

void CheckpointUploads::OnMoved(const PeerId& peer) {
  using Move = CheckpointRounds::Move;
  const Member* const member = members_.Find(peer);
  const bool here = member != nullptr && member->connected;
  const bool same = here && member->held.generation() == history_.generation();
  const Move how = same ? Move::kReturned : here ? Move::kRestarted : Move::kGone;
  rounds_.Moved(peer, how, reaction_.now());
}

// No longer than the lines need, three times, and not where training again is sooner: judged anew
// until all is saved and shared out, which kSaveLimit bounds.
bool CheckpointUploads::AwaitNewer(double step_seconds) {
  awaited_.reset();
  const std::uint64_t from = history_.checkpoint().step;
  const auto expected = rounds_.ExpectedAfter(from, LineOf());
  if (!expected) return false;
  if (!newer_until_ || !newer_dealt_) {
    const auto undone = static_cast<double>(expected->step - from);
    if (expected->seconds > undone * step_seconds + kClosingAlwaysSeconds) return false;
    const std::chrono::duration<double> thrice(3 * expected->seconds);
    if (!newer_until_) {
      SHOAL_LOG(kInfo, "scheduler", "checkpoint.awaited", {"step", expected->step},
                {"seconds", expected->seconds});
    }
    newer_until_ = reaction_.now() + kClosingLimit + std::chrono::duration_cast<Duration>(thrice);
    newer_dealt_ = expected->dealt;
  }
  // Its files are all that there is of those steps, and the organiser is told what to do.
  if (not_kept()) newer_until_ = std::max(*newer_until_, reaction_.now() + kClosingLimit);
  if (reaction_.now() >= *newer_until_) return false;
  awaited_ = expected->step;
  return true;
}

void CheckpointUploads::OnDone(Member* member, const control::v1::CheckpointDone& done) {
  if (!rounds_.Saves(done.step(), done.generation(), member->peer)) return;
  if (!done.error().empty()) {
    rounds_.AddFailed(done.step(), member->peer);
    return OnFailed(member, done.error());
  }
  if (distrusted_.contains(member->peer)) return rounds_.AddFailed(done.step(), member->peer);
  const Status added = AddSaved(*member, done);
  if (added.ok()) return member->save_error.clear();
  rounds_.AddFailed(done.step(), member->peer);
  if (closing_ > 0) return OnFailed(member, added.message());
  lifecycle_.Interrupt(added.message(), {true, member->peer});
}

Status CheckpointUploads::AddSaved(const Member& member, const control::v1::CheckpointDone& done) {
  ArtefactMap files;
  for (const control::v1::ArtefactRef& file : done.files()) files[file.name()] = file;
  const std::string which = " of the checkpoint of step " + std::to_string(done.step());
  for (const auto& [name, file] : files) {
    const auto fresh = initial_.find(name.substr(0, name.find(".optimizer")));
    const std::uint64_t most =
        kHeaderBytes + kBytesPerPartByte * (fresh != initial_.end() ? fresh->second.size() : 0);
    if (file.size() <= most) continue;
    return InvalidArgument(member.LabelWithPosition() + " says that " + name + which + " has " +
                           std::to_string(file.size()) + " bytes, more than it can have");
  }
  const Status added = rounds_.AddSaved(done.step(), member.peer, files);
  if (added.ok()) return added;
  return InvalidArgument(member.LabelWithPosition() + " did not save " + added.message() + which);
}

void CheckpointUploads::Forgive() {
  for (const auto& [peer, member] : members_.all()) {
    members_.Find(peer)->save_error.clear();
    members_.Find(peer)->saves_failed = 0;
  }
}

void CheckpointUploads::OnHere(const std::string& hash) {
  not_kept_.erase(hash);
  rounds_.AddHere(hash, reaction_.now());
}

void CheckpointUploads::OnNotKept(const std::string& hash, const std::string& reason) {
  if (not_kept_.empty()) ask_again_at_ = reaction_.now() + kAskAgainAfter;
  not_kept_.insert(hash);
  why_not_kept_ = reason;
}

void CheckpointUploads::OnTick() {
  rounds_.DropLate(LineOf(), reaction_.now());
  if (not_kept_.empty()) return;
  std::set<std::string> needed;
  for (const control::v1::ArtefactRef& file : rounds_.Files()) needed.insert(file.hash());
  std::erase_if(not_kept_, [&](const std::string& hash) { return !needed.contains(hash); });
  if (reaction_.now() < ask_again_at_) return;
  ask_again_at_ = reaction_.now() + kAskAgainAfter;
  rounds_.AskAgain();
}

void CheckpointUploads::OnOffered(Member* member, const control::v1::ArtefactsOffered& offered) {
  if (not_kept() && rounds_.Postpone(member->peer, offered.request(), not_kept_)) return;
  if (!rounds_.AddOffered(member->peer, offered.request())) return;
  OnFailed(member, offered.error().empty() ? "it has not all that it saved" : offered.error());
}

// Others of the stage bring what this member does not.
void CheckpointUploads::OnFailed(Member* member, const std::string& error) {
  member->save_error = CleanText(error, kReasonCharactersMax);
  ++member->saves_failed;
  SHOAL_LOG(kWarning, "scheduler", "checkpoint.not_saved", {"peer", member->LabelWithPosition()},
            {"error", member->save_error});
}

CheckpointRounds::Line CheckpointUploads::LineOf() const {
  return [this](const PeerId& peer) -> std::optional<std::uint64_t> {
    const Member* const member = members_.Find(peer);
    if (member == nullptr || !member->connected) return std::nullopt;
    return member->line.upload_bps;
  };
}

std::optional<std::uint64_t> CheckpointUploads::Look() {
  if (!rounds_.pending() && !asks_) return std::nullopt;
  CheckpointRounds::Dealt dealt = rounds_.Deal(LineOf(), reaction_.now());
  for (CheckpointRounds::Request& request : dealt.requests) {
    control::v1::SchedulerMessage message;
    message.mutable_want_artefacts()->set_request(request.number);
    for (const control::v1::ArtefactRef& file : request.files) {
      *message.mutable_want_artefacts()->add_files() = file;
    }
    if (!request.files.empty()) reaction_.Add(WantArtefacts{std::move(request.files)});
    reaction_.Send(*members_.Find(request.peer), std::move(message));
  }
  asks_ = rounds_.pending();
  if (dealt.differs) OnDiffers(*dealt.differs);
  if (dealt.lost && (lifecycle_.active() || closing_ > 0)) OnLost(*dealt.lost);
  const auto whole = rounds_.TakeWhole();
  if (!whole) return std::nullopt;
  interval_.End(reaction_.now());
  if (rounds_.pending()) interval_.Begin(reaction_.now());
  journal_.StoreLosses();
  CheckpointMade made{whole->step, {}};
  for (const auto& [name, file] : whole->files) made.files.push_back(file);
  journal_.Record(made);
  reaction_.Add(CheckpointComplete{whole->step});
  for (const Member* const host : plan_.Hosts()) {
    if (host->save_error.empty()) members_.Find(host->peer)->saves_failed = 0;
  }
  return whole->step;
}

// Nobody knows which of the copies are right.
void CheckpointUploads::OnDiffers(const CheckpointRounds::Differs& differs) {
  rounds_.Drop(differs.step);
  DropUnneeded();
  lifecycle_.Interrupt("stages have different copies of part " + differs.part +
                           " at the checkpoint of step " + std::to_string(differs.step),
                       {false});
}

// The first member of a stage that can save, if any.
const Member* CheckpointUploads::SaverOf(std::uint32_t stage) const {
  for (std::uint32_t pipeline = 0; pipeline < plan_.pipelines(); ++pipeline) {
    const Member* const member = plan_.At(pipeline, stage);
    if (MaySave(member) && member->save_error.empty()) return member;
  }
  return nullptr;
}

// A stage that nobody can save costs no step: the next checkpoint tries again. If its only member
// failed twice, a spare takes its position, which costs the steps since the last checkpoint once;
// without a spare the status names the peer.
void CheckpointUploads::OnLost(const CheckpointRounds::Lost& lost) {
  rounds_.Drop(lost.step);
  DropUnneeded();
  if (closing_ > 0) return;
  const Member* failed = nullptr;
  for (std::uint32_t pipeline = 0; pipeline < plan_.pipelines(); ++pipeline) {
    const Member* const member = plan_.At(pipeline, lost.stage);
    if (MaySave(member) && !member->save_error.empty()) failed = member;
  }
  const Member* const other = SaverOf(lost.stage);
  if (history_.step() >= config_.steps) return OnLastLost(failed, other);
  const bool only = failed != nullptr && other == nullptr;
  if (only && !failed->wants_stage) {  // to wait longer for its disk would help nobody
    return lifecycle_.EndNow(failed->HandsOver() + ", and cannot save: " + failed->save_error);
  }
  const bool replaceable = only && !lifecycle_.ending() && plan_.SpareCouldReplace(*failed);
  if (replaceable && failed->saves_failed >= kSavesFailedMax) {
    return faults_.Replace(*failed, failed->CannotSave() + "; a spare takes its place");
  }
  if (!only || replaceable) rounds_.AskAgainAfter(history_.checkpoint().step);  // at once
  lifecycle_.PostponeEnding();
}

// No step is left in which to save again.
void CheckpointUploads::OnLastLost(const Member* failed, const Member* other) {
  const std::string who = failed != nullptr ? WhoCannotSave() : "who saved the last steps is gone";
  if (other != nullptr) return lifecycle_.Interrupt(who);
  lifecycle_.Hold(who + "; then continue with: shoal swarm resume");
}

std::string CheckpointUploads::Trouble() const {
  if (not_kept_.empty()) return WhoCannotSave();
  return "the scheduler's disk takes no checkpoint (" + why_not_kept_ +
         "): the newest that is whole is of step " + std::to_string(history_.checkpoint().step) +
         ". Free disk space there; peers keep theirs, and send it then";
}

std::string CheckpointUploads::WhoCannotSave() const {
  for (const Member* const member : plan_.Hosts()) {
    if (member->save_error.empty()) continue;
    return member->CannotSave() + "; the newest that is whole is of step " +
           std::to_string(history_.checkpoint().step) +
           ". Free disk space there, or let that peer leave";
  }
  return "";
}

}  // namespace shoal::scheduler
