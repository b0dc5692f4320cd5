// ShardLayout: which member owns which values of an exchange, and the chunks they travel in.
//
// Pure. Thread: any.

#ifndef SHOAL_REPLICA_COLLECTIVE_SHARD_LAYOUT_H_
#define SHOAL_REPLICA_COLLECTIVE_SHARD_LAYOUT_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace shoal::collective {

// Values [begin, end) of the vector.
struct ValueRange {
  std::size_t begin = 0, end = 0;
  std::size_t size() const { return end - begin; }
  bool operator==(const ValueRange&) const = default;
};

class ShardLayout {
 public:
  ShardLayout() = default;
  // Cuts `values` values among members in proportion to `shares` (finite, >= 0, at least one
  // positive), in rank order. Each border is the multiple of `row` that is nearest to the exact
  // border, equal on all machines. Chunks have `chunk_values` values (a multiple of `row`), the
  // last of a shard the rest.
  ShardLayout(std::size_t values, std::span<const double> shares, std::size_t row,
              std::size_t chunk_values);

  std::size_t members() const { return shards_.size(); }
  std::size_t values() const { return shards_.empty() ? 0 : shards_.back().end; }
  ValueRange shard(std::size_t member) const { return shards_[member]; }
  std::size_t chunk_values() const { return chunk_values_; }
  std::size_t chunks(std::size_t member) const;
  ValueRange chunk(std::size_t member, std::size_t chunk) const;

  bool operator==(const ShardLayout&) const = default;

 private:
  std::vector<ValueRange> shards_;
  std::size_t chunk_values_ = 1;
};

// The shares that count in a round: those of `shares` (empty: equal ones), but 0 for members of
// weight 0, which own nothing.
std::vector<double> SharesOf(std::span<const std::uint64_t> weights,
                             std::span<const double> shares);

// The shard of each member in a round of `values` values with these weights (at least one member
// with a weight has a share), shares (ExchangeConfig::shares) and row.
std::vector<ValueRange> Shards(std::size_t values, std::span<const std::uint64_t> weights,
                               std::span<const double> shares, std::size_t row);

}  // namespace shoal::collective

#endif  // SHOAL_REPLICA_COLLECTIVE_SHARD_LAYOUT_H_
