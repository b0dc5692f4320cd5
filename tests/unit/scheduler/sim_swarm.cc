#include "unit/scheduler/sim_swarm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "common/version.h"
#include "scheduler/swarm/plan_messages.h"

namespace shoal::scheduler {

using control::v1::PeerMessage;
using control::v1::SchedulerMessage;

constexpr std::size_t kHeldLossesTold = 256;  // as shoald

RunConfig SimConfig(std::uint32_t stages, std::uint32_t pipelines) {
  RunConfig config;
  config.steps = 30;
  config.stages = stages;
  config.pipelines = pipelines;
  config.micro_batches = 6;
  config.micro_batch_rows = 2;
  config.checkpoint_every = 10;
  config.run = RunId{0xabcdef};
  config.model_config_json = "{}";
  config.layers = stages * 2;
  config.row_tokens = 16;
  config.train_rows = 500;
  for (std::uint32_t s = 0; s <= stages; ++s) config.stage_first_layers.push_back(s * 2);
  return config;
}

std::map<std::string, control::v1::ArtefactRef> SimArtefacts(const RunConfig& config) {
  std::map<std::string, control::v1::ArtefactRef> artefacts;
  std::vector<std::string> names = {"embedding", "head", "data"};
  for (std::uint32_t l = 0; l < config.layers; ++l) names.push_back("layer." + std::to_string(l));
  for (const std::string& name : names) {
    control::v1::ArtefactRef ref;
    ref.set_name(name);
    ref.set_hash(std::string(31, 'h') + name.back());
    ref.set_size(100);
    artefacts[name] = ref;
  }
  return artefacts;
}

PeerId SimPeerId(std::uint32_t number) {
  PeerId id;
  id.key[0] = static_cast<std::uint8_t>(number >> 8);
  id.key[1] = static_cast<std::uint8_t>(number);
  id.key[31] = 1;
  return id;
}

namespace {

constexpr std::uint64_t kLabels = 10;  // of a micro-batch

}  // namespace

double SimLossSum(std::uint64_t step, std::uint32_t micro_batch) {
  return 50.0 / (1.0 + static_cast<double>(step)) + micro_batch;
}

double SimSwarm::Loss(std::uint64_t step) const {
  double sum = 0;
  for (std::uint32_t i = 0; i < config_.micro_batches; ++i) sum += SimLossSum(step, i);
  return sum / static_cast<double>(kLabels * config_.micro_batches);
}

SimSwarm::SimSwarm(const RunConfig& config, std::uint64_t seed)
    : config_(config), random_(seed), state_(NewSwarmState(config, SimArtefacts(config))) {
  // The ticks of the server.
  auto tick = std::make_shared<std::function<void()>>();
  *tick = [this, tick_weak = std::weak_ptr(tick)] {
    Feed(Tick{});
    if (auto again = tick_weak.lock()) At(std::chrono::milliseconds(400), [again] { (*again)(); });
  };
  At(Duration::zero(), [tick] { (*tick)(); });
}

void SimSwarm::At(Duration delay, std::function<void()> task) {
  tasks_.push({now_ + delay, ++order_, std::move(task)});
}

Duration SimSwarm::Delay(double mean_ms) {
  std::exponential_distribution<double> draw(1.0 / mean_ms);
  return Duration(static_cast<std::int64_t>(std::min(draw(random_), mean_ms * 8) * 1e6));
}

std::size_t SimSwarm::AddPeer(std::uint64_t memory_bytes) {
  auto peer = std::make_unique<SimPeer>();
  peer->memory_bytes = memory_bytes;
  peer->id = SimPeerId(static_cast<std::uint32_t>(peers_.size()) + 1);
  peer->name = "peer" + std::to_string(peers_.size());
  peers_.push_back(std::move(peer));
  Connect(peers_.size() - 1);
  return peers_.size() - 1;
}

void SimSwarm::Connect(std::size_t index) {
  SimPeer& peer = Peer(index);
  peer.alive = true;
  peer.mute = false;
  peer.connection = ++last_connection_;
  ++peer.life;
  ++peer.epoch;
  Feed(PeerConnected{peer.connection, peer.id, "10.0.0." + std::to_string(index % 250)});
  PeerMessage hello;
  hello.mutable_hello()->set_protocol(net::kProtocolVersion);
  hello.mutable_hello()->set_version(kVersion);
  hello.mutable_hello()->set_name(peer.name);
  hello.mutable_hello()->set_listen_port(9000);
  hello.mutable_hello()->set_device("cpu");
  hello.mutable_hello()->set_memory_bytes(peer.memory_bytes);
  hello.mutable_hello()->set_paused(peer.paused);
  if (peer.forgets || peer.shadow) peer.holds = false;
  peer.prepared = -1;
  ++peer.preparations;
  peer.shadow = false;
  // At work on a step, whoever has said so far that it is to end.
  const bool runs = peer.stage >= 0 && !peer.shadow && !peer.stops && !peer.forgets &&
                    !peer.paused && !peer.plans.empty();
  peer.holds = peer.holds || runs;
  if (!peer.holds) peer.stage = peer.pipeline = -1;
  if (peer.holds) {
    control::v1::Held* held = hello.mutable_hello()->mutable_held();
    held->set_generation(peer.generation);
    held->set_step(peer.applied);
    held->set_pipeline(static_cast<std::uint32_t>(peer.pipeline));
    held->set_stage(static_cast<std::uint32_t>(peer.stage));
    const std::size_t told = std::min(peer.losses.size(), kHeldLossesTold);
    held->set_first_loss(peer.losses.size() - told);
    held->mutable_losses()->Add(peer.losses.end() - static_cast<std::ptrdiff_t>(told),
                                peer.losses.end());
    held->set_synced(peer.synced);
    held->set_runs(runs);
    if (runs && peer.synced) *held->mutable_reduce() = peer.reduces.back();
    held->set_planned(peer.applied + peer.plans.size());
    held->set_config_hash(peer.plan.config_hash());
    *held->mutable_last_apply() = peer.last_apply;
  }
  peer.working = true;  // nothing of the former plan
  Say(index, hello);
  for (const PeerMessage& saved : peer.told_saved) Say(index, saved);
  Heartbeat(&peer);
}

void SimSwarm::Heartbeat(SimPeer* peer) {
  PeerMessage message;
  message.mutable_heartbeat()->set_state("training");
  message.mutable_heartbeat()->set_status_json("{}");
  message.mutable_heartbeat()->mutable_line()->set_upload_bps(peer->upload_bps);
  Answer(peer, 1, message);
  At(std::chrono::milliseconds(700), [this, peer, life = peer->life] {
    if (peer->alive && peer->life == life) Heartbeat(peer);
  });
}

void SimSwarm::Kill(std::size_t index) {
  SimPeer& peer = Peer(index);
  if (!peer.alive) return;
  peer.alive = peer.holds = false;
  peer.plans.clear();
  peer.told_saved.clear();
  ++peer.process;
  ++peer.epoch;
  At(Delay(50), [this, connection = peer.connection, life = scheduler_life_] {
    if (life == scheduler_life_) Feed(PeerDisconnected{connection, "connection reset"});
  });
}

void SimSwarm::CutOff(std::size_t index) {
  SimPeer& peer = Peer(index);
  ++peer.life;
  ++peer.epoch;
  peer.working = true;
  At(Delay(50), [this, connection = peer.connection] {
    Feed(PeerDisconnected{connection, "connection reset"});
  });
  peer.connection = 0;
}

void SimSwarm::Say(std::size_t index, PeerMessage message) {
  SimPeer& peer = Peer(index);
  if (peer.filter && !peer.filter(&message)) return;
  const ConnectionId connection = peer.connection;
  TimePoint& last = to_scheduler_[connection];
  last = std::max(last, now_ + Delay(20));
  tasks_.push({last, ++order_,
               [this, &peer, connection, message = std::move(message), life = scheduler_life_] {
                 if (life != scheduler_life_ || !peer.alive || peer.connection != connection)
                   return;
                 Feed(PeerMessageReceived{connection, message});
               }});
}

void SimSwarm::Answer(SimPeer* peer, double mean_ms, PeerMessage message) {
  AnswerIn(Delay(mean_ms * peer->slowness), peer, std::move(message));
}

void SimSwarm::AnswerIn(Duration delay, SimPeer* peer, PeerMessage message) {
  At(delay,
     [this, peer, epoch = peer->epoch, process = peer->process, message = std::move(message)] {
       if (!peer->alive || peer->mute || peer->process != process) return;
       const bool saved = message.has_checkpoint_done();  // whatever has ended since
       if (peer->epoch != epoch && !message.has_heartbeat() && !saved) return;
       if (saved) peer->told_saved.push_back(message);
       for (std::size_t i = 0; i < peers_.size(); ++i) {
         if (peers_[i].get() == peer) Say(i, message);
       }
     });
}

void SimSwarm::Order(AdminCommand::Kind kind) { Feed(AdminCommand{kind}); }

void SimSwarm::Feed(const Event& event) {
  std::vector<Action> actions = state_->Handle(event, now_);
  last_actions_ = actions.size();
  for (Action& action : actions) {
    if (auto* send = std::get_if<SendTo>(&action)) {
      TimePoint& last = to_peer_[send->connection];
      last = std::max(last, now_ + Delay(20));
      tasks_.push({last, ++order_, [this, send = *send, life = scheduler_life_] {
                     if (life == scheduler_life_) Deliver(send.connection, send.message);
                   }});
    } else if (auto* dropped = std::get_if<Disconnect>(&action)) {
      ++disconnects_;
      EXPECT_FALSE(dropped->reason.ok());
    } else if (auto* persist = std::get_if<Persist>(&action)) {
      persisted_.push_back(persist->event);
      persisted_at_.push_back(now_);
      const auto number = log_->log().Append(persist->event);
      EXPECT_EQ(number.ok() ? *number : 0, persisted_.size()) << number.status().ToString();
    } else if (auto* complete = std::get_if<CheckpointComplete>(&action)) {
      checkpoints_.push_back(complete->step);
      Prune();
    } else if (std::holds_alternative<ArtefactsUnneeded>(action)) {
      Prune();
    } else if (auto* want = std::get_if<WantArtefacts>(&action)) {
      for (const auto& file : want->files) Want(file);
    }
  }
}

SimPeer* SimSwarm::ByConnection(ConnectionId connection) {
  for (auto& peer : peers_) {
    if (peer->connection == connection && peer->alive) return peer.get();
  }
  return nullptr;
}

void SimSwarm::Deliver(ConnectionId connection, const SchedulerMessage& message) {
  SimPeer* peer = ByConnection(connection);
  if (peer == nullptr) return;
  switch (message.kind_case()) {
    case SchedulerMessage::kPlan: OnPlan(peer, message.plan()); return;
    case SchedulerMessage::kStepPlan:
      if (message.step_plan().generation() != peer->generation) return;
      OnStepPlan(peer, message.step_plan());
      if (message.step_plan().lines_size() > 0) peer->with_lines.push_back(message.step_plan());
      Work(peer);
      return;
    case SchedulerMessage::kReduce: {
      EXPECT_EQ(message.reduce().step(), peer->applied);
      PeerMessage done;
      done.mutable_sync_done()->set_generation(peer->generation);
      done.mutable_sync_done()->set_step(message.reduce().step());
      done.mutable_sync_done()->set_amendment(peer->plans[peer->applied].amendment());
      done.mutable_sync_done()->set_squared_norm(4.0 + peer->stage);
      for (const std::uint32_t stage : message.reduce().exact_stages()) {
        if (static_cast<int>(stage) != peer->stage) continue;
        done.mutable_sync_done()->set_exchange_ms(900 / (1 + peer->stage));
        done.mutable_sync_done()->set_exact_values(1000);
        done.mutable_sync_done()->set_factor_values(400);
      }
      if (peer->synced) {
        EXPECT_EQ(message.reduce().SerializeAsString(), peer->reduces.back().SerializeAsString());
      } else {
        peer->reduces.push_back(message.reduce());
      }
      peer->synced = true;
      peer->agreed = peer->plans[peer->applied].amendment();
      Answer(peer, 30, done);
      return;
    }
    case SchedulerMessage::kSpotCheck: OnSpotCheck(peer, message.spot_check()); return;
    case SchedulerMessage::kGoOn: OnGoOn(peer, message.go_on()); return;
    case SchedulerMessage::kPrepare: OnPrepare(peer, message.prepare()); return;
    case SchedulerMessage::kApply: OnApply(peer, message.apply()); return;
    case SchedulerMessage::kAbort: OnAbort(peer, message.abort()); return;
    case SchedulerMessage::kRunStatus: peer->status = message.run_status(); return;
    case SchedulerMessage::kRefused: peer->refused = message.refused(); return;
    case SchedulerMessage::kFinished: peer->finished = true; return;
    case SchedulerMessage::kWantArtefacts: {
      OnWanted(peer, message.want_artefacts());
      return;
    }
    default: return;
  }
}

void SimSwarm::OnPlan(SimPeer* peer, const control::v1::Plan& plan) {
  EXPECT_GT(plan.generation(), peer->generation);
  ++peer->epoch;
  if (plan.in_place()) {
    EXPECT_TRUE(peer->holds || peer->stage < 0) << peer->name;
  }
  const std::uint64_t held_steps = peer->applied;
  const bool was_shadow = std::exchange(peer->shadow, false);
  const control::v1::Plan former = peer->plan;
  const int former_stage = peer->stage;
  peer->plan = plan;
  peer->generation = plan.generation();
  peer->applied = plan.resume_step();
  peer->plans.clear();
  peer->with_lines.clear();
  peer->working = false;
  peer->stage = peer->pipeline = -1;
  for (const auto& position : plan.positions()) {
    if (position.peer() != std::string(peer->id.key.begin(), peer->id.key.end())) continue;
    peer->stage = static_cast<int>(position.stage());
    peer->pipeline = static_cast<int>(position.pipeline());
    peer->shadow = position.shadow();
  }
  CheckWhole(former, *peer);
  if (peer->shadow) {
    EXPECT_TRUE(plan.in_place());
    EXPECT_TRUE(former_stage == peer->stage || peer->prepared == peer->stage);
  }
  if (peer->stage >= 0 || !plan.in_place()) {
    peer->prepared = -1;
    ++peer->preparations;  // what is under way is void
  }
  peer->holds = plan.in_place() && peer->stage >= 0;
  peer->synced = false;
  peer->last_apply.Clear();
  peer->losses.resize(plan.resume_step());
  if (peer->stage < 0) return;
  if (plan.in_place()) {
    EXPECT_TRUE(peer->shadow ||
                (peer->stage == former_stage && !was_shadow && plan.resume_step() == held_steps));
    // Whose names it saves.
    for (const std::string& part : StageParts(config_, static_cast<std::uint32_t>(peer->stage))) {
      peer->plan.add_artefacts()->set_name(part);
    }
    if (peer->shadow) CatchUp(peer);
  }
  PeerMessage ready;
  ready.mutable_plan_ready()->set_generation(plan.generation());
  Answer(peer, 500, ready);
}

// One that was dealt out again begins with what the peer had before, or has nothing for it where
// its pipeline has lost somebody; and is worked on once more.
void SimSwarm::OnStepPlan(SimPeer* peer, const control::v1::StepPlan& plan) {
  EXPECT_GE(plan.step(), peer->applied);
  if (plan.lost_size() > 0 && plan.amendment() == 0) return;  // who only followed
  const auto before = peer->plans.find(plan.step());
  EXPECT_EQ(before != peer->plans.end(), plan.amendment() > 0);
  if (before != peer->plans.end()) {
    EXPECT_GT(plan.amendment(), before->second.amendment());
    const auto& had = before->second.pipelines(peer->pipeline).micro_batches();
    const auto& has = plan.pipelines(peer->pipeline).micro_batches();
    const bool broken = std::ranges::any_of(plan.lost(), [&](const control::v1::Position& at) {
      return static_cast<int>(at.pipeline()) == peer->pipeline;
    });
    EXPECT_TRUE(broken ? has.empty() : has.size() >= had.size());
    for (int i = 0; i < std::min(had.size(), has.size()); ++i) {
      EXPECT_EQ(has[i].SerializeAsString(), had[i].SerializeAsString());
    }
    if (plan.step() == peer->applied) peer->working = peer->synced = false;
  }
  peer->plans[plan.step()] = plan;
}

void SimSwarm::Work(SimPeer* peer) {
  const auto plan = peer->plans.find(peer->applied);
  if (peer->stage < 0 || peer->working || plan == peer->plans.end()) return;
  peer->working = true;
  PeerMessage message;
  control::v1::StepReady* ready = message.mutable_step_ready();
  ready->set_generation(peer->generation);
  ready->set_step(peer->applied);
  const auto& batches = plan->second.pipelines(peer->pipeline).micro_batches();
  ready->set_micro_batches(static_cast<std::uint32_t>(batches.size()));
  ready->set_amendment(plan->second.amendment());
  CheckShares(plan->second, *peer);
  EXPECT_TRUE(!peer->shadow || batches.empty()) << peer->name;
  AddDigests(*peer, batches.size(), ready);
  if (peer->stage + 1 == static_cast<int>(config_.stages)) {
    double sum = 0;
    for (const auto& batch : batches) {
      ready->add_losses(SimLossSum(peer->applied, batch.global_index()));
      sum += ready->losses(ready->losses_size() - 1);
    }
    ready->set_labels(kLabels * static_cast<std::uint64_t>(batches.size()));
    ready->set_loss_sum(sum);
  }
  ready->mutable_timing()->set_forward_ms(5 + peer->stage);
  if (backward_end) return AnswerIn(backward_end(peer->stage), peer, message);
  Answer(peer, 200, message);
}

void SimSwarm::OnPrepare(SimPeer* peer, const control::v1::Prepare& prepare) {
  // One that came back after the plan, or after its pipeline left that, lets go of the stage that
  // it holds.
  for (const MemberView& member : View().members) {
    EXPECT_TRUE(member.peer != peer->id || member.stage < 0) << peer->name;
  }
  peer->holds = false;
  peer->stage = peer->pipeline = -1;
  PeerMessage message;
  message.mutable_prepared()->set_stage(prepare.position().stage());
  peer->prepared = -1;
  At(Delay(600), [this, peer, number = ++peer->preparations, message] {
    if (!peer->alive || peer->preparations != number || peer->stage >= 0) return;
    peer->prepared = static_cast<int>(message.prepared().stage());
    for (std::size_t i = 0; i < peers_.size(); ++i) {
      if (peers_[i].get() == peer) Say(i, message);
    }
  });
}

void SimSwarm::CatchUp(SimPeer* peer) {
  At(catch_up, [this, peer, epoch = peer->epoch] {
    if (!peer->alive || peer->epoch != epoch || !peer->shadow) return;
    peer->shadow = false;
    PeerMessage message;
    message.mutable_caught_up()->set_generation(peer->generation);
    message.mutable_caught_up()->set_step(peer->applied);
    Answer(peer, 1, message);
  });
}

// Sums that were agreed on among others have other bits.
void SimSwarm::CheckAgreed(const SimPeer& peer) {
  if (peer.shadow) return;
  const auto [known, fresh] = agreed_.try_emplace({peer.generation, peer.applied}, peer.agreed);
  EXPECT_EQ(known->second, peer.agreed) << peer.name << " at step " << peer.applied;
}

void SimSwarm::OnApply(SimPeer* peer, const control::v1::Apply& apply) {
  EXPECT_EQ(apply.step(), peer->applied);
  CheckAgreed(*peer);
  EXPECT_TRUE(std::isfinite(apply.loss()) && std::isfinite(apply.global_norm()));
  peer->plans.erase(peer->applied);
  ++peer->applied;
  peer->holds = true;
  peer->losses.push_back(apply.loss());
  peer->synced = false;
  peer->last_apply = apply;
  peer->last_apply.clear_checkpoint();
  peer->last_apply.clear_check_weights();
  peer->working = false;
  PeerMessage message;
  control::v1::Applied* applied = message.mutable_applied();
  applied->set_generation(peer->generation);
  applied->set_step(apply.step());
  const auto add_place = [&](int boundary, bool receiver) {
    if (boundary < 0 || boundary + 1 >= static_cast<int>(config_.stages)) return;
    control::v1::BoundaryChecksum* place = applied->add_boundaries();
    place->set_boundary(static_cast<std::uint32_t>(boundary));
    place->set_receiver(receiver);
    place->set_checksum(1000 * apply.step() + static_cast<std::uint64_t>(boundary));
    place->set_records(7);
  };
  add_place(peer->stage, false);
  add_place(peer->stage - 1, true);
  if (apply.check_weights()) {
    applied->set_weight_checksum(99 + apply.step() + (peer->corrupt ? 1 : 0));
  }
  EXPECT_TRUE(!apply.checkpoint() || !peer->shadow);
  Answer(peer, 10, message);
  if (apply.checkpoint()) Save(peer, apply.step() + 1);
  Work(peer);
}

// What it computed is done, or goes on; it says so again.
void SimSwarm::OnGoOn(SimPeer* peer, const control::v1::GoOn& go_on) {
  EXPECT_EQ(go_on.generation(), peer->generation);
  EXPECT_TRUE(peer->stage >= 0 && !peer->plans.empty()) << peer->name;
  ++peer->gone_on;
  peer->working = false;
  Work(peer);
}

void SimSwarm::OnAbort(SimPeer* peer, const control::v1::Abort& abort) {
  peer->last_abort = abort.reason();
  ++peer->epoch;
  peer->plans.clear();
  peer->working = true;  // until the next plan
  peer->holds = abort.generation() == peer->generation && abort.hold_step() > 0;
  if (!peer->holds) {
    peer->stage = peer->pipeline = -1;
    return;
  }
  if (abort.has_apply() && peer->synced && abort.apply().step() == peer->applied) {
    CheckAgreed(*peer);
    ++peer->applied;
    peer->losses.push_back(abort.apply().loss());
    peer->last_apply = abort.apply();
    peer->synced = false;
  }
  EXPECT_EQ(abort.hold_step(), peer->applied);
  if (!abort.save()) return;
  peer->closings.push_back(abort);
  Save(peer, abort.hold_step());
}

void SimSwarm::RestartScheduler(bool reconnect) {
  ++scheduler_life_;
  state_ = NewSwarmState(config_, SimArtefacts(config_));
  const Status restored = RestoreInto(state_.get());
  EXPECT_TRUE(restored.ok()) << restored.ToString();
  if (!reconnect) return;
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    if (!peers_[i]->alive) continue;
    ++peers_[i]->epoch;
    peers_[i]->working = true;
    At(Delay(1000), [this, i] {
      if (Peer(i).alive) Connect(i);
    });
  }
}

