// UnitShards: a member's shards of the parameters of a stage that are held unit by unit: fp32
// weights and moments, and the sums of a step's gradients.
//
// Sums are of 64-bit integers, in units of 2^-40, so that they do not depend on the order in which
// members' gradients come. Thread: compute, but for Read.

#ifndef SHOAL_REPLICA_UNITS_UNIT_SHARDS_H_
#define SHOAL_REPLICA_UNITS_UNIT_SHARDS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "compression/codecs/learned_levels.h"
#include "optimizer/adamw_shard.h"
#include "replica/collective/units/unit_exchange.h"
#include "replica/replica_step.h"

namespace shoal::replica {

// The largest magnitude of one addend; a sum may reach twice as much. Of gradients before they are
// coded half as much is let in: a codec may add to them.
inline constexpr float kAddendMost = 0x1p22F;

// Tensors of a unit that travel alike.
struct UnitPiece {
  std::size_t unit = 0;
  bool coded = false;
  std::shared_ptr<const ParameterGroup> part;
};

// Add the fp32 bytes that a member sends and receives in an all-gather (CountGathered) or in a
// reduce-scatter (CountScattered) of a vector with this layout.
void CountGathered(const collective::ShardLayout& layout, std::size_t rank, KindBytes* replica);
void CountScattered(const collective::ShardLayout& layout, std::size_t rank, KindBytes* replica);

class UnitShards final : public collective::UnitOwner {
 public:
  // `own`: by piece, of its vector.
  UnitShards(std::vector<UnitPiece> pieces, const std::vector<collective::ValueRange>& own);

  // From what the model was loaded with.
  Status Load(model::StageModel* model);
  Status Read(collective::UnitVector which, std::size_t piece, std::size_t first,
              std::span<float> values) override;
  // Refuses what is not finite or too large for a sum.
  Status Add(std::size_t piece, std::size_t first, std::span<const float> gradients) override;
  // Of the sums.
  double SquaredNorm() const;
  // Where the weights that travel coded lie in their buckets.
  compression::LevelHistogram Counts(std::uint32_t bucket);
  // The sums are zero again, without a step.
  void Drop();
  // One step of AdamW with the sums, which are zero then.
  void Apply(const optimizer::AdamWOptions& options);
  std::uint64_t bytes() const;

 private:
  struct Piece {
    bool coded = false;
    std::shared_ptr<const ParameterGroup> part;
    std::size_t first = 0;  // of the piece's vector
    optimizer::AdamWShard shard;
    std::vector<std::int64_t> sums;
  };
  std::vector<Piece> pieces_;
};

}  // namespace shoal::replica

#endif  // SHOAL_REPLICA_UNITS_UNIT_SHARDS_H_
