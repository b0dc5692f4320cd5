// ConsistencyChecks: compares what should be equal on several peers: m on both ends of every
// boundary after every step, and the weights of a stage group every few steps.
// Pure; thread: control.

#ifndef SHOAL_SCHEDULER_STEPS_CONSISTENCY_H_
#define SHOAL_SCHEDULER_STEPS_CONSISTENCY_H_

#include <cstdint>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "proto/control.pb.h"

namespace shoal::scheduler {

// What the checksums of a whole stage group say.
struct WeightVerdict {
  bool equal = true;
  // Not equal: whether more than half of the members agree. Then `differing` are the others'
  // pipelines; else all.
  bool majority = false;
  std::vector<std::uint32_t> differing;  // rising
};

class ConsistencyChecks {
 public:
  // A new generation: halves of comparisons are forgotten, counts stay.
  void Reset();

  // The member has left: its weights count no more where others are still awaited.
  void Lose(std::uint32_t pipeline, std::uint32_t stage);
  // False: the two ends of the boundary hold different m.
  bool AddChecksum(std::uint64_t step, std::uint32_t pipeline,
                   const control::v1::BoundaryChecksum& end);
  // A member's checksum of its weights after a step. A verdict comes with the last of the `members`
  // of the stage group that are compared; nothing before it, and for one that spoke already.
  std::optional<WeightVerdict> AddWeights(std::uint64_t step, std::uint32_t stage,
                                          std::uint32_t pipeline, std::uint64_t checksum,
                                          std::size_t members);

  std::uint64_t m_checks() const { return m_checks_; }
  std::uint64_t m_mismatches() const { return m_mismatches_; }
  // Members that were compared with another one, and of those the ones that differed.
  std::uint64_t weight_checks() const { return weight_checks_; }
  std::uint64_t weight_mismatches() const { return weight_mismatches_; }

 private:
  struct Half {
    bool receiver = false;
    std::uint64_t checksum = 0, records = 0;
  };
  using Group = std::map<std::uint32_t, std::uint64_t>;  // pipeline, checksum
  WeightVerdict Judge(const Group& group);
  void ForgetBefore(std::uint64_t step);

  std::map<std::tuple<std::uint64_t, std::uint32_t, std::uint32_t>, Half> halves_;
  std::map<std::pair<std::uint64_t, std::uint32_t>, Group> weights_;  // step, stage
  std::uint64_t m_checks_ = 0, m_mismatches_ = 0;
  std::uint64_t weight_checks_ = 0, weight_mismatches_ = 0;
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_STEPS_CONSISTENCY_H_
