#include "tests/unit/replica/stage_group.h"

#include <algorithm>

namespace shoal::replica {

void StageGroup::OpenLinks(std::uint32_t pipeline) {
  Peer& peer = *peers_[pipeline];
  MemberConfig config;
  config.seed = 3;
  config.steps = kRunSteps;
  config.generation = generation_;
  config.pipeline = pipeline;
  config.pipelines = kPipelines;
  config.bucket_values_min = 1;
  Member member{.config = config,
                .control = control_.get(),
                .compute = compute_.get(),
                .codec = codec_.get(),
                .model = peer.model.get()};
  peer.member = std::make_unique<Member>(std::move(member));
  peer.member->fail = [](const Status& status, const PeerId*) {
    ADD_FAILURE() << status.ToString();
  };
  std::vector<net::LinkTarget> group;
  for (std::uint32_t other = 0; other < kPipelines; ++other) {
    const auto [low, high] = std::minmax(pipeline, other);
    group.push_back({peers_[other]->id,
                     {},
                     kRun,
                     generation_,
                     std::to_string(low) + "-" + std::to_string(high)});
  }
  peer.links = std::make_unique<GroupLinks>(peer.member.get(),
                                            net::GenerationLinks(peer.hub.get(), kRun, generation_),
                                            group, std::vector<net::LinkTarget>(), [] {});
}

void StageGroup::OpenStep(Peer* peer) {
  const test_support::TinyStage& model = *peer->model;
  ReplicaContext context;
  context.member = peer->member.get();
  context.links = peer->links.get();
  context.method = method_;
  context.layout.assign(model.layout().begin(), model.layout().end());
  context.parts =
      MakeParameterGroups(peer->links.get(), false, context.layout, model.shared_tensors());
  context.final_after = FinalAfter(context.layout, model.weight_parts());
  context.units.units = model.units();
  for (std::size_t pass = 0; pass < model::kPasses; ++pass) {
    context.units.uses[pass] =
        model.unit_uses(static_cast<model::Pass>(pass), kRows, data_->info().row_tokens);
  }
  auto step = NewReplicaStep(std::move(context));
  ASSERT_TRUE(step.ok()) << step.status().ToString();
  peer->step = std::move(*step);
}

void StageGroup::TakeRows(Peer* peer, std::uint64_t step, std::uint64_t first) {
  peer->tokens.clear();
  peer->labels.clear();
  model::MicroBatch& micro_batch = peer->micro_batch = {};
  micro_batch.id = {step, 0};
  micro_batch.rows = kRows;
  micro_batch.tokens = data_->info().row_tokens;
  std::vector<std::int32_t> segments;  // has none
  for (std::uint32_t row = 0; row < kRows; ++row) {
    micro_batch.samples.push_back(SampleId{first + row});
    ASSERT_TRUE(
        data_->AppendRow(SampleId{first + row}, &peer->tokens, &peer->labels, &segments).ok());
  }
  micro_batch.token_ids = peer->tokens;
  micro_batch.labels = peer->labels;
  peer->weight_parts = 0;
  peer->trained = false;
  peer->norm.reset();
  peer->applied.reset();
}

// As a peer's compute does (pipeline/compute/step_compute.cc).
void StageGroup::RunPart(Peer* peer, model::Pass pass) {
  auto go = [this, peer, pass] {
    compute_->Post("part", [this, peer, pass] {
      const MicroBatchId id = peer->micro_batch.id;
      Result<bool> more = false;
      switch (pass) {
        case model::Pass::kForward:
          more = peer->model->ForwardPart(peer->micro_batch, {}, &peer->loss);
          break;
        case model::Pass::kBackwardInput: more = peer->model->BackwardInputPart(id, {}, {}); break;
        case model::Pass::kBackwardWeights: more = peer->model->BackwardWeights(id); break;
      }
      EXPECT_TRUE(more.ok()) << more.status().ToString();
      control_->Post("part.done", [this, peer, pass, again = more.ok() && *more] {
        AfterPart(peer, pass, again);
      });
    });
  };
  if (OperationGate* const gate = peer->step->gate(); gate != nullptr) {
    gate->Before(pass, 0, std::move(go));
  } else {
    go();
  }
}

void StageGroup::AfterPart(Peer* peer, model::Pass pass, bool more) {
  if (pass == model::Pass::kBackwardWeights) {
    peer->step->OnFinalGradients(peer->micro_batch.id.step, ++peer->weight_parts);
  }
  if (more) return RunPart(peer, pass);
  if (OperationGate* const gate = peer->step->gate(); gate != nullptr) gate->Stopped();
  switch (pass) {
    case model::Pass::kForward: return RunPart(peer, model::Pass::kBackwardInput);
    case model::Pass::kBackwardInput: return RunPart(peer, model::Pass::kBackwardWeights);
    case model::Pass::kBackwardWeights: peer->trained = true;
  }
}

}  // namespace shoal::replica
