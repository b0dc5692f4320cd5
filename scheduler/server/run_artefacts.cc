#include "scheduler/server/run_artefacts.h"

#include <algorithm>
#include <filesystem>
#include <memory>

#include "common/file.h"
#include "common/log.h"
#include "common/units.h"
#include "compression/api/segment_count.h"
#include "dataset/sampler.h"
#include "dataset/tokenizer.h"
#include "model/exports/base_part.h"
#include "model/families/adapter_config.h"
#include "model/families/family.h"
#include "model/families/open_model.h"
#include "model/families/trained_part.h"
#include "replica/methods/replica_advice.h"
#include "replica/methods/replica_method.h"
#include "scheduler/config/run_config_keys.h"
#include "scheduler/plan/even_cuts.h"
#include "scheduler/server/artefact_ref.h"
#include "scheduler/server/stage_needs.h"
#include "scheduler/swarm/plan_messages.h"
#include "storage/models/model_export.h"
#include "storage/models/model_tensors.h"

namespace shoal::scheduler {
namespace {

constexpr std::uint64_t kConfigBytesMax = 1 << 20;

control::v1::ArtefactRef MakeRef(const std::string& name, const storage::ContentHash& hash,
                                 std::uint64_t size) {
  control::v1::ArtefactRef ref;
  ref.set_name(name);
  ref.set_hash(hash.digest.data(), hash.digest.size());
  ref.set_size(size);
  return ref;
}

// Puts a file into the store under its hash.
Result<control::v1::ArtefactRef> Keep(const std::string& name, const std::string& path,
                                      storage::ContentStore* content) {
  SHOAL_ASSIGN_OR_RETURN(const storage::ContentHash hash, content->PutFile(path));
  std::error_code error;
  const std::uint64_t size = std::filesystem::file_size(path, error);
  if (error) return NotFound("size of " + path + ": " + error.message());
  return MakeRef(name, hash, size);
}

// Gives the model the adapters that the run asks for, and the run their description.
Status SetAdapter(RunConfig* config, model::ModelSpec* model) {
  config->adapter_config_json.clear();
  if (config->adapter_kind == "none") return Status::Ok();
  if (config->without_weights) {
    return InvalidArgument("a run without weights has nothing to put adapters beside");
  }
  model::AdapterConfig adapter;
  adapter.rank = config->adapter_rank;
  adapter.alpha = config->adapter_alpha;
  adapter.dropout = config->adapter_dropout;
  adapter.rslora = config->adapter_rslora;
  adapter.targets = config->adapter_targets;
  adapter.modules_to_save = config->adapter_modules_to_save;
  model::SaveClassifier(*model, &adapter);
  SHOAL_RETURN_IF_ERROR(model::Adapt(adapter, model).WithContext("adapter"));
  config->adapter_config_json = model::FormatAdapterConfig(adapter, *model, config->model);
  return Status::Ok();
}

// Multiply-adds per token; the head weighs as much as several layers in small models.
ChainCosts CostsOf(const model::ModelSpec& model, std::uint32_t row_tokens) {
  const double hidden = model.hidden;
  const model::AttentionSpec& attention = model.layer_specs.front().attention;
  const auto query = static_cast<double>(attention.heads * attention.head_size);
  ChainCosts costs;
  costs.embedding = hidden;
  costs.layer =
      static_cast<double>(model.ParametersOf(0, 1, false, false)) + 2 * query * row_tokens;
  costs.head = hidden * static_cast<double>(model.head.output.out);
  return costs;
}

// Labels are what the model's head tells.
Status CheckKind(const RunConfig& config, const model::ModelSpec& model,
                 const dataset::DataInfo& data, const std::string& again) {
  const bool classifier = model.head.kind == model::HeadKind::kClassifier;
  const bool classes = data.kind == dataset::DataKind::kClasses;
  if (classifier != classes) {
    return InvalidArgument(config.data +
                           (classes ? " has a class for each row, but the model in "
                                    : " has no classes, but the model in ") +
                           config.model +
                           (classifier ? " classifies: prepare texts with labels"
                                       : " tells next tokens: prepare texts or conversations"));
  }
  const auto known = static_cast<std::uint64_t>(model.head.output.out);
  if (classes && data.classes > known) {
    return InvalidArgument(config.data + " has " + std::to_string(data.classes) +
                           " classes, the model in " + config.model + " knows " +
                           std::to_string(known) + ": set num_labels in its config.json" + again);
  }
  if (data.typed && model.token_types() == 1) {
    return InvalidArgument(config.data +
                           " marks second texts with the token type 1, which the "
                           "model in " +
                           config.model + " does not have" + again);
  }
  return Status::Ok();
}

Status CheckData(const RunConfig& config, const model::ModelSpec& model,
                 const dataset::DataInfo& data, const std::string& tokenizer_folder) {
  const std::string again = "; prepare it again with: shoal prepare --tokenizer " + config.model +
                            " --text FILE --out FILE";
  SHOAL_RETURN_IF_ERROR(CheckKind(config, model, data, again));
  if (data.vocabulary > model.vocabulary) {
    return InvalidArgument(config.data + " has token ids up to " +
                           std::to_string(data.vocabulary - 1) + ", the model in " + config.model +
                           " knows " + std::to_string(model.vocabulary) + " tokens" + again);
  }
  if (data.row_tokens > model.positions) {
    return InvalidArgument(config.data + " has rows of " + std::to_string(data.row_tokens) +
                           " tokens, the model takes at most " + std::to_string(model.positions) +
                           again + " --row " + std::to_string(model.positions));
  }
  if (!tokenizer_folder.empty()) {
    SHOAL_ASSIGN_OR_RETURN(const auto tokenizer, dataset::LoadTokenizer(tokenizer_folder));
    if (tokenizer->fingerprint() != data.tokenizer_fingerprint) {
      return InvalidArgument(config.data + " was prepared with another tokenizer than that of " +
                             config.model + again);
    }
  }
  const std::uint64_t rows = std::uint64_t{config.micro_batches} * config.micro_batch_rows;
  if (data.train_rows < rows) {
    return InvalidArgument(
        "one step takes micro_batches x micro_batch_rows = " + std::to_string(rows) + " rows, " +
        config.data + " has " + std::to_string(data.train_rows) +
        "; lower one of the two in run.toml, or --micro-batches or --rows of `shoal swarm init`, "
        "or prepare more text");
  }
  return Status::Ok();
}

// A codec that no peer could make is found before anybody joins.
Status CheckCodecs(const RunConfig& config, const model::ModelSpec& model) {
  const auto forward = compression::MakeCodec(config.forward, model.hidden);
  if (!forward.ok()) return forward.status().WithContext("codecs.forward");
  const auto backward = compression::MakeCodec(config.backward, model.hidden);
  if (!backward.ok()) return backward.status().WithContext("codecs.backward");
  SHOAL_RETURN_IF_ERROR(CheckReplicaMethod(config));
  return compression::CheckDirections(**forward, **backward).WithContext("codecs");
}

Status SetCuts(const model::ModelSpec& model, RunConfig* config) {
  if (config->stages > model.layers()) {
    return InvalidArgument("stages = " + std::to_string(config->stages) + ", but the model has " +
                           std::to_string(model.layers()) + " layers; take at most one stage each");
  }
  if (config->cuts.empty()) {
    config->stage_first_layers =
        EvenCuts(model.layers(), config->stages, CostsOf(model, config->row_tokens));
    return Status::Ok();
  }
  if (config->cuts.back() >= model.layers()) {
    return InvalidArgument("cuts has layer " + std::to_string(config->cuts.back()) +
                           ", the model's last layer is " + std::to_string(model.layers() - 1));
  }
  config->stage_first_layers = {0};
  config->stage_first_layers.insert(config->stage_first_layers.end(), config->cuts.begin(),
                                    config->cuts.end());
  config->stage_first_layers.push_back(model.layers());
  return Status::Ok();
}

Status SetShared(const model::ModelSpec& model, RunConfig* config) {
  config->shared_part = model.relative.has_value();
  config->sharing = model::SharingStages(model.shared_by(), config->stages);
  SHOAL_ASSIGN_OR_RETURN(const replica::ReplicaMethod method,
                         replica::ParseReplicaMethod(config->replica_method));
  return method.CheckSharing(config->sharing.size(), config->pipelines);
}

// Of the parameters, what goes with them, and one micro-batch. `initial`: with the frozen part of a
// model that has adapters, which is held as it is sent.
Status SetStageBytes(const model::ModelSpec& model, const ArtefactMap& initial, RunConfig* config) {
  config->stage_bytes.clear();
  config->micro_batch_bytes.clear();
  if (config->without_weights) return Status::Ok();
  std::vector<std::uint64_t> base;
  for (const std::string& part : model.PartNames()) {
    const auto found = initial.find(part + std::string(model::kBaseSuffix));
    if (model.adapted) base.push_back(found != initial.end() ? found->second.size() : 0);
  }
  SHOAL_ASSIGN_OR_RETURN(const StageMemory memory, StageMemory::Make(*config, model, base));
  for (const StageNeeds& need : memory.OfCuts(config->stage_first_layers)) {
    config->stage_bytes.push_back(need.least());
    config->micro_batch_bytes.push_back(need.micro_batch);
  }
  return Status::Ok();
}

Result<control::v1::ArtefactRef> KeepTensors(const storage::TensorMap& tensors,
                                             const std::string& name, const std::string& scratch,
                                             storage::ContentStore* content) {
  SHOAL_RETURN_IF_ERROR(MakeDirectories(scratch, 0700));
  const std::string path = scratch + "/" + name + ".safetensors";
  SHOAL_RETURN_IF_ERROR(storage::WritePart(path, tensors));
  auto kept = Keep(name, path, content);
  std::error_code error;
  std::filesystem::remove(path, error);
  return kept;
}

// `name`: of a part's trained tensors, or with model::kBaseSuffix of the others.
Result<control::v1::ArtefactRef> KeepPart(const storage::ModelDirectory& directory,
                                          const model::ModelSpec& model, const RunConfig& config,
                                          const std::string& name, storage::ContentStore* content) {
  const bool base = name.ends_with(model::kBaseSuffix);
  const std::string part = base ? name.substr(0, name.size() - model::kBaseSuffix.size()) : name;
  SHOAL_ASSIGN_OR_RETURN(const storage::TensorMap given, directory.Part(part));
  const std::string scratch = config.directory + "/tmp";
  if (base) {
    SHOAL_ASSIGN_OR_RETURN(const model::BasePart kept,
                           model::EncodeBase(model, part, given, config.base));
    return KeepTensors(kept.tensors, name, scratch, content);
  }
  const model::TrainedPart trained = model::BeginTraining(model, part, given, config.seed);
  return KeepTensors(trained.tensors, name, scratch, content);
}

Status KeepParts(const storage::ModelDirectory& directory, const RunConfig& config,
                 storage::ContentStore* content, RunArtefacts* artefacts) {
  for (const std::string& part : artefacts->model.PartNames()) {
    SHOAL_ASSIGN_OR_RETURN(const storage::TensorMap given, directory.Part(part));
    SHOAL_RETURN_IF_ERROR(storage::CheckFinite(given).WithContext(config.model));
    std::vector<std::string> names = {part};
    if (artefacts->model.adapted) names.push_back(part + std::string(model::kBaseSuffix));
    for (const std::string& name : names) {
      SHOAL_ASSIGN_OR_RETURN(artefacts->initial[name],
                             KeepPart(directory, artefacts->model, config, name, content));
    }
  }
  return Status::Ok();
}

// The model; `directory` stays empty where it has no weights.
Result<model::ModelSpec> ReadModel(const RunConfig& config,
                                   std::shared_ptr<const storage::ModelDirectory>* directory) {
  if (!config.without_weights) {
    SHOAL_ASSIGN_OR_RETURN(model::OpenedModel opened, model::OpenModel(config.model));
    *directory = std::move(opened.directory);
    return std::move(opened.spec);
  }
  const std::string path = config.model + "/config.json";
  SHOAL_ASSIGN_OR_RETURN(const std::string json, ReadFile(path, kConfigBytesMax));
  SHOAL_ASSIGN_OR_RETURN(model::ModelSpec model, model::ParseModelSpec(json, path));
  if (model.shared_by() == model::SharedBy::kNone) return model;
  return InvalidArgument(path +
                         ": a run without weights has stages that share nothing; take a model with "
                         "tie_word_embeddings = false, and none whose layers use one table");
}

Result<dataset::DataInfo> ReadData(const RunConfig& config) {
  SHOAL_ASSIGN_OR_RETURN(const auto data, dataset::OpenPreparedData(config.data));
  return data->info();
}

// `unread`: why model or data cannot be read. `fresh`: no run was here yet.
Result<RunOrigin> OriginFor(const RunConfig& config, const Status& unread, bool fresh) {
  Result<RunOrigin> origin = ReadOrigin(config.directory);
  if (origin.ok()) {
    SHOAL_LOG(kWarning, "scheduler", "origin.used", {"folder", config.directory + "/origin"},
              {"reason", unread.message()});
    return origin;
  }
  if (fresh && origin.status().code() == StatusCode::kNotFound) return unread;
  return Status(unread.code(),
                unread.message() +
                    "; nor is what the run keeps of model and data: " + origin.status().message() +
                    "; put model and data back, or " + config.directory + "/origin");
}

// The parts themselves are in the content store, or asked of the peers.
Status TakeModel(const RunOrigin& origin, RunArtefacts* artefacts) {
  const std::string path = origin.model_folder + "/config.json";
  SHOAL_ASSIGN_OR_RETURN(const std::string json, ReadFile(path, kConfigBytesMax));
  SHOAL_ASSIGN_OR_RETURN(artefacts->model, model::ParseModelSpec(json, path));
  artefacts->model_folder = origin.model_folder;
  for (const std::string& file : origin.model_files) {
    if (file != path) artefacts->tokenizer_files.push_back(file);
  }
  for (const auto& [name, artefact] : origin.artefacts) {
    if (name != "data") artefacts->initial[name] = artefact;
  }
  return Status::Ok();
}

}  // namespace

Status CheckAgainstModel(const RunConfig& config) {
  std::shared_ptr<const storage::ModelDirectory> directory;
  const auto model = ReadModel(config, &directory);
  if (!model.ok()) return Status::Ok();
  RunConfig cut = config;
  SHOAL_RETURN_IF_ERROR(SetCuts(*model, &cut));
  return CheckCodecs(config, *model);
}

storage::DeltaSize DeltaSizeOf(const RunConfig& config, const model::ModelSpec& model,
                               const dataset::DataInfo& data) {
  const auto forward = compression::MakeCodec(config.forward, model.hidden);
  const auto backward = compression::MakeCodec(config.backward, model.hidden);
  const compression::SampleShape shape{data.row_tokens, model.hidden};
  storage::DeltaImages sample;
  for (const auto& codec : {forward, backward}) {
    if (!codec.ok() || !(*codec)->keeps_m()) continue;
    sample.m += compression::KeptBytes(**codec, shape, config.micro_batch_rows);
  }
  if (backward.ok() && (*backward)->keeps_residual()) {
    sample.residual = compression::KeptBytes(**backward, shape, config.micro_batch_rows);
  }
  // The first pipeline has the most samples.
  return storage::ComputeDeltaSize(
      sample, data.train_rows,
      dataset::SamplesOfPipeline(data.train_rows, config.micro_batches, 0, config.pipelines),
      config.stages);
}

Result<storage::DeltaSize> ReadDeltaSize(const RunConfig& config) {
  std::shared_ptr<const storage::ModelDirectory> directory;
  SHOAL_ASSIGN_OR_RETURN(const model::ModelSpec model, ReadModel(config, &directory));
  SHOAL_RETURN_IF_ERROR(CheckCodecs(config, model));
  SHOAL_ASSIGN_OR_RETURN(const auto data, dataset::OpenPreparedData(config.data));
  SHOAL_RETURN_IF_ERROR(
      CheckData(config, model, data->info(),
                directory && !directory->TokenizerFiles().empty() ? config.model : ""));
  return DeltaSizeOf(config, model, data->info());
}

std::string DescribeDeltaSize(const RunConfig& config, const storage::DeltaSize& size) {
  if (size.all_bytes == 0) return "";
  const auto files = [](storage::StoreSpace space, std::uint64_t bytes) {
    return FormatBytes(storage::DeltaDiskBytesMax(space, bytes));
  };
  std::string kept;
  if (size.boundary_bytes > 0) {
    std::string specs;
    for (const std::string& spec : {config.forward, config.backward}) {
      const auto traits = compression::TraitsOf(spec);
      if (traits.ok() && traits->keeps_m) specs += (specs.empty() ? "" : " and ") + spec;
    }
    kept = "m of " + specs + ": " + FormatBytes(size.sample.m) + " per sample, " +
           FormatBytes(size.boundary_bytes) + " at each end of a boundary\n";
  }
  if (size.residual_bytes > 0) {
    kept += "residual of " + config.backward + ": " + FormatBytes(size.sample.residual) +
            " per sample, " + FormatBytes(size.residual_bytes) +
            " at the upper end of a boundary\n";
  }
  return kept + FormatBytes(size.all_bytes) + " in all; a peer keeps up to " +
         FormatBytes(size.middle_bytes) + ", in files of up to " +
         files(storage::StoreSpace::kDefault, size.middle_bytes) + " (" +
         files(storage::StoreSpace::kTight, size.middle_bytes) +
         " with store.space = \"tight\"); m that its limits.delta_store has no room for travels as "
         "first visits\n";
}

Result<std::string> DescribeStages(const RunConfig& given, std::uint64_t memory_bytes) {
  if (given.without_weights) return std::string();
  RunConfig config = given;
  std::shared_ptr<const storage::ModelDirectory> directory;
  SHOAL_ASSIGN_OR_RETURN(model::ModelSpec model, ReadModel(config, &directory));
  SHOAL_ASSIGN_OR_RETURN(const auto data, dataset::OpenPreparedData(config.data));
  config.row_tokens = data->info().row_tokens;
  SHOAL_RETURN_IF_ERROR(SetAdapter(&config, &model));
  SHOAL_RETURN_IF_ERROR(SetShared(model, &config));
  SHOAL_RETURN_IF_ERROR(SetCuts(model, &config));
  std::vector<std::uint64_t> base;
  for (const std::string& part : model.PartNames()) {
    if (!model.adapted) break;
    SHOAL_ASSIGN_OR_RETURN(const storage::TensorMap tensors, directory->Part(part));
    SHOAL_ASSIGN_OR_RETURN(base.emplace_back(),
                           model::BaseBytes(model, part, tensors, config.base));
  }
  SHOAL_ASSIGN_OR_RETURN(const StageMemory memory, StageMemory::Make(config, model, base));
  return DescribeStageMemory(config, memory, memory_bytes);
}

namespace {

// Of a run with several pipelines.
Result<replica::ReplicaCase> ReplicaCaseOf(const RunConfig& config, const ReplicaNeeds& needs) {
  if (needs.link.value == 0) return InvalidArgument("--link must be a rate, like 100mbit");
  if (needs.step <= Duration::zero()) return InvalidArgument("--step must be a time, like 30s");
  std::shared_ptr<const storage::ModelDirectory> directory;
  SHOAL_ASSIGN_OR_RETURN(model::ModelSpec model, ReadModel(config, &directory));
  RunConfig cut = config;
  SHOAL_RETURN_IF_ERROR(SetAdapter(&cut, &model));
  SHOAL_RETURN_IF_ERROR(SetCuts(model, &cut));
  replica::ReplicaCase run;
  for (std::uint32_t stage = 0; stage < config.stages; ++stage) {
    run.largest_unit =
        std::max(run.largest_unit, LargestUnit(model, stage == 0 || stage + 1 == config.stages));
    run.values =
        std::max(run.values, model.TrainedParametersOf(cut.stage_first_layers[stage],
                                                       cut.stage_first_layers[stage + 1],
                                                       stage == 0, stage + 1 == config.stages));
  }
  run.pipelines = config.pipelines;
  run.bits_per_second = static_cast<double>(needs.link.value);
  run.step_seconds = std::chrono::duration<double>(needs.step).count();
  run.memory_bytes = needs.memory_bytes;
  run.bf16 = config.compute != "fp32";  // which takes more
  return run;
}

}  // namespace

Result<std::string> DescribeReplica(const RunConfig& config, const ReplicaNeeds& needs) {
  if (config.pipelines < 2 || config.without_weights) return std::string();
  SHOAL_ASSIGN_OR_RETURN(const replica::ReplicaCase run, ReplicaCaseOf(config, needs));
  return replica::DescribeReplicaOffers(run, FormatRate(needs.link));
}

Result<std::string> SuggestReplica(const RunConfig& config, const ReplicaNeeds& needs) {
  if (config.pipelines < 2) return RunConfig().replica_method;
  SHOAL_ASSIGN_OR_RETURN(const replica::ReplicaCase run, ReplicaCaseOf(config, needs));
  const replica::ReplicaSuggestion best = replica::SuggestReplica(run, replica::ReplicaOffers(run));
  if (best.method.empty()) return NotFound("no replica method fits: " + best.reason);
  return best.method;
}

Status MakeArtefactAgain(const RunConfig& config, const RunArtefacts& artefacts,
                         const storage::ContentHash& hash, storage::ContentStore* content) {
  const auto found =
      std::find_if(artefacts.initial.begin(), artefacts.initial.end(),
                   [&](const auto& entry) { return FromProto(entry.second).hash == hash; });
  if (found == artefacts.initial.end()) return NotFound("no artefact of the fresh model");
  control::v1::ArtefactRef made;
  if (found->first == "data") {
    SHOAL_ASSIGN_OR_RETURN(made, Keep("data", config.data, content));
  } else {
    SHOAL_ASSIGN_OR_RETURN(const model::OpenedModel opened, model::OpenModel(config.model));
    SHOAL_ASSIGN_OR_RETURN(
        made, KeepPart(*opened.directory, artefacts.model, config, found->first, content));
  }
  if (FromProto(made).hash == hash) return Status::Ok();
  return FailedPrecondition((found->first == "data" ? config.data : config.model) +
                            " has changed since the run began: " + found->first +
                            " made of it is another");
}

Result<RunArtefacts> MakeRunArtefacts(storage::ContentStore* content, RunConfig* config) {
  RunArtefacts artefacts;
  std::shared_ptr<const storage::ModelDirectory> directory;
  const Result<model::ModelSpec> model = ReadModel(*config, &directory);
  const Result<dataset::DataInfo> data = ReadData(*config);
  RunOrigin origin;
  if (!model.ok() || !data.ok()) {
    SHOAL_ASSIGN_OR_RETURN(origin, OriginFor(*config, model.ok() ? data.status() : model.status(),
                                             content->Hashes().empty()));
    artefacts.from_origin = true;
  }
  if (model.ok()) {
    artefacts.model = *model;
    artefacts.model_folder = config->model;
    if (directory) {
      artefacts.tokenizer_files = directory->TokenizerFiles();
      for (const std::string& note : model::NotesOn(*directory)) {
        SHOAL_LOG(kWarning, "scheduler", "model.note", {"model", config->model}, {"note", note});
      }
    }
  } else {
    SHOAL_RETURN_IF_ERROR(TakeModel(origin, &artefacts));
  }
  artefacts.data = data.ok() ? *data : origin.data;
  SHOAL_RETURN_IF_ERROR(SetAdapter(config, &artefacts.model));
  config->model_config_json = artefacts.model.json;
  config->layers = artefacts.model.layers();
  config->row_tokens = artefacts.data.row_tokens;
  config->segmented_rows = artefacts.data.segmented;
  SHOAL_RETURN_IF_ERROR(SetShared(artefacts.model, config));
  config->train_rows = artefacts.data.train_rows;
  config->validation_rows = artefacts.data.validation_rows;
  SHOAL_RETURN_IF_ERROR(SetCuts(artefacts.model, config));
  SHOAL_RETURN_IF_ERROR(CheckData(*config, artefacts.model, artefacts.data,
                                  artefacts.tokenizer_files.empty() ? "" : artefacts.model_folder));
  SHOAL_RETURN_IF_ERROR(CheckCodecs(*config, artefacts.model));
  artefacts.without_weights = config->without_weights;
  if (directory) SHOAL_RETURN_IF_ERROR(KeepParts(*directory, *config, content, &artefacts));
  SHOAL_RETURN_IF_ERROR(SetStageBytes(artefacts.model, artefacts.initial, config));
  if (data.ok()) {
    SHOAL_ASSIGN_OR_RETURN(artefacts.initial["data"], Keep("data", config->data, content));
  } else {
    artefacts.initial["data"] = origin.artefacts["data"];
  }
  return artefacts;
}

RunOrigin OriginOf(const RunArtefacts& artefacts) {
  RunOrigin origin;
  origin.model_folder = artefacts.model_folder;
  origin.model_files = artefacts.tokenizer_files;
  origin.model_files.push_back(artefacts.model_folder + "/config.json");
  origin.artefacts = artefacts.initial;
  origin.data = artefacts.data;
  return origin;
}

}  // namespace shoal::scheduler
