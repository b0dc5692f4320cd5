#include "scheduler/swarm/checkpoint_uploads.h"

#include <utility>

#include "common/log.h"
#include "common/text.h"
#include "scheduler/config/swarm_limits.h"
#include "scheduler/peers/peer_message_check.h"
#include "scheduler/swarm/plan_messages.h"

namespace shoal::scheduler {
namespace {

std::uint32_t PipelineOf(const Member& member) {
  return static_cast<std::uint32_t>(member.pipeline);
}

std::uint32_t StageOf(const Member& member) { return static_cast<std::uint32_t>(member.stage); }

}  // namespace

Status AddCheckpointFiles(const RunConfig& config, const Member& member,
                          const control::v1::CheckpointDone& done, CheckpointRounds* rounds) {
  ArtefactMap files;
  for (const control::v1::ArtefactRef& file : done.files()) files[file.name()] = file;
  for (const std::string& part : StageParts(config, static_cast<std::uint32_t>(member.stage))) {
    for (const std::string& name : {part, part + ".optimizer"}) {
      const auto file = files.find(name);
      if (file == files.end()) {
        return InvalidArgument(member.LabelWithPosition() + " did not upload " + name +
                               " of the checkpoint of step " + std::to_string(done.step()));
      }
      if (rounds->AddFile(done.step(), name, file->second) || name != part) continue;
      return Aborted(member.LabelWithPosition() + " has another " + name +
                     " than other stages at the checkpoint of step " + std::to_string(done.step()));
    }
  }
  return Status::Ok();
}

void RecordCheckpoint(std::uint64_t step, const ArtefactMap& files, RunJournal* journal,
                      Reaction* reaction) {
  journal->StoreLosses();
  CheckpointMade made{step, {}};
  for (const auto& [name, file] : files) made.files.push_back(file);
  journal->Record(made);
  reaction->Add(CheckpointComplete{step});
}

CheckpointUploads::CheckpointUploads(const RunConfig& config, const SwarmPlan& plan,
                                     RunJournal* journal, Lifecycle* lifecycle,
                                     MemberFaults* faults, Reaction* reaction)
    : config_(config),
      plan_(plan),
      journal_(*journal),
      history_(journal->history()),
      lifecycle_(*lifecycle),
      faults_(*faults),
      reaction_(*reaction) {}

void CheckpointUploads::BeginGeneration() {
  std::vector<std::uint32_t> uploaders;
  for (std::uint32_t stage = 0; stage < config_.stages; ++stage) {
    uploaders.push_back(UploaderFor(stage).value_or(0));
  }
  rounds_.Reset(history_.checkpoint().step, std::move(uploaders));
  interval_.ForgetSteps();
}

void CheckpointUploads::EndGeneration() {
  rounds_.Clear();
  interval_.Drop();
}

void CheckpointUploads::Begin() {
  rounds_.Begin(history_.step(), plan_.InStep());
  interval_.Begin(reaction_.now());
}

std::uint64_t CheckpointUploads::Every() const {
  if (config_.checkpoint_every > 0) return config_.checkpoint_every;
  return interval_.Steps({history_.trained(), history_.set_back()});
}

void CheckpointUploads::GoOnWithout(std::uint32_t pipeline) {
  if (rounds_.GoOnWithout(pipeline)) rounds_.AskAgainAfter(history_.checkpoint().step);
  if (!rounds_.pending()) interval_.Drop();
  for (std::uint32_t stage = 0; stage < config_.stages; ++stage) {
    if (rounds_.uploader(stage) == pipeline) {
      rounds_.SetUploader(stage, UploaderFor(stage).value_or(0));
    }
  }
}

// The first member of a stage that can save, if any.
std::optional<std::uint32_t> CheckpointUploads::UploaderFor(std::uint32_t stage) const {
  for (std::uint32_t pipeline = 0; pipeline < plan_.pipelines(); ++pipeline) {
    const Member* const member = plan_.At(pipeline, stage);
    const bool saves = member != nullptr && member->save_error.empty();
    if (saves && !plan_.IsShadow(member->peer)) return pipeline;
  }
  return std::nullopt;
}

bool CheckpointUploads::Uploads(const Member& member) const {
  return rounds_.uploader(StageOf(member)) == PipelineOf(member);
}

void CheckpointUploads::SetUploader(std::uint32_t stage, std::uint32_t pipeline) {
  rounds_.SetUploader(stage, pipeline);
}

bool CheckpointUploads::DropUploadedBy(std::uint32_t stage,
                                       const std::vector<std::uint32_t>& pipelines) {
  const bool dropped = rounds_.DropUploadedBy(stage, pipelines);
  if (!rounds_.pending()) interval_.Drop();
  return dropped;
}

bool CheckpointUploads::OnDone(Member* member, const control::v1::CheckpointDone& done) {
  if (!rounds_.Has(done.step())) return false;
  if (!done.error().empty()) return OnFailed(member, done);
  member->save_error.clear();
  member->saves_failed = 0;
  if (!AddFiles(*member, done)) return false;
  rounds_.AddReport(done.step(), PipelineOf(*member), StageOf(*member));
  return CompleteIfWhole(done.step());
}

// False: what the member uploaded ends the generation.
bool CheckpointUploads::AddFiles(const Member& member, const control::v1::CheckpointDone& done) {
  if (!rounds_.Uploads(done.step(), PipelineOf(member), StageOf(member))) return true;
  const Status added = AddCheckpointFiles(config_, member, done, &rounds_);
  if (added.ok()) return true;
  // Copies that differ: nobody knows which of them are right.
  lifecycle_.Interrupt(added.message(), {added.code() != StatusCode::kAborted, member.peer});
  return false;
}

bool CheckpointUploads::OnFailed(Member* member, const control::v1::CheckpointDone& done) {
  member->save_error = CleanText(done.error(), kReasonCharactersMax);
  ++member->saves_failed;
  SHOAL_LOG(kWarning, "scheduler", "checkpoint.not_saved", {"peer", member->LabelWithPosition()},
            {"step", done.step()}, {"error", member->save_error});
  if (rounds_.Uploads(done.step(), PipelineOf(*member), StageOf(*member))) {
    OnUploadFailed(*member, done.step());
    return false;
  }
  // The others have the checkpoint: it fetches what it lacks another time.
  rounds_.AddReport(done.step(), PipelineOf(*member), StageOf(*member));
  return CompleteIfWhole(done.step());
}

// A peer that cannot save costs no step: another member of its stage uploads for the group from
// now on. If there is none, a spare takes its position when it has failed twice, which costs the
// steps since the last checkpoint once; without a spare the next checkpoint tries again, and the
// status names the peer.
void CheckpointUploads::OnUploadFailed(const Member& member, std::uint64_t step) {
  const std::uint32_t stage = StageOf(member);
  rounds_.Drop(step);
  if (!rounds_.pending()) interval_.Drop();
  const auto other = UploaderFor(stage);
  if (history_.step() >= config_.steps) {  // no step is left in which to save again
    if (other) return lifecycle_.Interrupt(WhoCannotSave());
    return lifecycle_.Hold(WhoCannotSave() + "; then continue with: shoal swarm resume");
  }
  if (!other && !member.wants_stage) {  // to wait longer for its disk would help nobody
    return lifecycle_.EndNow(member.HandsOver() + ", and cannot save: " + member.save_error);
  }
  const bool replaceable = !other && !lifecycle_.ending() && plan_.SpareCouldReplace(member);
  if (replaceable && member.saves_failed >= kSavesFailedMax) {
    return faults_.Replace(member, member.CannotSave() + "; a spare takes its place");
  }
  if (other) rounds_.SetUploader(stage, *other);
  if (other || replaceable) rounds_.AskAgainAfter(history_.checkpoint().step);  // at once
  lifecycle_.PostponeEnding();
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

bool CheckpointUploads::CompleteIfWhole(std::uint64_t step) {
  const auto files = rounds_.TakeWhole(step);
  if (!files) return false;
  interval_.End(reaction_.now());
  if (rounds_.pending()) interval_.Begin(reaction_.now());
  RecordCheckpoint(step, *files, &journal_, &reaction_);
  return true;
}

}  // namespace shoal::scheduler
