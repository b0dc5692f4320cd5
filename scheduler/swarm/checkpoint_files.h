// The files of a checkpoint as members report them. Thread: control.

#ifndef SHOAL_SCHEDULER_SWARM_CHECKPOINT_FILES_H_
#define SHOAL_SCHEDULER_SWARM_CHECKPOINT_FILES_H_

#include <cstdint>

#include "common/status.h"
#include "proto/control.pb.h"
#include "scheduler/config/run_config.h"
#include "scheduler/history/artefact_map.h"
#include "scheduler/history/checkpoint_rounds.h"
#include "scheduler/swarm/members.h"
#include "scheduler/swarm/reaction.h"
#include "scheduler/swarm/run_journal.h"

namespace shoal::scheduler {

// Adds what the member uploaded of a checkpoint that is under way. Invalid argument: some of its
// stage are missing. Aborted: its copy of what stages share is not theirs. Moments may differ: with
// local steps each pipeline has its own.
Status AddCheckpointFiles(const RunConfig& config, const Member& member,
                          const control::v1::CheckpointDone& done, CheckpointRounds* rounds);
// A checkpoint of `step` applied steps is whole, and the run's newest.
void RecordCheckpoint(std::uint64_t step, const ArtefactMap& files, RunJournal* journal,
                      Reaction* reaction);

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_SWARM_CHECKPOINT_FILES_H_
