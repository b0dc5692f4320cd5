#include "daemon/stage_messages.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "pipeline/core/inventory.h"
#include "replica/methods/group_limits.h"

namespace shoal::daemon {
namespace {

// As scheduler/config/run_config_keys.cc lets them through.
constexpr std::uint32_t kStagesMax = 256;
constexpr std::uint32_t kMicroBatchesMax = 65536;
constexpr std::uint32_t kMicroBatchRowsMax = 65536;
constexpr std::uint32_t kRowTokensMax = 1u << 24;
// More than a scheduler makes of what a peer may say of itself.
constexpr int kAddressesMax = 32;
constexpr std::size_t kAddressBytesMax = 300;
constexpr std::size_t kErrorBytesMax = 400;  // the scheduler takes a little more

}  // namespace

pipeline::MicroBatchPlan ToMicroBatchPlan(const control::v1::MicroBatchPlan& planned) {
  pipeline::MicroBatchPlan plan;
  plan.global_index = planned.global_index();
  for (const std::uint64_t sample : planned.samples()) plan.samples.push_back(SampleId{sample});
  return plan;
}

Status CheckRun(const control::v1::RunConfig& run) {
  const struct {
    const char* name;
    std::uint64_t value, most;
  } numbers[] = {{"stages", run.stages(), kStagesMax},
                 {"pipelines", run.pipelines(), replica::kPipelinesMax},
                 {"micro-batches", run.micro_batches(), kMicroBatchesMax},
                 {"rows of a micro-batch", run.micro_batch_rows(), kMicroBatchRowsMax},
                 {"tokens of a row", run.row_tokens(), kRowTokensMax},
                 {"training rows", std::max<std::uint64_t>(run.train_rows(), 1),
                  (std::uint64_t{1} << 32) - 1}};
  for (const auto& [name, value, most] : numbers) {
    if (value > 0 && value <= most) continue;
    return InvalidArgument("no run has such a plan: its number of " + std::string(name) + " is " +
                           std::to_string(value) + ", the limit is " + std::to_string(most));
  }
  return Status::Ok();
}

Status CheckAddresses(const google::protobuf::RepeatedPtrField<std::string>& addresses) {
  if (addresses.size() > kAddressesMax) {
    return InvalidArgument("a peer is said to have " + std::to_string(addresses.size()) +
                           " addresses, the limit is " + std::to_string(kAddressesMax));
  }
  for (const std::string& address : addresses) {
    if (!address.empty() && address.size() <= kAddressBytesMax) continue;
    return InvalidArgument("an address of a peer has " + std::to_string(address.size()) +
                           " bytes, the limits are 1 and " + std::to_string(kAddressBytesMax));
  }
  return Status::Ok();
}

Status CheckPlan(const control::v1::Plan& plan) {
  const control::v1::RunConfig& run = plan.config();
  SHOAL_RETURN_IF_ERROR(CheckRun(run));
  std::set<std::pair<std::uint32_t, std::uint32_t>> positions;
  for (const control::v1::Position& position : plan.positions()) {
    SHOAL_RETURN_IF_ERROR(CheckAddresses(position.addresses()));
    if (ToPeerId(position.peer()) == PeerId{}) {  // that is how links know a gap
      return InvalidArgument("the plan gives a stage to a peer without an identity");
    }
    if (position.stage() >= run.stages() || position.pipeline() >= run.pipelines() ||
        !positions.emplace(position.pipeline(), position.stage()).second) {
      return InvalidArgument("the plan names stage " + std::to_string(position.stage()) +
                             " of pipeline " + std::to_string(position.pipeline()) +
                             ", which it does not have or has named already");
    }
  }
  for (std::uint32_t pipeline = 0; pipeline < run.pipelines(); ++pipeline) {
    if (IsWhole(plan, pipeline)) return Status::Ok();
  }
  return InvalidArgument("the plan has " + std::to_string(positions.size()) + " positions for " +
                         std::to_string(run.pipelines()) + " pipelines of " +
                         std::to_string(run.stages()) + " stages, and none of these is whole");
}

bool IsWhole(const control::v1::Plan& plan, std::uint32_t pipeline) {
  const auto of = [pipeline](const control::v1::Position& position) {
    return position.pipeline() == pipeline;
  };
  return std::ranges::count_if(plan.positions(), of) ==
         static_cast<std::ptrdiff_t>(plan.config().stages());
}

PeerId ToPeerId(const std::string& bytes) {
  PeerId id;
  if (bytes.size() == id.key.size()) std::copy(bytes.begin(), bytes.end(), id.key.begin());
  return id;
}

Result<storage::ArtefactRef> ToRef(const control::v1::ArtefactRef& proto) {
  storage::ArtefactRef ref;
  if (proto.hash().size() != ref.hash.digest.size()) {
    return InvalidArgument("artefact " + proto.name() + " has a hash of a wrong length");
  }
  std::copy(proto.hash().begin(), proto.hash().end(), ref.hash.digest.begin());
  ref.name = proto.name();
  ref.size = proto.size();
  return ref;
}

pipeline::StageTimes ToTimes(const control::v1::StageTiming& timing) {
  pipeline::StageTimes times;
  times.forward_ms = timing.forward_ms();
  times.backward_input_ms = timing.backward_ms() - timing.backward_weights_ms();
  times.backward_weights_ms = timing.backward_weights_ms();
  times.send_forward_ms = timing.send_forward_ms();
  times.send_backward_ms = timing.send_backward_ms();
  times.round_trip_ms = timing.round_trip_ms();
  times.micro_batch_bytes = timing.micro_batch_bytes();
  times.pending_weights_bytes = timing.pending_weights_bytes();
  return times;
}

pipeline::StepPlan ToStepPlan(const control::v1::StepPlan& plan, const control::v1::Position& own,
                              const control::v1::RunConfig& config,
                              const std::vector<std::uint32_t>& sharing) {
  pipeline::StepPlan step;
  step.step = plan.step();
  const control::v1::PipelinePlan& own_part = plan.pipelines(static_cast<int>(own.pipeline()));
  for (const auto& planned : own_part.micro_batches()) {
    step.micro_batches.push_back(ToMicroBatchPlan(planned));
  }
  for (const auto& planned : own_part.evaluation()) {
    step.evaluation.push_back(ToMicroBatchPlan(planned));
  }
  for (const control::v1::StageTiming& timing : plan.timings()) {
    step.timings.push_back(ToTimes(timing));
  }
  for (int p = 0; p < plan.pipelines_size(); ++p) {
    if (plan.pipelines(p).micro_batches_size() > 0) {
      step.counting.push_back(static_cast<std::uint32_t>(p));
    }
  }
  step.amendment = plan.amendment();
  for (const control::v1::Position& at : plan.lost()) {
    step.lost.push_back({at.pipeline(), at.stage()});
  }
  if (plan.lines_size() == 0) return step;
  const auto line = [&](std::uint32_t pipeline, std::uint32_t stage) -> replica::LineRate {
    const std::uint64_t at = std::uint64_t{pipeline} * config.stages() + stage;
    if (at >= static_cast<std::uint64_t>(plan.lines_size())) return {};
    const control::v1::LineRate& rate = plan.lines(static_cast<int>(at));
    return {rate.upload_bps(), rate.download_bps()};
  };
  for (std::uint32_t p = 0; p < config.pipelines(); ++p) {
    step.group_lines.push_back(line(p, own.stage()));
  }
  for (const std::uint32_t stage : sharing) {
    for (std::uint32_t p = 0; p < config.pipelines(); ++p) {
      step.shared_lines.push_back(line(p, stage));
    }
  }
  return step;
}

replica::ReduceOrder ToReduceOrder(const control::v1::Reduce& reduce) {
  replica::ReduceOrder order;
  order.step = reduce.step();
  order.pipelines.assign(reduce.pipelines().begin(), reduce.pipelines().end());
  order.labels = reduce.labels();
  order.learning_rate = reduce.learning_rate();
  order.local_norms.assign(reduce.local_norms().begin(), reduce.local_norms().end());
  order.local_labels.assign(reduce.local_labels().begin(), reduce.local_labels().end());
  order.checkpoint = reduce.checkpoint();
  order.sync = reduce.sync();
  order.exact_stages.assign(reduce.exact_stages().begin(), reduce.exact_stages().end());
  return order;
}

replica::ApplyOrder ToApplyOrder(const control::v1::Apply& apply) {
  return {apply.step(), apply.global_norm(), apply.learning_rate(), apply.labels(), apply.skip()};
}

std::vector<std::uint32_t> LansOf(const control::v1::Plan& plan, std::uint32_t stage) {
  std::vector<std::uint32_t> lans(plan.config().pipelines());
  bool any = false;
  for (const control::v1::Position& position : plan.positions()) {
    if (position.stage() != stage || position.pipeline() >= lans.size()) continue;
    lans[position.pipeline()] = position.lan();
    any = any || position.lan() > 0;
  }
  return any ? lans : std::vector<std::uint32_t>();
}

std::vector<std::uint32_t> SharedLansOf(const control::v1::Plan& plan,
                                        const std::vector<std::uint32_t>& sharing) {
  const std::size_t pipelines = plan.config().pipelines();
  std::vector<std::uint32_t> lans(sharing.size() * pipelines);
  bool any = false;
  for (const control::v1::Position& position : plan.positions()) {
    const auto stage = std::ranges::find(sharing, position.stage());
    if (position.pipeline() >= pipelines || stage == sharing.end()) continue;
    const auto place = static_cast<std::size_t>(stage - sharing.begin());
    lans[place * pipelines + position.pipeline()] = position.shared_lan();
    any = any || position.shared_lan() > 0;
  }
  return any ? lans : std::vector<std::uint32_t>();
}

std::vector<std::uint32_t> HoldersOf(const control::v1::Plan& plan, std::uint32_t stage) {
  const bool shadows = std::ranges::any_of(
      plan.positions(), [](const control::v1::Position& position) { return position.shadow(); });
  std::vector<std::uint32_t> holders;
  for (const control::v1::Position& position : plan.positions()) {
    if (shadows && position.stage() == stage && !position.shadow()) {
      holders.push_back(position.pipeline());
    }
  }
  return holders;
}

std::uint32_t ShadowsOf(const control::v1::Plan& plan, std::uint32_t stage) {
  return static_cast<std::uint32_t>(
      std::ranges::count_if(plan.positions(), [stage](const control::v1::Position& position) {
        return position.stage() == stage && position.shadow();
      }));
}

std::vector<std::uint32_t> LanNeighbours(const control::v1::Plan& plan,
                                         const control::v1::Position& own) {
  std::vector<std::uint32_t> pipelines;
  for (const control::v1::Position& position : plan.positions()) {
    const bool same = own.lan() > 0 && position.lan() == own.lan();
    if (same && position.stage() == own.stage()) pipelines.push_back(position.pipeline());
  }
  return pipelines;
}

bool IsGroupLink(const net::LinkStats& link) { return !link.channel.starts_with("boundary/"); }

void AddRoundTrips(const std::vector<net::LinkStats>& links, control::v1::PlanReady* ready) {
  std::map<PeerId, double> least;
  for (const net::LinkStats& link : links) {
    if (link.pings == 0 || !IsGroupLink(link)) continue;
    const auto [known, fresh] = least.try_emplace(link.peer, link.rtt_min_ms);
    if (!fresh) known->second = std::min(known->second, link.rtt_min_ms);
  }
  for (const auto& [peer, ms] : least) {
    control::v1::RoundTrip* trip = ready->add_round_trips();
    trip->set_peer(peer.key.data(), peer.key.size());
    trip->set_ms(ms);
  }
}

control::v1::PeerMessage StepReadyMessage(std::uint64_t generation,
                                          const pipeline::StepReady& ready) {
  control::v1::PeerMessage message;
  control::v1::StepReady* proto = message.mutable_step_ready();
  proto->set_generation(generation);
  proto->set_step(ready.step);
  proto->set_amendment(ready.amendment);
  proto->set_micro_batches(ready.micro_batches);
  proto->set_labels(ready.labels);
  proto->set_loss_sum(ready.loss_sum);
  proto->set_squared_norm(ready.squared_norm);
  proto->set_evaluation_labels(ready.evaluation.labels);
  proto->set_evaluation_loss_sum(ready.evaluation.sum);
  proto->mutable_input_digests()->Add(ready.input_digests.begin(), ready.input_digests.end());
  proto->mutable_output_digests()->Add(ready.output_digests.begin(), ready.output_digests.end());
  proto->mutable_losses()->Add(ready.losses.begin(), ready.losses.end());
  control::v1::StageTiming* timing = proto->mutable_timing();
  timing->set_forward_ms(ready.times.forward_ms);
  timing->set_backward_ms(ready.times.backward_input_ms + ready.times.backward_weights_ms);
  timing->set_backward_weights_ms(ready.times.backward_weights_ms);
  timing->set_round_trip_ms(ready.times.round_trip_ms);
  timing->set_send_forward_ms(ready.times.send_forward_ms);
  timing->set_send_backward_ms(ready.times.send_backward_ms);
  timing->set_micro_batch_bytes(ready.times.micro_batch_bytes);
  timing->set_pending_weights_bytes(ready.times.pending_weights_bytes);
  return message;
}

control::v1::PeerMessage SpotCheckedMessage(std::uint64_t generation,
                                            const pipeline::SpotResult& result) {
  control::v1::PeerMessage message;
  control::v1::SpotChecked* proto = message.mutable_spot_checked();
  proto->set_generation(generation);
  proto->set_step(result.step);
  if (!result.status.ok()) proto->set_error(result.status.message().substr(0, kErrorBytesMax));
  proto->set_input_digest(result.input_digest);
  proto->set_output_digest(result.output_digest);
  proto->set_difference(result.difference);
  proto->set_coding_error(result.coding_error);
  proto->set_loss_sum(result.loss.sum);
  proto->set_labels(result.loss.labels);
  return message;
}

control::v1::PeerMessage LinkBrokenMessage(std::uint64_t generation, const Status& status,
                                           const PeerId& peer) {
  control::v1::PeerMessage message;
  control::v1::LinkBroken* proto = message.mutable_link_broken();
  proto->set_generation(generation);
  proto->set_peer(peer.key.data(), peer.key.size());
  proto->set_error(status.message());
  proto->set_refused(status.code() == StatusCode::kInvalidArgument ||
                     status.code() == StatusCode::kDataLoss);
  return message;
}

std::string LinkBrokenText(const control::v1::LinkBroken& broken, const PeerId& peer) {
  const std::string name = "peer " + peer.ToShort();
  if (broken.refused()) return "what " + name + " sent cannot be right: " + broken.error();
  const std::string link = "the link to " + name;
  return broken.error().starts_with(link) ? broken.error() : link + " broke: " + broken.error();
}

bool LosesIn(const control::v1::StepPlan& plan, std::uint32_t pipeline) {
  return std::ranges::any_of(plan.lost(), [pipeline](const control::v1::Position& at) {
    return at.pipeline() == pipeline;
  });
}

std::string FollowsText(bool shadow, bool whole) {
  if (shadow) return "following the others while it gets its stage from them";
  return whole ? "" : "following the others until its pipeline is whole";
}

control::v1::PeerMessage SyncDoneMessage(std::uint64_t generation, std::uint64_t step,
                                         std::uint32_t amendment, double squared_norm,
                                         const replica::ExactExchange& exchange) {
  control::v1::PeerMessage message;
  control::v1::SyncDone* proto = message.mutable_sync_done();
  proto->set_generation(generation);
  proto->set_step(step);
  proto->set_amendment(amendment);
  proto->set_squared_norm(squared_norm);
  proto->set_exchange_ms(exchange.ms);
  proto->set_exact_values(exchange.values);
  proto->set_factor_values(exchange.factor_values);
  return message;
}

control::v1::PeerMessage AppliedMessage(std::uint64_t generation, std::uint64_t step,
                                        const std::vector<pipeline::BoundaryChecksum>& boundaries) {
  control::v1::PeerMessage message;
  control::v1::Applied* proto = message.mutable_applied();
  proto->set_generation(generation);
  proto->set_step(step);
  for (const pipeline::BoundaryChecksum& end : pipeline::SharedChecksums(boundaries)) {
    control::v1::BoundaryChecksum* item = proto->add_boundaries();
    item->set_boundary(end.boundary);
    item->set_receiver(end.side == storage::BoundarySide::kReceiver);
    item->set_checksum(end.checksum);
    item->set_records(end.records);
  }
  return message;
}

}  // namespace shoal::daemon
