#include "replica/moment_gather.h"

#include <algorithm>
#include <utility>

namespace shoal::replica {
namespace {

using model::StateVector;

std::size_t OwnersOf(const collective::LanGroups& lans) {
  return *std::max_element(lans.begin(), lans.end()) + 1;
}

std::span<float> MomentOf(optimizer::AdamWShard* shard, bool second) {
  return second ? shard->second_moment() : shard->first_moment();
}

}  // namespace

MomentGather::MomentGather(Member* member, std::unique_ptr<collective::Exchange> exchange,
                           collective::LanGroups lans, std::size_t row)
    : member_(member),
      lans_(std::move(lans)),
      owners_(OwnersOf(lans_)),
      row_(row),
      exchange_(std::move(exchange)),
      scope_(member->control) {}

void MomentGather::AddSlices(std::shared_ptr<const ShardedVector> vector) {
  std::size_t longest = 0;
  for (const collective::ValueRange& shard : vector->shards) {
    longest = std::max(longest, shard.size());
  }
  // Whole rows of each owner, one at least.
  const std::size_t rows = std::min((longest + row_ - 1) / row_,
                                    std::max<std::size_t>(1, kSliceValues / owners_ / row_));
  const std::vector<std::uint64_t> weights(lans_.size(), 1);
  Slice slice{std::move(vector), false, 0, rows * row_ * owners_, {}};
  slice.ranges = collective::HierarchicalShards(slice.values, lans_, weights, {}, row_);
  for (const bool second : {false, true}) {
    slice.second = second;
    for (slice.first = 0; slice.first < longest; slice.first += rows * row_) {
      left_.push_back(std::make_shared<const Slice>(slice));
    }
  }
}

void MomentGather::Start(std::vector<ShardedVector> vectors, std::function<void(Status)> done) {
  SHOAL_ASSERT_ON(*member_->control);
  SHOAL_CHECK(!done_);
  done_ = std::move(done);
  for (ShardedVector& vector : vectors) {
    AddSlices(std::make_shared<const ShardedVector>(std::move(vector)));
  }
  Next();
}

void MomentGather::Next() {
  if (left_.empty()) return Finish(Status::Ok());
  member_->progress();
  const std::shared_ptr<const Slice> slice = left_.front();
  left_.pop_front();
  Count(*slice);
  collective::ExchangeRequest request;
  request.round = ++round_;
  request.weights.assign(lans_.size(), 1);
  request.op = collective::CollectiveOp::kAllGather;
  request.count = slice->values;
  request.transform = [slice](std::size_t first, std::span<float> values) {
    const std::span<float> own = MomentOf(slice->vector->shard.get(), slice->second);
    const std::size_t begin = slice->ranges[slice->vector->part->channel->rank()].begin;
    const std::size_t from = slice->first + (first - begin);
    if (from >= own.size()) return Status::Ok();
    const std::size_t count = std::min(values.size(), own.size() - from);
    std::ranges::copy(own.subspan(from, count), values.begin());
    return Status::Ok();
  };
  exchange_->Start(std::move(request), [this, slice](Result<Buffer> values) {
    if (!values.ok()) return Finish(values.status());
    exchange_->Commit();
    Write(slice, std::move(*values));
  });
}

// As fp32 values, for the comparison with what is sent.
void MomentGather::Count(const Slice& slice) {
  std::uint64_t own = 0, others = 0;
  const std::vector<collective::ValueRange>& shards = slice.vector->shards;
  for (std::size_t member = 0; member < shards.size(); ++member) {
    if (shards[member].size() <= slice.first) continue;
    const std::uint64_t bytes =
        sizeof(float) * std::min(slice.ranges[member].size(), shards[member].size() - slice.first);
    (member == slice.vector->part->channel->rank() ? own : others) += bytes;
  }
  member_->stats.replica.raw_sent += own * (shards.size() - 1);
  member_->stats.replica.raw_received += others;
}

void MomentGather::Write(std::shared_ptr<const Slice> slice, Buffer values) {
  auto write = [model = member_->model, slice = std::move(slice),
                values = std::make_shared<const Buffer>(std::move(values))]() -> Status {
    const StateVector which =
        slice->second ? StateVector::kSecondMoment : StateVector::kFirstMoment;
    const ShardedVector& vector = *slice->vector;
    for (std::size_t member = 0; member < vector.shards.size(); ++member) {
      const collective::ValueRange& shard = vector.shards[member];
      if (shard.size() <= slice->first) continue;
      const collective::ValueRange& range = slice->ranges[member];
      const std::size_t count = std::min(range.size(), shard.size() - slice->first);
      SHOAL_RETURN_IF_ERROR(WriteParameters(model, which, *vector.part, shard.begin + slice->first,
                                            values->floats().subspan(range.begin, count)));
    }
    return Status::Ok();
  };
  scope_.Run(member_->compute, "moments.write", std::move(write), [this](Status status) {
    if (!status.ok()) return Finish(std::move(status));
    Next();
  });
}

void MomentGather::Finish(Status status) {
  left_.clear();
  std::exchange(done_, nullptr)(std::move(status));
}

}  // namespace shoal::replica
