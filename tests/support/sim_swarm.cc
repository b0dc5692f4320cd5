#include "tests/support/sim_swarm.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "pipeline/core/inventory.h"
#include "tests/support/device_stage.h"

namespace shoal::test_support {
namespace {

using pipeline::BoundaryChecksum;
using pipeline::MicroBatchPlan;
using pipeline::RunnerConfig;
using pipeline::StageRunner;
using pipeline::StepPlan;
using pipeline::StepReady;
using replica::ApplyOrder;

constexpr std::uint64_t kPlansAhead = 2;
constexpr std::uint64_t kSkippedMax = 2;  // in a row

// As a run of such a model has it.
std::vector<std::uint32_t> SharingOf(const SwarmOptions& options, std::uint32_t stage) {
  const bool end = stage == 0 || stage + 1 == options.stages;
  if (options.stages < 2 || !(options.bias || (options.tied && end))) return {};
  if (!options.bias) return {0, options.stages - 1};
  std::vector<std::uint32_t> all(options.stages);
  std::iota(all.begin(), all.end(), 0U);
  return all;
}

std::string Name(std::pair<std::uint32_t, std::uint32_t> place) {
  return std::to_string(place.first) + "." + std::to_string(place.second);
}

}  // namespace

SimSwarm::SimSwarm(const SwarmOptions& options)
    : options_(options),
      random_(options.seed),
      shape_{.row_tokens = options.row_tokens,
             .tied = options.tied,
             .bias = options.bias,
             .adamw = options.adamw,
             .units = options.units,
             .clip_norm = options.clip_norm},
      network_(&world_, {[this] { return Delay(5000); }, options.bytes_per_second}) {
  data_ = options.data;
  if (data_ == nullptr) {
    data_ = NewTinyData(
        shape_, std::uint64_t{options.micro_batches} * options.rows * options.steps_per_epoch);
  }
  for (std::uint32_t p = 0; p < options.pipelines; ++p) {
    for (std::uint32_t s = 0; s < options.stages; ++s) {
      peers_.push_back(std::make_unique<Peer>(this, s, p));
    }
  }
}

SimSwarm::~SimSwarm() { Close(); }

Duration SimSwarm::Delay(int micros) {
  if (!options_.random_delays) return std::chrono::microseconds(micros / 2);
  return std::chrono::microseconds(1 + random_() % static_cast<unsigned>(micros));
}

SimSwarm::Peer::Peer(SimSwarm* swarm, std::uint32_t stage, std::uint32_t pipeline)
    : swarm_(swarm), stage_(stage), pipeline_(pipeline) {
  id_.key[0] = static_cast<std::uint8_t>(stage + 1);
  id_.key[1] = static_cast<std::uint8_t>(pipeline + 1);
  const auto cost = [swarm](int micros) {
    return [swarm, micros](const char*) { return swarm->Delay(micros); };
  };
  SimWorld::Before before;
  if (swarm->options_.before_task) {
    before = [swarm, stage, pipeline] { swarm->options_.before_task(stage, pipeline); };
  }
  control_ = swarm->world_.NewExecutor("control", nullptr, before);
  compute_ = swarm->world_.NewExecutor("compute", cost(4000), before);
  codec_ = swarm->world_.NewExecutor("codec", cost(1000), before);
  store_executor_ = swarm->world_.NewExecutor("store", cost(3000), before);
  hub_ = swarm->network_.NewHub(id_, control_.get());
  store_ = storage::NewMemoryDeltaStore(swarm->options_.store_bytes_max);
  if (swarm->options_.new_model) {
    model_ = swarm->options_.new_model(stage);
    return;
  }
  const std::uint32_t layers = swarm->shape_.layers, stages = swarm->options_.stages;
  const model::StageRange range{layers * stage / stages, layers * (stage + 1) / stages};
  if (swarm->options_.on_device && swarm->options_.on_device(stage, pipeline)) {
    const auto device = std::make_shared<FakeDevice>();
    model_ = std::make_unique<DeviceStage>(swarm->shape_, range, 77, device);
    home_ = ValuesOf(device);
    return;
  }
  model_ = std::make_unique<TinyStage>(swarm->shape_, range, 77);
}

SimSwarm::Peer::~Peer() = default;

TinyStage& SimSwarm::Peer::tiny() const {
  SHOAL_CHECK(!swarm_->options_.new_model);
  return static_cast<TinyStage&>(*model_);
}

void SimSwarm::Peer::OnFailed(Status status, const PeerId* peer) {
  SHOAL_CHECK(!failure_.has_value());  // it comes once
  failure_ = Failure{std::move(status), peer != nullptr ? std::optional(*peer) : std::nullopt};
}

void SimSwarm::Peer::Make(std::uint64_t resume_step) {
  const SwarmOptions& options = swarm_->options_;
  RunnerConfig config;
  config.run = kSimRun;
  config.seed = kSimSeed;
  config.steps = options.run_steps;
  config.generation = swarm_->generation_;
  config.stage = stage_;
  config.stages = options.stages;
  config.pipeline = pipeline_;
  config.pipelines = options.pipelines;
  config.sharing = SharingOf(options, stage_);
  config.micro_batch_rows = options.rows;
  config.row_tokens = swarm_->data_->info().row_tokens;
  config.hidden = model_->spec().hidden;
  config.forward_codec = options.forward;
  config.backward_codec = options.backward;
  config.replica_method = options.replica;
  config.schedule = options.policy;
  config.in_flight_max = options.in_flight_max;
  config.activation_memory_bytes = options.activation_memory_bytes;
  config.segment_bytes_min = options.segment_bytes_min;
  config.bucket_values_min = options.bucket_values_min;
  config.resume_step = resume_step;
  config.spot_checks = options.spot_check != nullptr;
  for (std::uint32_t p = 0; p < options.pipelines; ++p) {
    if (!swarm_->IsWhole(p)) config.with_gaps.push_back(p);
  }
  for (std::uint32_t p = 0; !swarm_->shadows_.empty() && p < options.pipelines; ++p) {
    if (swarm_->IsGap(stage_, p)) continue;
    if (std::ranges::count(swarm_->shadows_, p) == 0) {
      config.holders.push_back(p);
    } else {
      ++config.shadows;
    }
  }
  config.missing = missing_;
  config.state_chunk_values = options.state_chunk_values;
  caught_up_.reset();
  StageRunner::Dependencies deps;
  deps.control = control_.get();
  deps.compute = compute_.get();
  deps.codec = codec_.get();
  deps.store = store_executor_.get();
  deps.hub = hub_.get();
  deps.model = model_.get();
  deps.home = home_;
  deps.delta_store = store_.get();
  deps.data = swarm_->data_;
  deps.kept = options.keeps_memories ? &kept_ : nullptr;
  deps.mediator = this;
  ready_ = false;
  failure_.reset();
  lost_.reset();
  auto runner = NewStageRunner(config, deps);
  if (!runner.ok()) {
    failure_ = Failure{runner.status(), std::nullopt};
    return;
  }
  runner_ = std::move(*runner);
}

void SimSwarm::Peer::Start() {
  const SwarmOptions& options = swarm_->options_;
  const auto target = [&](std::uint32_t stage, std::uint32_t pipeline, const std::string& channel) {
    net::LinkTarget to;
    if (swarm_->IsGap(stage, pipeline)) return to;
    to.peer = swarm_->at(stage, pipeline).id_;
    to.run = kSimRun;
    to.generation = swarm_->generation_;
    to.channel = channel;
    return to;
  };
  const std::string own = std::to_string(pipeline_) + "/";
  pipeline::LinkTargets targets;
  const bool whole = swarm_->IsWhole(pipeline_);
  if (whole && stage_ + 1 < options.stages) {
    targets.next = target(stage_ + 1, pipeline_, "boundary/" + own + std::to_string(stage_));
  }
  if (whole && stage_ > 0) {
    targets.previous =
        target(stage_ - 1, pipeline_, "boundary/" + own + std::to_string(stage_ - 1));
  }
  for (const std::uint32_t stage : SharingOf(options, stage_)) {
    for (std::uint32_t p = 0; p < options.pipelines; ++p) {
      const auto [low, high] = std::minmax({std::pair(stage_, pipeline_), std::pair(stage, p)});
      targets.shared.push_back(stage == stage_
                                   ? net::LinkTarget()
                                   : target(stage, p, "shared/" + Name(low) + "-" + Name(high)));
    }
  }
  for (std::uint32_t p = 0; options.pipelines > 1 && p < options.pipelines; ++p) {
    targets.group.push_back(target(stage_, p,
                                   "group/" + std::to_string(stage_) + "/" +
                                       std::to_string(std::min(p, pipeline_)) + "/" +
                                       std::to_string(std::max(p, pipeline_))));
  }
  runner_->Start(targets);
}

void SimSwarm::ToAll(std::function<void(Peer*)> order) {
  for (const auto& peer : peers_) {
    peer->control_->PostAfter("order", Delay(3000),
                              [order, peer = peer.get(), generation = generation_, this] {
                                if (peer->runner_ && generation == generation_) order(peer);
                              });
  }
}

bool SimSwarm::Open(std::uint64_t resume_step) {
  ++generation_;
  accounts_.clear();
  lost_.clear();
  left_from_.clear();
  left_in_.clear();
  timings_.assign(options_.stages, {});
  planned_ = wanted_ = applied_ = resume_step;
  held_ = false;
  losses_.resize(resume_step);
  for (const auto& peer : peers_) {
    if (!IsGap(peer->stage_, peer->pipeline_)) peer->Make(resume_step);
  }
  ToAll([](Peer* peer) { peer->Start(); });
  return world_.RunUntil(
             [this] {
               for (const auto& peer : peers_) {
                 if (peer->runner_ && !peer->ready_) return AnyFailed();
               }
               return true;
             },
             std::chrono::minutes(10)) &&
         !AnyFailed();
}

bool SimSwarm::AnyFailed() const {
  for (const auto& peer : peers_) {
    if (peer->failure_) return true;
  }
  return false;
}

void SimSwarm::Close() {
  for (const auto& peer : peers_) peer->runner_.reset();
}

void SimSwarm::SetPipelines(std::uint32_t count) {
  Close();
  options_.pipelines = count;
  const std::size_t peers = std::size_t{count} * options_.stages;
  SHOAL_CHECK(peers <= peers_.size() + resting_.size());
  while (peers_.size() > peers) {
    resting_.push_back(std::move(peers_.back()));
    peers_.pop_back();
  }
  while (peers_.size() < peers) {
    peers_.push_back(std::move(resting_.back()));
    resting_.pop_back();
  }
}

void SimSwarm::Run(Duration duration) {
  world_.RunUntil([] { return false; }, duration);
}

StepPlan SimSwarm::PlanOf(std::uint64_t step, std::uint32_t stage, std::uint32_t pipeline) const {
  StepPlan plan;
  plan.step = step;
  plan.timings = timings_;
  if (options_.evaluation) plan.evaluation = options_.evaluation(step, pipeline);
  if (options_.lines) {
    plan.group_lines = options_.lines(step);
    for (std::size_t place = 0; place < SharingOf(options_, stage).size(); ++place) {
      plan.shared_lines.insert(plan.shared_lines.end(), plan.group_lines.begin(),
                               plan.group_lines.end());
    }
  }
  if (options_.samples) {
    for (const dataset::MicroBatchSamples& taken : options_.samples(step)) {
      if (taken.global_index % options_.pipelines != pipeline) continue;
      plan.micro_batches.push_back({taken.global_index, taken.samples});
    }
    return plan;
  }
  plan.amendment = AmendmentOf(step);
  for (const auto& [s, p] : lost_) {
    if (plan.amendment > 0) plan.lost.push_back({p, s});
  }
  const bool some = !shadows_.empty() || !gaps_.empty() || !lost_.empty();
  if (some && !counted_.empty()) plan.counting = counted_;
  for (const std::uint32_t j : MicroBatchesOf(step, pipeline)) {
    MicroBatchPlan micro_batch;
    micro_batch.global_index = j;
    const std::uint64_t slot = (step % options_.steps_per_epoch) * options_.micro_batches + j;
    for (std::uint32_t r = 0; r < options_.rows; ++r) {
      micro_batch.samples.push_back({slot * options_.rows + r});
    }
    plan.micro_batches.push_back(std::move(micro_batch));
  }
  return plan;
}

bool SimSwarm::All(const std::set<const Peer*>& peers) const {
  return peers.size() + gaps_.size() + lost_.size() == peers_.size();
}

bool SimSwarm::IsWhole(std::uint32_t pipeline) const {
  const auto of_it = [&](const auto& gap) { return gap.second == pipeline; };
  return std::ranges::none_of(gaps_, of_it) && std::ranges::none_of(lost_, of_it);
}

void SimSwarm::SendPlans(std::uint64_t step) {
  while (planned_ < wanted_ && planned_ < step + kPlansAhead) {
    const std::uint64_t next = planned_++;
    // In order per peer: a later plan has a later event at an equal delay.
    for (const auto& peer : peers_) {
      peer->control_->PostAfter(
          "plan", Duration(5'000'000),
          [this, plan = PlanOf(next, peer->stage_, peer->pipeline_),
           spot = SpotOrderOf(next, *peer), peer = peer.get(), generation = generation_] {
            if (!peer->runner_ || generation != generation_) return;
            if (spot) peer->runner_->OnSpotOrder(*spot);
            peer->runner_->OnStepPlan(plan);
          });
    }
  }
}

std::optional<pipeline::SpotOrder> SimSwarm::SpotOrderOf(std::uint64_t step,
                                                         const Peer& peer) const {
  const auto check = options_.spot_check ? options_.spot_check(step) : std::nullopt;
  if (!check) return std::nullopt;
  pipeline::SpotOrder order;
  order.step = step;
  order.place = check->place;
  order.micro_batch = PlanOf(step, check->stage, check->pipeline).micro_batches[check->place];
  const auto target = [&](std::uint32_t stage, std::uint32_t pipeline, bool input,
                          std::uint32_t checker) {
    net::LinkTarget to;
    to.peer = peers_[pipeline * options_.stages + stage]->id_;
    to.run = kSimRun;
    to.generation = generation_;
    to.channel =
        "spot/" + std::to_string(step) + (input ? "/input/" : "/output/") + std::to_string(checker);
    return to;
  };
  if (peer.pipeline_ == check->pipeline &&
      (peer.stage_ + 1 == check->stage || peer.stage_ == check->stage + 1)) {
    const bool input = peer.stage_ < check->stage;
    order.role = input ? pipeline::SpotRole::kInputWitness : pipeline::SpotRole::kOutputWitness;
    for (const std::uint32_t by : check->checkers) {
      order.checkers.push_back(target(check->stage, by, input, by));
    }
    return order;
  }
  if (peer.stage_ != check->stage || std::ranges::count(check->checkers, peer.pipeline_) == 0) {
    return std::nullopt;
  }
  order.role = pipeline::SpotRole::kChecker;
  if (check->stage > 0) {
    order.input = target(check->stage - 1, check->pipeline, true, peer.pipeline_);
  }
  if (check->stage + 1 < options_.stages) {
    order.output = target(check->stage + 1, check->pipeline, false, peer.pipeline_);
  }
  return order;
}

void SimSwarm::Begin(std::uint64_t steps) {
  wanted_ = steps;
  SendPlans(applied_);
}

bool SimSwarm::TrainTo(std::uint64_t steps) {
  Begin(steps);
  return world_.RunUntil([&] { return applied_ >= steps || AnyFailed() || held_; },
                         std::chrono::hours(100)) &&
         !AnyFailed() && !held_;
}

void SimSwarm::OnStepReady(Peer* peer, const StepReady& ready) {
  if (IsLost(*peer) || ready.amendment != AmendmentOf(ready.step)) return;
  StepAccount& account = accounts_[ready.step];
  account.loss += ready.loss_sum;
  if (options_.spot_check) reports_[{ready.step, peer->stage_, peer->pipeline_}] = ready;
  held_out_[ready.step].sum += ready.evaluation.sum;
  held_out_[ready.step].labels += ready.evaluation.labels;
  account.labels += ready.labels;
  account.local[peer->pipeline_] += ready.squared_norm;
  account.labels_by_pipeline[peer->pipeline_] += ready.labels;
  timings_[peer->stage_] = ready.times;
  timings_[peer->stage_].forward_ms += options_.forward_ms;
  timings_[peer->stage_].backward_input_ms += options_.backward_ms;
  account.ready.insert(peer);
  ReduceIfReady(ready.step);
}

void SimSwarm::ReduceIfReady(std::uint64_t step) {
  StepAccount& account = accounts_[step];
  if (!All(account.ready) || std::exchange(account.reduced, true)) return;
  std::vector<std::uint32_t> counted = counted_;
  for (std::uint32_t p = 0; counted_.empty() && p < options_.pipelines; ++p) counted.push_back(p);
  replica::ReduceOrder order;
  order.step = step;
  order.pipelines = counted;
  order.labels = account.labels;
  order.learning_rate = options_.learning_rate ? options_.learning_rate(step) : 0.1;
  order.checkpoint = options_.checkpoint_every > 0 && (step + 1) % options_.checkpoint_every == 0;
  order.sync = (step + 1) % options_.sync_every == 0;
  for (std::uint32_t p = 0; p < options_.pipelines; ++p) {
    const double labels = static_cast<double>(account.labels_by_pipeline[p]);
    order.local_norms.push_back(labels == 0 ? 0 : std::sqrt(account.local[p]) / labels);
    order.local_labels.push_back(account.labels_by_pipeline[p]);
  }
  if (options_.exact_stages) order.exact_stages = options_.exact_stages(step);
  ToAll([order](Peer* to) { to->runner_->OnReduce(order); });
}

void SimSwarm::OnSyncDone(Peer* peer, std::uint64_t step, std::uint32_t amendment,
                          double squared_norm) {
  if (IsLost(*peer) || amendment != AmendmentOf(step)) return;
  StepAccount& account = accounts_[step];
  account.squared_norms[peer] = squared_norm;
  account.synced.insert(peer);
  ApplyIfSynced(step);
}

void SimSwarm::ApplyIfSynced(std::uint64_t step) {
  StepAccount& account = accounts_[step];
  if (!All(account.synced) || losses_.size() != step) return;
  double squared_norm = 0;
  for (const Peer* peer : account.synced) {
    const auto members = std::ranges::count_if(
        account.synced, [&](const Peer* other) { return other->stage_ == peer->stage_; });
    squared_norm += account.squared_norms[peer] / static_cast<double>(members);
  }
  ApplyOrder order;
  order.step = step;
  order.labels = account.labels;
  order.global_norm = std::sqrt(squared_norm) / static_cast<double>(account.labels);
  order.skip = !std::isfinite(squared_norm);
  if (order.skip) {
    const std::size_t before = skipped_.size();
    held_ = before >= kSkippedMax && skipped_[before - kSkippedMax] + kSkippedMax == step;
    if (held_) return;
    skipped_.push_back(step);
  }
  order.learning_rate = options_.learning_rate ? options_.learning_rate(step) : 0.1;
  losses_.push_back(account.loss / static_cast<double>(account.labels));
  ToAll([order](Peer* to) { to->runner_->OnApply(order); });
}

void SimSwarm::OnApplied(Peer* peer, std::uint64_t step,
                         const std::vector<BoundaryChecksum>& places) {
  if (IsLost(*peer)) return;
  StepAccount& account = accounts_[step];
  for (const BoundaryChecksum& boundary_end : SharedChecksums(places)) {
    const auto [found, first] =
        account.places.try_emplace({peer->pipeline_, boundary_end.boundary}, boundary_end.checksum);
    if (first) continue;
    ++checksums_compared_;
    if (found->second != boundary_end.checksum) ++checksum_mismatches_[step];
  }
  account.applied.insert(peer);
  FinishIfApplied(step);
}

void SimSwarm::FinishIfApplied(std::uint64_t step) {
  if (!All(accounts_[step].applied) || applied_ > step) return;
  applied_ = step + 1;
  SendPlans(applied_);
}

std::vector<std::vector<float>> SimSwarm::SaveWeights() const {
  std::vector<std::vector<float>> weights;
  for (const auto& peer : peers_) weights.push_back(peer->tiny().weights());
  return weights;
}

void SimSwarm::LoadWeights(const std::vector<std::vector<float>>& weights) {
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    peers_[i]->tiny().weights() = weights[i];
    peers_[i]->kept_ = {};
  }
}

namespace {

constexpr model::StateVector kSaved[] = {model::StateVector::kWeights,
                                         model::StateVector::kFirstMoment,
                                         model::StateVector::kSecondMoment};

}  // namespace

SimSwarm::StageState SimSwarm::SaveStage(std::uint32_t stage, std::uint32_t pipeline) const {
  model::StageModel& model = *peers_[pipeline * options_.stages + stage]->model_;
  StageState state;
  for (const model::StateVector which : kSaved) {
    SHOAL_CHECK(model.Read(which, 0, state.emplace_back(model.state_size())).ok());
  }
  return state;
}

void SimSwarm::LoadStage(std::uint32_t stage, const StageState& state) {
  for (std::uint32_t p = 0; p < options_.pipelines; ++p) {
    at(stage, p).model_->ZeroGradients();  // what a generation left
    at(stage, p).kept_ = {};
    for (std::size_t i = 0; i < state.size(); ++i) {
      SHOAL_CHECK(at(stage, p).model_->Write(kSaved[i], 0, state[i]).ok());
    }
  }
}

}  // namespace shoal::test_support
