// What `qsdp:...` of `[replica] method` says: how weights and gradients of a stage group with
// sharded optimizer state travel.
//
// Source: Markov, Vladu, Guo and Alistarh, "Quantized Distributed Training of Large Models with
// Convergence Guarantees" (QSDP, ICML 2023), sections 4 and 5; differences of weights: Jia et al.,
// "SDP4Bit" (NeurIPS 2024). Pure. Thread: any.

#ifndef SHOAL_REPLICA_METHODS_QSDP_OPTIONS_H_
#define SHOAL_REPLICA_METHODS_QSDP_OPTIONS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"
#include "compression/codecs/learned_levels.h"

namespace shoal::replica {

struct QsdpOptions {
  static constexpr int kExactBits = 32;  // fp32

  int weight_bits = 8, gradient_bits = 8;  // 1 to 8, or kExactBits
  std::uint32_t bucket = 1024;             // values with a range of their own
  // Tensors of fewer values, and those of one dimension, travel in fp32, both ways.
  std::uint32_t raw_below = 1024;
  // Parameters, too, are held by their owners alone, and gathered for each part of the model's
  // work.
  bool shard_parameters = false;
  // What travels is the change of the weights that all members have, not the weights: by default
  // wherever weights have fewer than 8 bits, except with shard_parameters, where nobody has them.
  bool delta = false;
  // Levels are learned where bits are few enough, behind these steps; empty: at 1/12, 2/5 and 4/5
  // of the run.
  bool learned = false;
  std::vector<std::uint64_t> learn;
  // Pipelines whose members of a stage group share a LAN and add up there first, such as
  // "0-1/2-3"; "auto": by measured round-trip times, which the plan says; empty: none.
  std::string lan;

  std::string Spec() const;  // canonical, every option present
  bool learns_weights() const { return learned && weight_bits <= compression::kLearnedBitsMax; }
  bool learns_gradients() const { return learned && gradient_bits <= compression::kLearnedBitsMax; }
  // Before anything is learned: with a random shift, and rounded at random. Learned levels of
  // gradients take the nearest from the start, and want error feedback.
  std::string WeightCodec() const;
  std::string GradientCodec() const;
  std::string LearnedCodec(int bits, std::span<const std::uint16_t> levels) const;
  bool lan_auto() const { return lan == "auto"; }
  // By pipeline: the number of its LAN; each its own with lan_auto(). Error if `lan` names others
  // than the run has.
  Result<std::vector<std::size_t>> LanOf(std::uint32_t pipelines) const;
  // Steps of a run of so many at whose end levels are learned, ascending; none if they are not.
  std::vector<std::uint64_t> LearnSteps(std::uint64_t run_steps) const;
};

inline constexpr std::string_view kQsdpKeys[] = {"weights",   "gradients", "bucket",
                                                 "raw_below", "delta",     "levels",
                                                 "learn",     "lan",       "shard_parameters"};

// Invalid argument, with what is allowed, for anything else.
Result<QsdpOptions> ParseQsdp(std::string_view spec);

}  // namespace shoal::replica

#endif  // SHOAL_REPLICA_METHODS_QSDP_OPTIONS_H_
