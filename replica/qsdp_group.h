// QsdpGroup: a parameter group of the method `qsdp` in buckets, each with its shards and its
// exchange. Internal to replica/. Thread: control.

#ifndef SHOAL_REPLICA_QSDP_GROUP_H_
#define SHOAL_REPLICA_QSDP_GROUP_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "common/memory/buffer.h"
#include "common/status.h"
#include "compression/codecs/learned_levels.h"
#include "replica/collective/channel_mux.h"
#include "replica/collective/direct/lan_groups.h"
#include "replica/collective/exchange.h"
#include "replica/gradient_buckets.h"
#include "replica/learned_codecs.h"
#include "replica/methods/qsdp_method.h"
#include "replica/moment_gather.h"
#include "replica/owned_shard.h"
#include "replica/replica_step.h"

namespace shoal::replica {

// Rounds of a step: gradients and, behind a wrong guess, gradients again; weights; norms, counts.
enum class QsdpRound : std::uint64_t { kGradients = 1, kAgain, kWeights, kNorms, kCounts, kEnd };

// Gradients go to the owners, weights come back.
struct QsdpBucket {
  std::shared_ptr<OwnedShard> shard;
  bool quantised = false;
  std::size_t final_after = 0;  // GradientBucket
  std::unique_ptr<collective::Exchange> exchange;
  bool begun = false;                       // in the running step
  std::shared_ptr<Buffer> own;              // gradients
  compression::LevelHistogram counts = {};  // of them
  Buffer spare;                             // for them
  std::shared_ptr<Buffer> sum;              // of the own shard, until its step is made
};

struct QsdpGroup {
  struct Handlers {
    std::function<void(QsdpBucket*)> reduce_scatter, all_gather;  // begin; the queue's turn
  };

  explicit QsdpGroup(const QsdpOptions& options) : codecs(options) {}
  // Cuts `part` into buckets and opens their exchanges. An error: LANs of the run that do not fit,
  // or a codec.
  Status Open(const ReplicaContext& context, std::shared_ptr<const ParameterGroup> part,
              Handlers handlers);

  std::size_t NumberOf(const QsdpBucket& bucket) const {
    return static_cast<std::size_t>(&bucket - buckets.data());
  }
  bool quantises() const;  // any bucket
  collective::ExchangeRequest NewRequest(std::uint64_t step, QsdpRound round) const;

  std::shared_ptr<const ParameterGroup> part;
  collective::LanGroups lans;  // by member
  std::unique_ptr<collective::ChannelMux> mux;
  std::unique_ptr<collective::Exchange> small;  // norms and counts
  std::unique_ptr<MomentGather> moments;
  std::vector<QsdpBucket> buckets;  // in the order in which all begin with them
  std::unique_ptr<BucketQueue> reduce_scatters, all_gathers;  // of the buckets
  std::size_t buckets_left = 0;                               // of Apply
  LearnedCodecs codecs;
  double squared_norm = 0;

 private:
  Status OpenBuckets(const ReplicaContext& context, Handlers handlers);
  Status AddBucket(const ReplicaContext& context, const GradientBucket& layout, bool quantised);
};

}  // namespace shoal::replica

#endif  // SHOAL_REPLICA_QSDP_GROUP_H_
