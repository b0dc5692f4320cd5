#include "scheduler/swarm/plan_messages.h"

#include <algorithm>
#include <span>

#include "common/checksum.h"
#include "model/families/trained_part.h"
#include "replica/methods/replica_method.h"
#include "scheduler/config/swarm_limits.h"
#include "scheduler/steps/evaluation_rows.h"

namespace shoal::scheduler {
namespace {

void FillConfig(const RunConfig& from, std::size_t pipelines, control::v1::RunConfig* to) {
  to->set_run(from.run.value);
  to->set_name(from.name);
  to->set_model_config_json(from.model_config_json);
  to->set_adapter_config_json(from.adapter_config_json);
  to->set_steps(from.steps);
  to->set_seed(from.seed);
  to->set_stages(from.stages);
  to->set_pipelines(static_cast<std::uint32_t>(pipelines));
  to->set_micro_batches(from.micro_batches);
  to->set_micro_batch_rows(from.micro_batch_rows);
  to->set_row_tokens(from.row_tokens);
  to->set_train_rows(from.train_rows);
  to->set_forward_codec(from.forward);
  to->set_backward_codec(from.backward);
  const auto method = replica::ParseReplicaMethod(from.replica_method);
  SHOAL_CHECK(method.ok());  // CheckReplicaMethod
  to->set_replica_method(method->SpecOfRun(from.steps, from.warmup_steps));
  to->set_compute(from.compute);
  to->set_dropout(from.dropout);
  to->set_dropout_masks(from.dropout_masks);
  to->set_recompute(from.recompute);
  to->set_beta1(from.beta1);
  to->set_beta2(from.beta2);
  to->set_epsilon(from.epsilon);
  to->set_weight_decay(from.weight_decay);
  to->set_clip_norm(from.clip_norm);
  to->set_schedule(from.schedule);
  to->set_in_flight_max(from.in_flight_max);
  to->set_checkpoint_keep(from.checkpoint_keep);
  to->set_spot_checks(from.spot_checks > 0);
}

std::uint64_t HashOf(const control::v1::RunConfig& config) {
  const std::string bytes = config.SerializeAsString();
  return Checksum64(std::as_bytes(std::span(bytes)));
}

// In micro-batches of the usual size, if that is not too large for a frame, dealt out to the
// pipelines that count in turns.
void AddEvaluation(const RunConfig& config, const Pipelines& counting,
                   control::v1::StepPlan* plan) {
  const std::uint32_t rows_most = std::clamp(kEvaluationTokensMax / std::max(config.row_tokens, 1u),
                                             1u, std::max(config.micro_batch_rows, 1u));
  control::v1::MicroBatchPlan* micro_batch = nullptr;
  std::uint32_t added = 0;
  for (const SampleId row : EvaluationRows(config)) {
    if (micro_batch == nullptr ||
        static_cast<std::uint32_t>(micro_batch->samples_size()) == rows_most) {
      micro_batch = plan->mutable_pipelines(static_cast<int>(counting[added % counting.size()]))
                        ->add_evaluation();
      micro_batch->set_global_index(added++);
    }
    micro_batch->add_samples(row.value);
  }
}

}  // namespace

std::vector<std::string> StageParts(const RunConfig& config, std::uint32_t stage) {
  std::vector<std::string> parts;
  if (config.shared_part) parts.push_back("shared");
  if (stage == 0) parts.push_back("embedding");
  const auto& cuts = config.stage_first_layers;
  SHOAL_CHECK(cuts.size() == std::size_t{config.stages} + 1 && stage < config.stages);
  for (std::uint32_t layer = cuts[stage]; layer < cuts[stage + 1]; ++layer) {
    parts.push_back("layer." + std::to_string(layer));
  }
  if (stage + 1 == config.stages) parts.push_back("head");
  return parts;
}

control::v1::Plan CommonPlan(const RunConfig& config, std::uint64_t generation,
                             std::uint64_t resume_step, const PlacementPlan& plan,
                             const PlanLans& lans, const std::set<PeerId>& shadows,
                             const Members& members) {
  control::v1::Plan message;
  message.set_generation(generation);
  message.set_resume_step(resume_step);
  FillConfig(config, plan.size(), message.mutable_config());
  message.set_config_hash(HashOf(message.config()));
  const std::vector<std::uint32_t>& sharing = config.sharing;
  for (std::uint32_t p = 0; p < plan.size(); ++p) {
    for (std::uint32_t s = 0; s < plan[p].size(); ++s) {
      if (plan[p][s] == PeerId{}) continue;  // a gap
      const Member* member = members.Find(plan[p][s]);
      SHOAL_CHECK(member != nullptr);
      control::v1::Position* position = message.add_positions();
      position->set_pipeline(p);
      position->set_stage(s);
      position->set_peer(member->peer.key.data(), member->peer.key.size());
      position->set_name(member->name);
      position->set_shadow(shadows.contains(member->peer));
      for (const std::string& address : member->addresses) position->add_addresses(address);
      position->set_first_layer(config.stage_first_layers[s]);
      position->set_last_layer(config.stage_first_layers[s + 1]);
      if (s < lans.stages.size()) position->set_lan(lans.stages[s][p]);
      const auto place = std::ranges::find(sharing, s);
      if (lans.shared.empty() || place == sharing.end()) continue;
      const auto before = static_cast<std::size_t>(place - sharing.begin()) * plan.size();
      position->set_shared_lan(lans.shared[before + p]);
    }
  }
  return message;
}

std::uint64_t PlanConfigHash(const RunConfig& config, std::size_t pipelines) {
  control::v1::RunConfig message;
  FillConfig(config, pipelines, &message);
  return HashOf(message);
}

std::vector<control::v1::ArtefactRef> ConstantArtefacts(const RunConfig& config,
                                                        std::uint32_t stage,
                                                        const ArtefactMap& initial) {
  std::vector<control::v1::ArtefactRef> artefacts;
  const auto add = [&](const std::string& name) {
    const auto found = initial.find(name);
    if (found != initial.end()) artefacts.push_back(found->second);
  };
  for (const std::string& part : StageParts(config, stage)) {
    add(part + std::string(model::kBaseSuffix));
  }
  if (stage == 0 || stage + 1 == config.stages || config.segmented_rows) add("data");
  return artefacts;
}

control::v1::Prepare PrepareMessage(const RunConfig& config, std::uint32_t stage,
                                    const ArtefactMap& initial) {
  control::v1::Prepare message;
  FillConfig(config, config.pipelines, message.mutable_config());
  message.mutable_position()->set_stage(stage);
  message.mutable_position()->set_first_layer(config.stage_first_layers[stage]);
  message.mutable_position()->set_last_layer(config.stage_first_layers[stage + 1]);
  for (auto& artefact : ConstantArtefacts(config, stage, initial)) {
    *message.add_artefacts() = std::move(artefact);
  }
  return message;
}

std::vector<control::v1::ArtefactRef> StageArtefacts(const RunConfig& config, std::uint32_t stage,
                                                     const ArtefactMap& weights,
                                                     const ArtefactMap& initial) {
  std::vector<control::v1::ArtefactRef> artefacts;
  const auto add = [&](const std::string& name) {
    const auto found = weights.find(name);
    if (found != weights.end()) artefacts.push_back(found->second);
  };
  for (const std::string& part : StageParts(config, stage)) {
    add(part);
    add(part + ".optimizer");
  }
  for (auto& artefact : ConstantArtefacts(config, stage, initial)) {
    artefacts.push_back(std::move(artefact));
  }
  return artefacts;
}

std::uint64_t StateBytes(const RunConfig& config, std::uint32_t stage, const ArtefactMap& saved,
                         const ArtefactMap& initial) {
  std::uint64_t bytes = 0;
  for (const std::string& part : StageParts(config, stage)) {
    const auto of = [&part](const ArtefactMap& files, const char* suffix) -> std::uint64_t {
      const auto found = files.find(part + suffix);
      return found == files.end() ? 0 : found->second.size();
    };
    // Before the first checkpoint: two moments beside the weights.
    bytes += saved.empty() ? 3 * of(initial, "") : of(saved, "") + of(saved, ".optimizer");
  }
  return bytes;
}

control::v1::StepPlan MakeStepPlan(const RunConfig& config, const dataset::Sampler& sampler,
                                   const StepOfPlan& of,
                                   const std::vector<control::v1::StageTiming>& timings) {
  control::v1::StepPlan plan;
  plan.set_generation(of.generation);
  plan.set_step(of.step);
  for (std::uint32_t p = 0; p < of.pipelines; ++p) plan.add_pipelines();
  const std::vector<dataset::MicroBatchSamples> batches = sampler.Step(of.step);
  const std::vector<Dealt> dealt = Deal(of.dealing, config.micro_batches);
  // What a pipeline has from an earlier turn stays in front: it may be at work on it.
  for (std::uint32_t turn = 0; turn < of.dealing.turns.size(); ++turn) {
    for (const dataset::MicroBatchSamples& batch : batches) {
      if (dealt[batch.global_index].turn != turn) continue;
      control::v1::MicroBatchPlan* micro_batch =
          plan.mutable_pipelines(static_cast<int>(dealt[batch.global_index].pipeline))
              ->add_micro_batches();
      micro_batch->set_global_index(batch.global_index);
      for (const SampleId sample : batch.samples) micro_batch->add_samples(sample.value);
    }
  }
  if (EvaluatesBefore(config, of.step)) AddEvaluation(config, of.dealing.last(), &plan);
  plan.set_amendment(static_cast<std::uint32_t>(of.dealing.turns.size() - 1));
  for (const control::v1::StageTiming& timing : timings) *plan.add_timings() = timing;
  return plan;
}

control::v1::HeldOut ToMessage(const HeldOutMeasured& measured) {
  control::v1::HeldOut message;
  message.set_step(measured.step);
  message.set_loss(measured.loss);
  return message;
}

std::uint64_t ConfigHash(const RunConfig& config, const ArtefactMap& initial) {
  std::string text = config.model_config_json;
  const auto add = [&](std::uint64_t value) { text += ' ' + std::to_string(value); };
  add(config.seed);
  add(config.micro_batches);
  add(config.micro_batch_rows);
  add(config.row_tokens);
  add(config.train_rows);
  for (const std::uint32_t layer : config.stage_first_layers) add(layer);
  if (!config.adapter_config_json.empty()) text += ' ' + config.adapter_config_json;
  for (const auto& [name, artefact] : initial) text += ' ' + name + artefact.hash();
  return Checksum64(std::as_bytes(std::span(text)));
}

}  // namespace shoal::scheduler
