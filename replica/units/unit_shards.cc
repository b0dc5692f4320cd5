#include "replica/units/unit_shards.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace shoal::replica {
namespace {

using collective::UnitVector;
using model::StateVector;

constexpr double kUnit = 0x1p-40;
constexpr std::size_t kChunk = std::size_t{1} << 16;

// In `values`, one after the other.
void ToFloats(std::span<const std::int64_t> sums, std::span<float> values) {
  for (std::size_t i = 0; i < sums.size(); ++i) {
    values[i] = static_cast<float>(static_cast<double>(sums[i]) * kUnit);
  }
}

}  // namespace

void CountGathered(const collective::ShardLayout& layout, std::size_t rank, KindBytes* replica) {
  const std::uint64_t own = layout.shard(rank).size() * sizeof(float);
  replica->raw_sent += own * (layout.members() - 1);
  replica->raw_received += layout.values() * sizeof(float) - own;
}

void CountScattered(const collective::ShardLayout& layout, std::size_t rank, KindBytes* replica) {
  const std::uint64_t own = layout.shard(rank).size() * sizeof(float);
  replica->raw_sent += layout.values() * sizeof(float) - own;
  replica->raw_received += own * (layout.members() - 1);
}

UnitShards::UnitShards(std::vector<UnitPiece> pieces,
                       const std::vector<collective::ValueRange>& own) {
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    Piece piece;
    piece.coded = pieces[i].coded;
    piece.part = std::move(pieces[i].part);
    piece.first = own[i].begin;
    piece.shard = optimizer::AdamWShard(own[i].begin, own[i].size(), DecayRunsOf(*piece.part));
    piece.sums.assign(own[i].size(), 0);
    pieces_.push_back(std::move(piece));
  }
}

Status UnitShards::Load(model::StageModel* model) {
  for (Piece& piece : pieces_) {
    if (piece.sums.empty()) continue;
    optimizer::AdamWShard& shard = piece.shard;
    SHOAL_RETURN_IF_ERROR(
        ReadParameters(model, StateVector::kWeights, *piece.part, piece.first, shard.weights()));
    SHOAL_RETURN_IF_ERROR(ReadParameters(model, StateVector::kFirstMoment, *piece.part, piece.first,
                                         shard.first_moment()));
    SHOAL_RETURN_IF_ERROR(ReadParameters(model, StateVector::kSecondMoment, *piece.part,
                                         piece.first, shard.second_moment()));
  }
  return Status::Ok();
}

Status UnitShards::Read(UnitVector which, std::size_t piece, std::size_t first,
                        std::span<float> values) {
  Piece& from = pieces_[piece];
  const auto own = [&] {
    switch (which) {
      case UnitVector::kFirstMoment: return from.shard.first_moment();
      case UnitVector::kSecondMoment: return from.shard.second_moment();
      default: return from.shard.weights();
    }
  }();
  std::ranges::copy(own.subspan(first - from.first, values.size()), values.begin());
  return Status::Ok();
}

Status UnitShards::Add(std::size_t piece, std::size_t first, std::span<const float> gradients) {
  std::int64_t* const sums = pieces_[piece].sums.data() + (first - pieces_[piece].first);
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    // Also refuses what is not a number.
    const bool fits = std::abs(gradients[i]) <= kAddendMost;
    if (!fits || __builtin_add_overflow(
                     sums[i], std::llrint(static_cast<double>(gradients[i]) / kUnit), &sums[i])) {
      return InvalidArgument(
          "gradients are not finite or too large to be added up; lower learning_rate in run.toml");
    }
  }
  return Status::Ok();
}

double UnitShards::SquaredNorm() const {
  double squared = 0;
  std::vector<float> values(kChunk);
  for (const Piece& piece : pieces_) {
    const std::span<const std::int64_t> sums = piece.sums;
    for (std::size_t at = 0; at < sums.size(); at += kChunk) {
      const std::span<float> chunk = std::span(values).first(std::min(kChunk, sums.size() - at));
      ToFloats(sums.subspan(at, chunk.size()), chunk);
      squared += optimizer::SumOfSquares(chunk);
    }
  }
  return squared;
}

compression::LevelHistogram UnitShards::Counts(std::uint32_t bucket) {
  compression::LevelHistogram counts = {};
  for (Piece& piece : pieces_) {
    if (!piece.coded || piece.sums.empty()) continue;
    compression::AddCounts(compression::HistogramOf(piece.shard.weights(), bucket), &counts);
  }
  return counts;
}

void UnitShards::Drop() {
  for (Piece& piece : pieces_) std::ranges::fill(piece.sums, 0);
}

void UnitShards::Apply(const optimizer::AdamWOptions& options) {
  std::vector<float> values(kChunk);
  for (Piece& piece : pieces_) {
    const std::span<const std::int64_t> sums = piece.sums;
    for (std::size_t at = 0; at < sums.size(); at += kChunk) {
      const std::span<float> chunk = std::span(values).first(std::min(kChunk, sums.size() - at));
      ToFloats(sums.subspan(at, chunk.size()), chunk);
      piece.shard.Update(options, piece.first + at, chunk);
    }
    std::ranges::fill(piece.sums, 0);
  }
}

std::uint64_t UnitShards::bytes() const {
  std::uint64_t values = 0;
  for (const Piece& piece : pieces_) values += piece.sums.size();
  return values * (3 * sizeof(float) + sizeof(std::int64_t));
}

}  // namespace shoal::replica
