// ConsistencyChecks: compares what should be equal on several peers: m on both ends of every
// boundary after every step, and the weights of a stage group at checkpoints.
// Pure; thread: control.

#ifndef SHOAL_SCHEDULER_CONSISTENCY_H_
#define SHOAL_SCHEDULER_CONSISTENCY_H_

#include <cstdint>
#include <map>
#include <tuple>

#include "proto/control.pb.h"

namespace shoal::scheduler {

class ConsistencyChecks {
 public:
  // A new generation: halves of comparisons are forgotten, counts stay.
  void Reset();

  // False: the two ends of the boundary hold different m.
  bool AddPlace(std::uint64_t step, std::uint32_t pipeline,
                const control::v1::PlaceChecksum& place);
  // False: this member's weights differ from those of another member of its stage group.
  bool AddWeights(std::uint64_t step, std::uint32_t stage, std::uint64_t checksum);

  std::uint64_t m_checks() const { return m_checks_; }
  std::uint64_t m_mismatches() const { return m_mismatches_; }
  std::uint64_t weight_checks() const { return weight_checks_; }
  std::uint64_t weight_mismatches() const { return weight_mismatches_; }

 private:
  struct Half {
    bool receiver = false;
    std::uint64_t checksum = 0, records = 0;
  };
  void ForgetBefore(std::uint64_t step);

  std::map<std::tuple<std::uint64_t, std::uint32_t, std::uint32_t>, Half> halves_;
  std::map<std::pair<std::uint64_t, std::uint32_t>, std::uint64_t> weights_;  // step, stage
  std::uint64_t m_checks_ = 0, m_mismatches_ = 0;
  std::uint64_t weight_checks_ = 0, weight_mismatches_ = 0;
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_CONSISTENCY_H_
