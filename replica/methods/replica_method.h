// How the peers of a stage group combine their gradients: what `[replica] method` of run.toml says.
//
//   average                                   exact fp32 sums
//   average:dtype=bf16                        fp16 and bf16, too
//   average:codec=dithered:step=0.3           any codec without memory; '/' in it stands for ','
//   average:codec=direct:bits=4/bucket=512,feedback=true
//   cocktail:random=0.1,top=0.2,bits=4,bucket=128    the largest of a subset, with feedback
//   powersgd:rank=16,start=10,stages=0-2      factors (power_sgd.h)
//   qadam:bits=4,bucket=512,start=auto,refresh=off   momenta in bits, behind a warm-up
//   qadam:bits=32                                    the same without loss, for comparisons
//   onebit:bucket=1024,start=auto,refresh=off        the same, in signs
//   marsit:every=auto,scale=8,shape=auto,start=auto    Adam's directions in signs, over a ring
//   qsdp:weights=8,gradients=8,bucket=1024    optimizer state in shards (qsdp_options.h)
//
// All but marsit and qsdp also take
//
//   local_steps=16,outer_rate=1,outer_momentum=0,ends=auto
//
// by which pipelines step on their own, and parameter differences travel as the method says, once
// in so many steps: average:codec=topk:ratio=0.015625/bits=2,local_steps=16.
//
// Pure. Thread: any.

#ifndef SHOAL_REPLICA_METHODS_REPLICA_METHOD_H_
#define SHOAL_REPLICA_METHODS_REPLICA_METHOD_H_

#include <any>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"

namespace shoal::replica {

// A chunk of a gradient is seen as rows of so many values: what a bucket of a codec can be at most.
inline constexpr std::uint32_t kReplicaRow = 1024;

// Steps between two exchanges of parameter differences, and the step on their mean (DiLoCo:
// Douillard et al., 2023): heavy-ball momentum with Nesterov's look ahead.
struct LocalSteps {
  std::uint32_t steps = 0;  // 0: gradients or momenta are exchanged in every step instead
  double outer_rate = 1;    // with no momentum, the mean of the parameters
  double outer_momentum = 0;
  // How the gradients of a pipeline's copies of tensors that stages share are added up, in every
  // step: without loss, or by a codec that is right on average where differences travel with loss,
  // too.
  bool exact_ends = false;  // asked for
  std::string ends_codec;
};

struct MethodEntry;

// What the rest of shoal asks of a method, whichever it is.
struct MethodTraits {
  // Moments are in shards, and no member has all of them.
  bool shards_moments = false;
  // No member holds all parameters of its stage.
  bool shards_parameters = false;
  // Sums are exact, in fp32.
  bool lossless = false;
  // Clips by the norms of the pipelines' own gradients: nobody adds these up before they count.
  bool clips_locally = false;
  // Only the step that Reduce says is to be saved leaves every member a whole checkpoint of its
  // stage: else some of it is in shards, or the member's own until a later exchange.
  bool prepares_checkpoints = false;
  // All members hold the same weights and moments after each step, and make it of what the group
  // agrees on: the group may change between two steps, or within one, and a member that does not
  // count for a while gets its state from the others (shadow). What it has not sent waits, or is
  // lost.
  bool follows_steps = false;
  // Each pipeline has weights, or moments, of its own between checkpoints: one that is whole may go
  // on without the others, but nobody can follow or replace its members.
  bool pipelines_differ = false;
  // Members that share a LAN add up there first; which ones do is measured, or else in the spec.
  bool uses_lans = false, measures_lans = false;
};

struct ReplicaMethod {
  const MethodEntry* entry = nullptr;  // method_entry.h; set by ParseReplicaMethod
  std::string spec;                    // canonical, every option present
  std::string codec;  // of contributions and, unless moments are in shards, of their sums
  // What a message did not say is added to the next step's (worker and server error). By itself for
  // codecs that round to the nearest level, whose errors would add up; not for `dithered`, whose
  // errors are zero on average.
  bool feedback = false;
  MethodTraits traits;
  std::any options;  // of a type of the method's own: power_sgd_method.h and the like
  LocalSteps local;
  // The method by which a single pipeline goes on, where what this one keeps are not the moments of
  // plain AdamW: without loss, as nobody gets what would be left out. Empty: plain AdamW.
  std::string alone;

  // What peers are told: `spec` with the number of the step in place of start=auto, since they do
  // not know how the learning rate grows.
  std::string SpecOfRun(std::uint64_t run_steps, std::uint64_t rate_warm_up) const;
  // Invalid argument if it names stages or pipelines that the run does not have.
  Status CheckRun(std::uint32_t stages, std::uint32_t pipelines) const;
  // Invalid argument if so many stages of each pipeline, which share tensors, are too large a
  // group.
  Status CheckSharing(std::size_t sharing, std::uint32_t pipelines) const;
  // By pipeline: the number of its LAN; each its own unless the spec says otherwise. Invalid
  // argument if it names others than the run has.
  Result<std::vector<std::size_t>> LanOf(std::uint32_t pipelines) const;
  // Where the swarm chooses the stages that compress (stage_selection.h): the first step that may.
  std::optional<std::uint64_t> StageChoiceStart() const;
  // Bytes that a peer needs for a stage of so many values in a run of so many pipelines: weights,
  // gradients and moments, or its shards of them, without what an exchange needs while it runs.
  // `largest_unit`: values of the largest part of the stage that is gathered at once if no member
  // holds all parameters; 0: what is gathered does not count.
  std::uint64_t StateBytes(std::uint64_t values, std::uint32_t pipelines, bool bf16,
                           std::uint64_t largest_unit = 0) const;
};

// Invalid argument, with what is allowed, for anything else. The methods are listed in
// method_registry.cc.
Result<ReplicaMethod> ParseReplicaMethod(std::string_view spec);

}  // namespace shoal::replica

#endif  // SHOAL_REPLICA_METHODS_REPLICA_METHOD_H_
