#include "scheduler/swarm/checkpoint_files.h"

#include <string>

#include "scheduler/swarm/plan_messages.h"

namespace shoal::scheduler {

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

}  // namespace shoal::scheduler
