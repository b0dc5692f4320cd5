// What a spot check says: a member's own report of a micro-batch beside those of members of its
// stage group that computed it again, from what its neighbours show. Pure.
//
// Nobody is blamed on one word: not on a checker's, nor where a neighbour shows something else than
// the member says. Two checkers and the neighbours' evidence together are enough.

#ifndef SHOAL_SCHEDULER_STEPS_SPOT_VERDICT_H_
#define SHOAL_SCHEDULER_STEPS_SPOT_VERDICT_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "proto/control.pb.h"

namespace shoal::scheduler {

// Machines differ in the last bits, number formats in the third digit. Rounding to a coarse codec's
// levels makes more of that, in proportion to the levels.
inline constexpr double kSpotDifferenceMax = 0.05;  // in norms of the output
inline constexpr double kSpotCodingShare = 0.5;     // and of the coding error, in addition
inline constexpr double kSpotLossMax = 0.05;        // of the loss, and a hundredth per label

// The checked member's, of that micro-batch.
struct SpotClaim {
  std::uint64_t input_digest = 0, output_digest = 0;  // where it has such a neighbour
  double loss = 0;                                    // last stage only
};

enum class SpotOutcome : std::uint8_t {
  kNotDone,        // nobody has compared anything
  kEqual,          // all who have agree with the member
  kDiffers,        // several have, and none agrees
  kOneDiffers,     // one does not, alone or against another: `checker`
  kInputUnclear,   // the stage before shows something else than the member says that it got
  kOutputUnclear,  // the same of the stage behind, and what the member says that it sent
};

struct SpotVerdict {
  SpotOutcome outcome = SpotOutcome::kNotDone;
  std::size_t checker = 0;  // of the reports
  double difference = 0;    // the largest that counts, as the checkers measure it; see SpotChecked
};

struct SpotCounts {
  std::uint64_t done = 0;       // compared
  std::uint64_t failed = 0;     // of those, a fault of who was checked
  std::uint64_t undecided = 0;  // of those, word against word
  std::uint64_t missed = 0;     // not compared, as the step ended first, say
  std::string last;             // who failed, or who contradicts whom; empty: nobody yet
};

// `reports`: by checker; not set: none came. `first`, `last`: the stage has no neighbour there.
SpotVerdict JudgeSpotCheck(const SpotClaim& claim,
                           const std::vector<std::optional<control::v1::SpotChecked>>& reports,
                           bool first, bool last);

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_STEPS_SPOT_VERDICT_H_
