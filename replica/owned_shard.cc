#include "replica/owned_shard.h"

#include <algorithm>
#include <utility>

namespace shoal::replica {

using compression::LevelHistogram;
using model::StateVector;

namespace {

void TakeAway(std::span<const float> base, std::span<float> values) {
  for (std::size_t i = 0; i < values.size(); ++i) values[i] -= base[i];
}

}  // namespace

OwnedShard::OwnedShard(std::shared_ptr<const ParameterGroup> part,
                       std::vector<collective::ValueRange> shards, bool knows_base)
    : part_(std::move(part)),
      shards_(std::move(shards)),
      own_(shards_[part_->channel->rank()]),
      knows_base_(knows_base),
      state_(own_.begin, own_.size(), DecayRunsOf(*part_)) {}

std::uint64_t OwnedShard::bytes() const {
  return (knows_base_ ? 4 : 3) * own_.size() * sizeof(float);
}

Status OwnedShard::Load(model::StageModel* model) {
  const std::size_t first = own_.begin;
  SHOAL_RETURN_IF_ERROR(
      ReadParameters(model, StateVector::kWeights, *part_, first, state_.weights()));
  SHOAL_RETURN_IF_ERROR(
      ReadParameters(model, StateVector::kFirstMoment, *part_, first, state_.first_moment()));
  SHOAL_RETURN_IF_ERROR(
      ReadParameters(model, StateVector::kSecondMoment, *part_, first, state_.second_moment()));
  if (knows_base_) base_ = Buffer::CopyOf(std::as_bytes(state_.weights()));
  return Status::Ok();
}

void OwnedShard::Step(const OwnerRule& rule, std::span<const float> sum, std::size_t first,
                      std::span<float> values) {
  if (rule.skip) {
    std::ranges::copy(state_.weights().subspan(first - own_.begin, values.size()), values.begin());
  } else {
    std::ranges::copy(sum.subspan(first - own_.begin, values.size()), values.begin());
    state_.Update(rule.options, first, values);
  }
  const std::span<const float> base =
      knows_base_ ? std::as_const(base_).floats().subspan(first - own_.begin, values.size())
                  : std::span<const float>();
  if (rule.change) TakeAway(base, values);
  if (!rule.counts) return;
  LevelHistogram counts = {};
  if (knows_base_ && !rule.change) {
    std::vector<float> change(values.begin(), values.end());
    TakeAway(base, change);
    counts = compression::HistogramOf(change, rule.bucket);
  } else {
    counts = compression::HistogramOf(values, rule.bucket);
  }
  MutexLock lock(mutex_);
  compression::AddCounts(counts, &counts_);
}

Status OwnedShard::Adopt(model::StageModel* model, bool change, std::span<float> values) {
  if (change) {
    Buffer before(values.size_bytes());
    SHOAL_RETURN_IF_ERROR(ReadParameters(model, StateVector::kWeights, *part_, before.floats()));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] += before.floats()[i];
  }
  if (knows_base_) {
    std::ranges::copy(values.subspan(own_.begin, own_.size()), base_.floats().begin());
  }
  return WriteParameters(model, StateVector::kWeights, *part_, values);
}

LevelHistogram OwnedShard::TakeCounts() {
  MutexLock lock(mutex_);
  return std::exchange(counts_, {});
}

}  // namespace shoal::replica
