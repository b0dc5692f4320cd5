#include <algorithm>
#include <cstdio>
#include <exception>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "dataset/tokenizer.h"
#include "model/run/commands.h"
#include "model/token_sampling.h"

namespace shoal::model {
namespace {

struct TextModel {
  std::unique_ptr<StageModel> stage;
  std::unique_ptr<dataset::Tokenizer> tokenizer;
};

Result<TextModel> OpenTextModel(const RunOptions& options) {
  TextModel model;
  SHOAL_ASSIGN_OR_RETURN(model.stage, OpenWholeModel(options));
  if (model.stage->spec().classes() > 0) {
    return InvalidArgument(
        options.model +
        " is a classifier, which has no next token; see what it does on prepared "
        "data with shoal eval");
  }
  SHOAL_ASSIGN_OR_RETURN(model.tokenizer, dataset::LoadTokenizer(options.model));
  if (model.tokenizer->vocabulary() > model.stage->spec().vocabulary) {
    return InvalidArgument(
        options.model + ": the tokenizer has " + std::to_string(model.tokenizer->vocabulary()) +
        " tokens, the model only " + std::to_string(model.stage->spec().vocabulary));
  }
  return model;
}

MicroBatch OneRow(std::span<const std::int32_t> ids) {
  MicroBatch batch;
  batch.rows = 1;
  batch.tokens = static_cast<std::uint32_t>(ids.size());
  batch.samples = {SampleId{0}};
  batch.token_ids = ids;
  return batch;
}

// Text as JSON can carry it: a token may end in the middle of a character.
std::string Dump(const nlohmann::ordered_json& json) {
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

// Extends `*ids` by one token; the window of the last `positions` ids slides.
Result<std::int32_t> NextToken(const GenerateOptions& options, const TextModel& model,
                               std::span<const std::int32_t> ids) {
  const ModelSpec& spec = model.stage->spec();
  const std::size_t window = std::min<std::size_t>(ids.size(), spec.positions);
  std::vector<float> logits(spec.vocabulary);
  SHOAL_RETURN_IF_ERROR(model.stage->Logits(OneRow(ids.last(window)), true, logits));
  // A model's vocabulary may be padded beyond the tokenizer's.
  const std::size_t known = model.tokenizer->vocabulary();
  return SampleToken(std::span<const float>(logits).first(known), options.temperature,
                     options.top_k, options.seed, ids.size());
}

Result<std::vector<std::int32_t>> IdsOf(const TextModel& model, const std::string& text) {
  std::vector<std::int32_t> ids;
  try {
    model.tokenizer->Encode(text, &ids);
  } catch (const std::exception& error) {
    return InvalidArgument(std::string("the text cannot be made into tokens: ") + error.what());
  }
  return ids;
}

Status Generate(const GenerateOptions& options, const TextModel& model) {
  std::vector<std::int32_t> ids = model.tokenizer->wrapping().before;
  SHOAL_ASSIGN_OR_RETURN(const std::vector<std::int32_t> prompt, IdsOf(model, options.prompt));
  ids.insert(ids.end(), prompt.begin(), prompt.end());
  if (ids.empty()) {
    if (!model.tokenizer->end_of_text()) {
      return InvalidArgument(
          "the prompt is empty and the tokenizer has no end token to begin with; give a --prompt");
    }
    ids.push_back(*model.tokenizer->end_of_text());
  }
  const std::size_t prompt_ids = ids.size();
  if (!options.run.json) std::printf("%s", options.prompt.c_str());
  while (ids.size() < prompt_ids + options.tokens) {
    SHOAL_ASSIGN_OR_RETURN(const std::int32_t next, NextToken(options, model, ids));
    if (model.tokenizer->end_of_text() == next) break;
    ids.push_back(next);
    if (options.run.json) continue;
    SHOAL_ASSIGN_OR_RETURN(const std::string piece,
                           dataset::DecodeBehind(*model.tokenizer, ids, ids.size() - 1));
    std::fwrite(piece.data(), 1, piece.size(), stdout);
    std::fflush(stdout);
  }
  if (!options.run.json) {
    std::printf("\n");
    return Status::Ok();
  }
  const std::span<const std::int32_t> made = std::span<const std::int32_t>(ids).subspan(prompt_ids);
  SHOAL_ASSIGN_OR_RETURN(const std::string text,
                         dataset::DecodeBehind(*model.tokenizer, ids, prompt_ids));
  std::printf("%s\n", Dump({{"schemaVersion", 1},
                            {"prompt", options.prompt},
                            {"text", text},
                            {"ids", std::vector<std::int32_t>(made.begin(), made.end())}})
                          .c_str());
  return Status::Ok();
}

Status PrintLogits(const LogitsOptions& options, const TextModel& model) {
  SHOAL_ASSIGN_OR_RETURN(const std::vector<std::int32_t> ids, IdsOf(model, options.text));
  const ModelSpec& spec = model.stage->spec();
  if (ids.empty() || ids.size() > spec.positions) {
    return InvalidArgument("the text has " + std::to_string(ids.size()) +
                           " tokens; the model takes 1 to " + std::to_string(spec.positions));
  }
  std::vector<float> logits(ids.size() * spec.vocabulary);
  SHOAL_RETURN_IF_ERROR(model.stage->Logits(OneRow(ids), false, logits));
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const auto row = std::span<const float>(logits).subspan(i * spec.vocabulary, spec.vocabulary);
    if (options.run.json) {
      rows.push_back(std::vector<float>(row.begin(), row.end()));
      continue;
    }
    const std::int32_t best = SampleToken(row, 0, 0, 0, 0);
    std::printf("%zu: id %d, most probable next %d with logit %.6f\n", i, ids[i], best,
                static_cast<double>(row[static_cast<std::size_t>(best)]));
  }
  if (options.run.json) {
    std::printf("%s\n", Dump({{"schemaVersion", 1}, {"ids", ids}, {"logits", rows}}).c_str());
  }
  return Status::Ok();
}

}  // namespace

RunResult RunGenerate(const GenerateOptions& options) {
  const auto model = OpenTextModel(options.run);
  if (!model.ok()) return RunResult::BadInput(model.status());
  if (Status status = Generate(options, *model); !status.ok()) return RunResult::Failure(status);
  return {};
}

RunResult RunLogits(const LogitsOptions& options) {
  const auto model = OpenTextModel(options.run);
  if (!model.ok()) return RunResult::BadInput(model.status());
  if (Status status = PrintLogits(options, *model); !status.ok()) {
    return RunResult::Failure(status);
  }
  return {};
}

}  // namespace shoal::model