void SimSwarm::Disturb(std::mt19937_64* random, std::size_t peers, std::uint64_t restart_one_in) {
  const std::size_t victim = (*random)() % peers;
  if ((*random)() % restart_one_in == 0) {
    RestartScheduler(true);
  } else if (Peer(victim).alive) {
    Kill(victim);
  } else {
    Connect(victim);
  }
  if ((*random)() % 5 == 0) Order(AdminCommand::Kind::kResume);
}

Status SimSwarm::RestoreInto(SwarmState* state) const {
  return log_->log().Replay([&](std::uint64_t number, std::string_view event) {
    return state->Restore(event, persisted_at_.at(number - 1));
  });
}

void SimSwarm::RunFor(Duration duration) {
  const TimePoint end = now_ + duration;
  while (!tasks_.empty() && tasks_.top().when <= end) {
    Task task = tasks_.top();
    tasks_.pop();
    now_ = std::max(now_, task.when);
    task.run();
  }
  now_ = end;
}

bool SimSwarm::RunUntil(const std::function<bool()>& done, Duration limit) {
  const TimePoint end = now_ + limit;
  while (!done()) {
    if (tasks_.empty() || tasks_.top().when > end) return false;
    Task task = tasks_.top();
    tasks_.pop();
    now_ = std::max(now_, task.when);
    task.run();
  }
  return true;
}

bool SimSwarm::RunUntilState(RunState state, Duration limit) {
  return RunUntil([&] { return View().state == state; }, limit);
}

std::size_t PeerAt(SimSwarm* swarm, std::size_t peers, int pipeline, int stage) {
  for (const MemberView& member : swarm->View().members) {
    if (member.pipeline != pipeline || member.stage != stage) continue;
    for (std::size_t i = 0; i < peers; ++i) {
      if (swarm->Peer(i).id == member.peer) return i;
    }
  }
  ADD_FAILURE() << "nobody there";
  return 0;
}

}  // namespace shoal::scheduler
