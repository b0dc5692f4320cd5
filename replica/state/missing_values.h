// MissingValues: which values of a stage's flat vectors a shadow still lacks. Pure.

#ifndef SHOAL_REPLICA_STATE_MISSING_VALUES_H_
#define SHOAL_REPLICA_STATE_MISSING_VALUES_H_

#include <cstddef>
#include <map>
#include <optional>

namespace shoal::replica {

struct ValueRun {
  std::size_t first = 0, values = 0;
  bool operator==(const ValueRun&) const = default;
};

class MissingValues {
 public:
  MissingValues() = default;  // nothing
  explicit MissingValues(std::size_t values) { Add({0, values}); }

  bool empty() const { return runs_.empty(); }
  std::size_t count() const { return count_; }
  // Up to `most` of the first values, which are not missing any more; nothing: none are.
  std::optional<ValueRun> Take(std::size_t most);
  // These are missing (again); none of them may be so already.
  void Add(const ValueRun& run);

 private:
  std::map<std::size_t, std::size_t> runs_;  // first, values; apart from each other
  std::size_t count_ = 0;
};

}  // namespace shoal::replica

#endif  // SHOAL_REPLICA_STATE_MISSING_VALUES_H_
