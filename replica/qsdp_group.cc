#include "replica/qsdp_group.h"

#include <algorithm>
#include <utility>

#include "replica/collective/direct/hierarchical_exchange.h"
#include "replica/group_lans.h"

namespace shoal::replica {
namespace {

// Channels of a group.
enum Channel : std::size_t { kSmall, kMoments, kFirstBucket };

// Codes and sums run beside the model, which is at work on what is not final yet.
Result<std::unique_ptr<collective::Exchange>> NewExchange(const Member& member,
                                                          const collective::ExchangeConfig& config,
                                                          const collective::LanGroups& lans,
                                                          collective::GroupChannel* channel) {
  Executor* const control = member.control;
  if (lans.back() + 1 == lans.size()) {  // nobody shares one
    return collective::NewDirectExchange(config, channel, control, member.codec);
  }
  return collective::NewHierarchicalExchange({config, lans}, channel, control, member.codec);
}

}  // namespace

Status QsdpGroup::Open(const ReplicaContext& context, std::shared_ptr<const ParameterGroup> group,
                       Handlers handlers) {
  Member* const member = context.member;
  part = std::move(group);
  SHOAL_ASSIGN_OR_RETURN(lans, LansOfGroup(member->config, QsdpOptionsOf(context.method), *part));
  SHOAL_RETURN_IF_ERROR(OpenBuckets(context, std::move(handlers)));
  collective::ExchangeConfig config;
  config.row = 1;
  config.epoch = member->config.generation;
  SHOAL_ASSIGN_OR_RETURN(small, collective::NewDirectExchange(config, mux->channel(kSmall),
                                                              member->control, member->codec));
  config = {};
  config.row = QsdpOptionsOf(context.method).bucket;
  config.epoch = member->config.generation;
  config.early_bytes_max += 2 * sizeof(float) * MomentGather::kSliceValues;
  SHOAL_ASSIGN_OR_RETURN(auto exchange, NewExchange(*member, config, lans, mux->channel(kMoments)));
  moments = std::make_unique<MomentGather>(member, std::move(exchange), lans, config.row);
  return Status::Ok();
}

Status QsdpGroup::OpenBuckets(const ReplicaContext& context, Handlers handlers) {
  Member* const member = context.member;
  const QsdpOptions& options = QsdpOptionsOf(context.method);
  std::vector<std::pair<GradientBucket, bool>> cut;
  for (const bool quantised : {true, false}) {
    const auto some = Select(*part, [&](const model::TensorLayout& tensor) {
      return (tensor.shape.size() >= 2 && tensor.size >= options.raw_below) == quantised;
    });
    if (some->values == 0) continue;
    for (GradientBucket& bucket :
         CutBuckets(some, context.final_after, member->config.bucket_values_min)) {
      cut.emplace_back(std::move(bucket), quantised);
    }
  }
  std::ranges::stable_sort(cut, {}, [](const auto& one) { return one.first.final_after; });
  mux = std::make_unique<collective::ChannelMux>(
      part->channel, kFirstBucket + cut.size(), [member](const Status& status) {
        member->fail(status.WithContext("inside the stage group"), nullptr);
      });
  reduce_scatters = std::make_unique<BucketQueue>(
      [this, begin = std::move(handlers.reduce_scatter)](std::size_t i) { begin(&buckets[i]); });
  all_gathers = std::make_unique<BucketQueue>(
      [this, begin = std::move(handlers.all_gather)](std::size_t i) { begin(&buckets[i]); });
  for (const auto& [bucket, quantised] : cut) {
    SHOAL_RETURN_IF_ERROR(AddBucket(context, bucket, quantised));
  }
  return Status::Ok();
}

Status QsdpGroup::AddBucket(const ReplicaContext& context, const GradientBucket& layout,
                            bool quantised) {
  const Member& member = *context.member;
  const QsdpOptions& options = QsdpOptionsOf(context.method);
  const ParameterGroup& values = *layout.part;
  const std::size_t number = buckets.size();
  collective::ExchangeConfig config;
  config.row = options.bucket;
  config.seed =
      SeedOf(member.config.seed, number + 1 + (values.shared() ? collective::kMuxChannelsMax : 0));
  config.epoch = member.config.generation;
  config.early_bytes_max += 2 * sizeof(float) * values.values;
  config.reuse_memory = true;
  if (quantised) {
    config.codec = context.method.codec;
    config.result_codec = compression::kLosslessCodec;  // the most that any round needs
    config.error_feedback = context.method.feedback;
    config.result_feedback = false;
  }
  // Whoever does not count in a step owns its shard all the same.
  const std::vector<std::uint64_t> weights(values.channel->size(), 1);
  QsdpBucket bucket;
  bucket.shard = std::make_shared<OwnedShard>(
      layout.part, collective::HierarchicalShards(values.values, lans, weights, {}, config.row),
      quantised && options.delta);
  bucket.quantised = quantised;
  bucket.final_after = layout.final_after;
  SHOAL_ASSIGN_OR_RETURN(bucket.exchange,
                         NewExchange(member, config, lans, mux->channel(kFirstBucket + number)));
  reduce_scatters->Add(values.values);
  all_gathers->Add(values.values);
  buckets.push_back(std::move(bucket));
  return Status::Ok();
}

bool QsdpGroup::quantises() const { return std::ranges::any_of(buckets, &QsdpBucket::quantised); }

collective::ExchangeRequest QsdpGroup::NewRequest(std::uint64_t step, QsdpRound round) const {
  collective::ExchangeRequest request;
  request.round =
      step * static_cast<std::uint64_t>(QsdpRound::kEnd) + static_cast<std::uint64_t>(round);
  request.weights.assign(part->channel->size(), 1);
  return request;
}

}  // namespace shoal::replica
