// MomentGather: an all-gather, for checkpoints, of the moments that the members of a group own in
// shards. It goes slice by slice, so that no member holds all moments.
//
// A slice has the same range of every owner's shard, padded with zeros where shards differ in
// length. So the exchange's equal shares name the owners of a slice's values, too. Thread: control.

#ifndef SHOAL_REPLICA_MOMENT_GATHER_H_
#define SHOAL_REPLICA_MOMENT_GATHER_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "common/task_scope.h"
#include "optimizer/adamw_shard.h"
#include "replica/collective/direct/lan_groups.h"
#include "replica/collective/exchange.h"
#include "replica/collective/shard_layout.h"
#include "replica/member.h"
#include "replica/replica_step.h"

namespace shoal::replica {

// A vector whose state is cut among the members of a group.
struct ShardedVector {
  std::shared_ptr<const ParameterGroup> part;
  std::vector<collective::ValueRange> shards;    // by member
  std::shared_ptr<optimizer::AdamWShard> shard;  // the own one
};

class MomentGather {
 public:
  // Values of a slice at most, over all owners.
  static constexpr std::size_t kSliceValues = std::size_t{1} << 21;

  // `exchange`: exact, of equal shares and of `lans`, whose shards begin at multiples of `row`;
  // with no other user. `member` outlives the gather; destruction ends it without a callback.
  MomentGather(Member* member, std::unique_ptr<collective::Exchange> exchange,
               collective::LanGroups lans, std::size_t row);

  // Writes both moments of all of `vectors` into the model, each value once. `vectors` are the same
  // on all members but for the own shard, which nobody writes meanwhile. One at a time.
  void Start(std::vector<ShardedVector> vectors, std::function<void(Status)> done);
  std::vector<std::size_t> Awaited() const {
    SHOAL_ASSERT_ON(*member_->control);
    return exchange_->Awaited();
  }

 private:
  struct Slice {
    std::shared_ptr<const ShardedVector> vector;
    bool second = false;
    std::size_t first = 0;                       // in each shard
    std::size_t values = 0;                      // of all owners
    std::vector<collective::ValueRange> ranges;  // in the slice, by member
  };
  void Next();
  void AddSlices(std::shared_ptr<const ShardedVector> vector);
  void Write(std::shared_ptr<const Slice> slice, Buffer values);
  void Finish(Status status);
  void Count(const Slice& slice);

  Member* const member_;
  const collective::LanGroups lans_;
  const std::size_t owners_;
  const std::size_t row_;
  std::uint64_t round_ = 0;
  std::deque<std::shared_ptr<const Slice>> left_;
  std::function<void(Status)> done_;
  std::unique_ptr<collective::Exchange> exchange_;
  TaskScope scope_;  // last: its tasks use what is above
};

}  // namespace shoal::replica

#endif  // SHOAL_REPLICA_MOMENT_GATHER_H_
