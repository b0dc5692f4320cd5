#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>

#include "dataset/prepared_data.h"
#include "dataset/tokenizer.h"
#include "model/classification_scores.h"
#include "model/families/open_model.h"
#include "model/run/commands.h"

namespace shoal::model {
namespace {

struct Evaluation {
  std::uint64_t rows = 0;
  StepLoss loss;
  std::optional<ClassificationScores> scores;  // of a classifier
  double mean() const { return loss.sum / static_cast<double>(loss.labels); }
};

Status CheckKind(const EvalOptions& options, const dataset::DataInfo& info, const ModelSpec& spec) {
  const bool classes = info.kind == dataset::DataKind::kClasses;
  if (classes != (spec.classes() > 0)) {
    return InvalidArgument(options.data + (classes ? " has classes" : " has no classes") +
                           " for its rows, " + options.run.model +
                           (classes ? " is a language model" : " is a classifier") +
                           "; take a model and data that belong together");
  }
  if (info.classes > spec.classes()) {
    return InvalidArgument(options.data + " has " + std::to_string(info.classes) +
                           " classes, the model only " + std::to_string(spec.classes()) +
                           "; set num_labels in its config.json and train it first");
  }
  if (info.typed && spec.token_types() == 1) {
    return InvalidArgument(options.data + " marks second texts with the token type 1, which " +
                           options.run.model +
                           " does not have; prepare the texts with its own tokenizer");
  }
  return Status::Ok();
}

// The data must have been cut with the model's own tokenizer, where the model brings one.
Status CheckData(const EvalOptions& options, const dataset::DataInfo& info,
                 const StageModel& model) {
  SHOAL_RETURN_IF_ERROR(CheckKind(options, info, model.spec()));
  SHOAL_ASSIGN_OR_RETURN(const OpenedModel opened, OpenModel(options.run.model));
  const std::string advice = "; prepare the text again with --tokenizer " + options.run.model;
  if (!opened.directory->TokenizerFiles().empty()) {
    SHOAL_ASSIGN_OR_RETURN(const auto tokenizer, dataset::LoadTokenizer(options.run.model));
    if (tokenizer->fingerprint() != info.tokenizer_fingerprint) {
      return InvalidArgument(options.data + " was prepared with another tokenizer than that of " +
                             options.run.model + advice);
    }
  }
  if (info.vocabulary > model.spec().vocabulary) {
    return InvalidArgument(options.data + " has a vocabulary of " +
                           std::to_string(info.vocabulary) + ", the model knows " +
                           std::to_string(model.spec().vocabulary) + advice);
  }
  if (info.row_tokens > model.spec().positions) {
    return InvalidArgument(options.data + " has rows of " + std::to_string(info.row_tokens) +
                           " tokens, the model has " + std::to_string(model.spec().positions) +
                           " positions; prepare the text again with shorter rows");
  }
  return Status::Ok();
}

Status AddScores(const MicroBatch& batch, StageModel* model, Evaluation* evaluation) {
  const std::uint32_t classes = model->spec().classes();
  std::vector<float> logits(std::size_t{batch.rows} * classes);
  SHOAL_RETURN_IF_ERROR(model->Logits(batch, false, logits));
  for (std::size_t row = 0; row < batch.rows; ++row) {
    const std::int32_t label = batch.labels[row * batch.tokens];
    if (label == kIgnoredLabel) continue;
    if (label < 0 || static_cast<std::uint32_t>(label) >= classes) {
      return InvalidArgument("a row has class " + std::to_string(label) + ", the model has " +
                             std::to_string(classes));
    }
    const auto scores = std::span<const float>(logits).subspan(row * classes, classes);
    const auto wanted = static_cast<std::uint32_t>(label);
    evaluation->scores->Add(wanted, Prediction(scores));
    evaluation->loss.sum += CrossEntropy(scores, wanted);
    ++evaluation->loss.labels;
  }
  return Status::Ok();
}

Status AddLoss(const MicroBatch& batch, StageModel* model, Evaluation* evaluation) {
  StepLoss loss;
  SHOAL_RETURN_IF_ERROR(model->Evaluate(batch, {}, &loss));
  evaluation->loss.sum += loss.sum;
  evaluation->loss.labels += loss.labels;
  return Status::Ok();
}

Result<Evaluation> Evaluate(const EvalOptions& options, const dataset::PreparedData& data,
                            StageModel* model) {
  const dataset::DataInfo& info = data.info();
  const bool train = options.split == "train";
  const std::uint64_t first = train ? 0 : info.train_rows;
  std::uint64_t rows = train ? info.train_rows : info.validation_rows;
  if (options.max_rows > 0) rows = std::min(rows, options.max_rows);
  if (rows == 0) {
    return FailedPrecondition(options.data + " has no " + options.split +
                              " rows; choose the other --split");
  }
  Evaluation evaluation;
  if (model->spec().classes() > 0) evaluation.scores.emplace(model->spec().classes());
  const bool terminal = isatty(STDERR_FILENO) == 1;
  while (evaluation.rows < rows) {
    const std::uint64_t count = std::min<std::uint64_t>(options.rows, rows - evaluation.rows);
    MicroBatch batch;
    batch.rows = static_cast<std::uint32_t>(count);
    batch.tokens = info.row_tokens;
    std::vector<std::int32_t> ids;
    std::vector<std::int32_t> labels;
    std::vector<std::int32_t> segments;
    std::vector<std::uint32_t> type_borders;
    for (std::uint64_t i = 0; i < count; ++i) {
      batch.samples.push_back({first + evaluation.rows + i});
      SHOAL_RETURN_IF_ERROR(data.AppendRow(batch.samples.back(), &ids, &labels, &segments));
      if (info.typed) type_borders.push_back(data.TypeBorder(batch.samples.back()));
    }
    batch.token_ids = ids;
    batch.labels = labels;
    batch.segments = segments;
    batch.type_borders = type_borders;
    SHOAL_RETURN_IF_ERROR(evaluation.scores ? AddScores(batch, model, &evaluation)
                                            : AddLoss(batch, model, &evaluation));
    evaluation.rows += count;
    if (terminal) {
      std::fprintf(stderr, "\revaluated %llu of %llu rows",
                   static_cast<unsigned long long>(evaluation.rows),
                   static_cast<unsigned long long>(rows));
    }
  }
  if (terminal) std::fputc('\n', stderr);
  if (evaluation.loss.labels == 0) {
    return FailedPrecondition(options.data + " has no labels in its " + options.split + " rows");
  }
  return evaluation;
}

void PrintJson(const EvalOptions& options, const Evaluation& evaluation,
               const std::string& device) {
  nlohmann::ordered_json json = {
      {"schemaVersion", 1}, {"split", options.split}, {"rows", evaluation.rows}};
  if (!evaluation.scores) json["tokens"] = evaluation.loss.labels;
  json["meanLoss"] = evaluation.mean();
  if (evaluation.scores) {
    json["accuracy"] = evaluation.scores->Accuracy();
    json["matthewsCorrelation"] = evaluation.scores->MatthewsCorrelation();
  } else {
    json["perplexity"] = std::exp(evaluation.mean());
  }
  json["device"] = device;
  std::printf("%s\n", json.dump().c_str());
}

void Print(const EvalOptions& options, const Evaluation& evaluation, const std::string& device) {
  if (options.run.json) return PrintJson(options, evaluation, device);
  std::printf("split       %s\nrows        %llu\n", options.split.c_str(),
              static_cast<unsigned long long>(evaluation.rows));
  if (evaluation.scores) {
    std::printf("mean loss   %.6f\naccuracy    %.4f\nMatthews    %.4f\n", evaluation.mean(),
                evaluation.scores->Accuracy(), evaluation.scores->MatthewsCorrelation());
    return;
  }
  std::printf("tokens      %llu\nmean loss   %.6f\nperplexity  %.4f\n",
              static_cast<unsigned long long>(evaluation.loss.labels), evaluation.mean(),
              std::exp(evaluation.mean()));
}

}  // namespace

RunResult RunEval(const EvalOptions& options) {
  const auto data = dataset::OpenPreparedData(options.data);
  if (!data.ok()) return RunResult::BadInput(data.status());
  const auto model = OpenWholeModel(options.run);
  if (!model.ok()) return RunResult::BadInput(model.status());
  if (Status status = CheckData(options, (*data)->info(), **model); !status.ok()) {
    return RunResult::BadInput(status);
  }
  const auto evaluation = Evaluate(options, **data, model->get());
  if (!evaluation.ok()) return RunResult::Failure(evaluation.status());
  Print(options, *evaluation, (*model)->device_name());
  return {};
}

}  // namespace shoal::model
