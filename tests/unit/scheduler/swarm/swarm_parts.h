// SwarmParts: the parts of a SwarmState as it wires them, for tests of one of them, and a clock.

#ifndef SHOAL_TESTS_UNIT_SCHEDULER_SWARM_SWARM_PARTS_H_
#define SHOAL_TESTS_UNIT_SCHEDULER_SWARM_SWARM_PARTS_H_

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "scheduler/swarm/applied_checks.h"
#include "scheduler/swarm/checkpoint_uploads.h"
#include "scheduler/swarm/closing_checkpoint.h"
#include "scheduler/swarm/held_steps.h"
#include "scheduler/swarm/member_faults.h"
#include "scheduler/swarm/membership.h"
#include "scheduler/swarm/plan_messages.h"
#include "scheduler/swarm/spot_checks.h"
#include "scheduler/swarm/swarm_artefacts.h"
#include "scheduler/swarm/swarm_view.h"
#include "scheduler/swarm/training_steps.h"
#include "unit/scheduler/sim_swarm.h"

namespace shoal::scheduler {

struct SwarmParts : Lifecycle::Owner {
  SwarmParts(std::uint32_t stages, std::uint32_t pipelines) : config(SimConfig(stages, pipelines)) {
    reaction.Begin(TimePoint(std::chrono::hours(1)));
    journal.Record(RunBegan{config.run, 7});
    journal.Record(RunStarted{});
  }
  ~SwarmParts() override = default;

  StepsFate KeepSteps(const Keep& keep) override { return held.Begin(keep, step_seconds); }
  void GenerationEnded(const std::string& reason) override {
    ends.push_back(reason);
    uploads.EndGeneration();
    faults.GenerationEnded();
    steps.EndGeneration();
  }

  // A member that is here, the number-th to join.
  Member* Join(std::uint32_t number, std::uint64_t memory_bytes = 0) {
    members.Open(number, SimPeerId(number), "10.0.0.1", reaction.now());
    control::v1::Hello hello;
    hello.set_name("peer" + std::to_string(number));
    hello.set_memory_bytes(memory_bytes);
    return members.Admit(number, hello, reaction.now());
  }
  void JoinAll(std::uint32_t count) {
    for (std::uint32_t number = 1; number <= count; ++number) Join(number);
  }
  Member& At(std::uint32_t pipeline, std::uint32_t stage) { return *plan.At(pipeline, stage); }

  // A generation of those that are here, and its members train.
  void Prepare() {
    auto positions = plan.Propose(config.pipelines);
    ASSERT_TRUE(positions);
    plan.Adopt(*std::move(positions));
    journal.Record(PlanMade{history.generation() + 1, history.checkpoint().step});
    for (const auto& [peer, member] : members.all()) {
      members.Find(peer)->told_plan = member.connected;
    }
    uploads.BeginGeneration(false);
    applied.BeginGeneration();
    steps.BeginGeneration();
    ASSERT_TRUE(lifecycle.Enter(RunEvent::kPlanned));
  }
  void Train() {
    Prepare();
    ASSERT_TRUE(lifecycle.Enter(RunEvent::kAllReady));
  }
  void Apply(int count) {
    for (int i = 0; i < count; ++i) journal.AddLoss(2);
  }
  void Wait(Duration duration) {
    const TimePoint now = reaction.now();
    reaction.Begin(now + duration);
  }
  // Actions of one kind so far; all are forgotten then.
  template <typename Kind>
  std::vector<Kind> Take() {
    std::vector<Kind> taken;
    for (Action& action : reaction.Take()) {
      if (auto* kind = std::get_if<Kind>(&action)) taken.push_back(std::move(*kind));
    }
    return taken;
  }

  // What a member says that has saved a stage, after so many applied steps.
  control::v1::CheckpointDone SavedFiles(std::uint32_t stage, std::uint64_t step) const {
    control::v1::CheckpointDone done;
    done.set_generation(history.generation());
    done.set_step(step);
    for (const std::string& part : StageParts(config, stage)) {
      for (const char* suffix : {"", ".optimizer"}) {
        control::v1::ArtefactRef* file = done.add_files();
        file->set_name(part + suffix);
        file->set_hash(SimHash(file->name(), step));
        file->set_size(50);
      }
    }
    return done;
  }
  // Members upload what they are asked for; the checkpoint that is whole with that.
  std::optional<std::uint64_t> BringWanted() {
    for (std::optional<std::uint64_t> whole; true;) {
      if (whole = uploads.Look(); whole) return whole;
      const auto sent = Take<SendTo>();
      if (sent.empty()) return std::nullopt;
      for (const SendTo& one : sent) {
        for (const auto& file : one.message.want_artefacts().files()) uploads.OnHere(file.hash());
      }
    }
  }

  RunConfig config;
  const ArtefactMap initial = SimArtefacts(config);
  Reaction reaction;
  RunJournal journal{7, &reaction};
  const RunHistory& history = journal.history();
  Members members;
  SwarmPlan plan{config, &members};
  Lifecycle lifecycle{config, &journal, reaction, this};
  Membership membership{config, &journal, &members, &plan, &lifecycle, false, &reaction};
  Newcomers newcomers{config, initial, &members, &plan, &lifecycle, &reaction};
  MemberFaults faults{config, &members, &journal, &plan, &lifecycle, &reaction};
  SwarmArtefacts artefacts{initial, members, plan, &journal, &lifecycle, &reaction};
  CheckpointUploads uploads{config,   initial,    &members, plan,
                            &journal, &lifecycle, &faults,  &reaction};
  ClosingCheckpoint closing{config, initial, plan, history, &lifecycle, &uploads, reaction};
  HeldSteps held{config, &members, &plan, &journal, &lifecycle, &closing, false, &reaction};
  double step_seconds = 1;
  AppliedChecks applied{config, plan, history, &lifecycle, &uploads, &faults};
  SpotChecks spots{config, plan, history, &lifecycle, &faults, &reaction};
  TrainingSteps steps{config, plan, &journal, &lifecycle, &faults, &uploads, &spots, &reaction};
  SwarmView view{{config, history, members, plan, lifecycle, newcomers, faults, artefacts, uploads,
                  applied, spots, steps}};
  std::vector<std::string> ends;  // reasons of generations that ended
};

}  // namespace shoal::scheduler

#endif  // SHOAL_TESTS_UNIT_SCHEDULER_SWARM_SWARM_PARTS_H_
