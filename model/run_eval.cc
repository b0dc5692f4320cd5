#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "dataset/prepared_data.h"
#include "dataset/tokenizer.h"
#include "model/families/open_model.h"
#include "model/run_commands.h"

namespace shoal::model {
namespace {

struct Evaluation {
  std::uint64_t rows = 0;
  StepLoss loss;
  double mean() const { return loss.sum / static_cast<double>(loss.labels); }
};

// The data must have been cut with the model's own tokenizer, where the model brings one.
Status CheckData(const EvalOptions& options, const dataset::DataInfo& info,
                 const StageModel& model) {
  SHOAL_ASSIGN_OR_RETURN(const OpenedModel opened, OpenModel(options.run.model));
  const std::string advice = "; prepare the text again with --tokenizer " + options.run.model;
  if (!opened.directory->TokenizerFiles().empty()) {
    const auto tokenizer = dataset::LoadTokenizer(options.run.model);
    if (tokenizer.ok() && (*tokenizer)->fingerprint() != info.tokenizer_fingerprint) {
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
  const bool terminal = isatty(STDERR_FILENO) == 1;
  while (evaluation.rows < rows) {
    const std::uint64_t count = std::min<std::uint64_t>(options.rows, rows - evaluation.rows);
    MicroBatch batch;
    batch.rows = static_cast<std::uint32_t>(count);
    batch.tokens = info.row_tokens;
    std::vector<std::int32_t> ids;
    std::vector<std::int32_t> labels;
    std::vector<std::int32_t> segments;
    for (std::uint64_t i = 0; i < count; ++i) {
      batch.samples.push_back({first + evaluation.rows + i});
      SHOAL_RETURN_IF_ERROR(data.AppendRow(batch.samples.back(), &ids, &labels, &segments));
    }
    batch.token_ids = ids;
    batch.labels = labels;
    StepLoss loss;
    SHOAL_RETURN_IF_ERROR(model->Evaluate(batch, {}, &loss));
    evaluation.loss.sum += loss.sum;
    evaluation.loss.labels += loss.labels;
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
  const double mean = evaluation->mean();
  if (options.run.json) {
    const nlohmann::ordered_json json = {{"schemaVersion", 1},
                                         {"split", options.split},
                                         {"rows", evaluation->rows},
                                         {"tokens", evaluation->loss.labels},
                                         {"meanLoss", mean},
                                         {"perplexity", std::exp(mean)},
                                         {"device", (*model)->device_name()}};
    std::printf("%s\n", json.dump().c_str());
  } else {
    std::printf("split       %s\nrows        %llu\ntokens      %llu\nmean loss   %.6f\n",
                options.split.c_str(), static_cast<unsigned long long>(evaluation->rows),
                static_cast<unsigned long long>(evaluation->loss.labels), mean);
    std::printf("perplexity  %.4f\n", std::exp(mean));
  }
  return {};
}

}  // namespace shoal::model
