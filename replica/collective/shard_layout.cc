#include "replica/collective/shard_layout.h"

#include <algorithm>
#include <cmath>

#include "common/status.h"

namespace shoal::collective {

ShardLayout::ShardLayout(std::size_t values, std::span<const double> shares, std::size_t row,
                         std::size_t chunk_values)
    : chunk_values_(chunk_values) {
  SHOAL_CHECK(row > 0 && chunk_values > 0 && chunk_values % row == 0);
  double all = 0;
  std::size_t last = 0;  // the last owner: it takes the rest
  for (std::size_t r = 0; r < shares.size(); ++r) {
    all += shares[r];
    if (shares[r] > 0) last = r;
  }
  SHOAL_CHECK(all > 0);
  const std::size_t rows = values / row + (values % row != 0 ? 1 : 0);
  double before = 0;
  std::size_t begin = 0;
  for (std::size_t r = 0; r < shares.size(); ++r) {
    before += shares[r];
    const double border = std::floor(static_cast<double>(rows) * (before / all) + 0.5);
    std::size_t end = std::min(values, static_cast<std::size_t>(border) * row);
    if (r >= last) end = values;
    end = shares[r] > 0 ? std::max(begin, end) : begin;
    shards_.push_back({begin, end});
    begin = end;
  }
}

std::size_t ShardLayout::chunks(std::size_t member) const {
  const std::size_t values = shards_[member].size();
  return values / chunk_values_ + (values % chunk_values_ != 0 ? 1 : 0);
}

ValueRange ShardLayout::chunk(std::size_t member, std::size_t chunk) const {
  const ValueRange shard = shards_[member];
  const std::size_t begin = shard.begin + chunk * chunk_values_;
  return {begin, begin + std::min(chunk_values_, shard.end - begin)};
}

std::vector<double> SharesOf(std::span<const std::uint64_t> weights,
                             std::span<const double> shares) {
  SHOAL_CHECK(shares.empty() || shares.size() == weights.size());
  std::vector<double> counted(weights.size());
  for (std::size_t r = 0; r < counted.size(); ++r) {
    if (weights[r] != 0) counted[r] = shares.empty() ? 1.0 : shares[r];
  }
  return counted;
}

std::vector<ValueRange> Shards(std::size_t values, std::span<const std::uint64_t> weights,
                               std::span<const double> shares, std::size_t row) {
  const ShardLayout layout(values, SharesOf(weights, shares), row, row);
  std::vector<ValueRange> shards(weights.size());
  for (std::size_t r = 0; r < shards.size(); ++r) shards[r] = layout.shard(r);
  return shards;
}

}  // namespace shoal::collective
