#include <cstdio>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dataset/stop_tokens.h"
#include "model/run/commands.h"
#include "model/run/json_text-inl.h"
#include "model/run/terminal.h"
#include "model/run/text_model.h"
#include "model/token_sampling.h"

namespace shoal::model {
namespace {

MicroBatch OneRow(std::span<const std::int32_t> ids) {
  MicroBatch batch;
  batch.rows = 1;
  batch.tokens = static_cast<std::uint32_t>(ids.size());
  batch.samples = {SampleId{0}};
  batch.token_ids = ids;
  return batch;
}

Status Continue(const GenerateOptions& options, const TextModel& model) {
  SHOAL_ASSIGN_OR_RETURN(std::vector<std::int32_t> ids,
                         IdsToContinue(*model.tokenizer, options.prompt));
  const std::size_t prompt_ids = ids.size();
  if (!options.run.json) std::printf("%s", options.prompt.c_str());
  GenerationLimits limits;
  limits.slide = true;
  SHOAL_ASSIGN_OR_RETURN(const std::vector<std::int32_t> stop,
                         dataset::LoadStopTokens(options.run.model, *model.tokenizer));
  limits.stop = stop;
  const auto show = [&](std::string_view piece) {
    if (!options.run.json) WritePiece(piece);
    return true;
  };
  SHOAL_RETURN_IF_ERROR(Generate(model, options.sampling, limits, &ids, show).status());
  if (!options.run.json) {
    std::printf("\n");
    return Status::Ok();
  }
  const auto made = std::span<const std::int32_t>(ids).subspan(prompt_ids);
  SHOAL_ASSIGN_OR_RETURN(const std::string text,
                         dataset::DecodeBehind(*model.tokenizer, ids, prompt_ids));
  std::printf("%s\n", JsonText({{"schemaVersion", 1},
                                {"prompt", options.prompt},
                                {"text", text},
                                {"ids", std::vector<std::int32_t>(made.begin(), made.end())}})
                          .c_str());
  return Status::Ok();
}

Status PrintLogits(const LogitsOptions& options, const TextModel& model) {
  SHOAL_ASSIGN_OR_RETURN(const std::vector<std::int32_t> ids,
                         IdsOf(*model.tokenizer, options.text));
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
    std::printf("%s\n", JsonText({{"schemaVersion", 1}, {"ids", ids}, {"logits", rows}}).c_str());
  }
  return Status::Ok();
}

}  // namespace

RunResult RunGenerate(const GenerateOptions& options) {
  const auto model = OpenTextModel(options.run);
  if (!model.ok()) return RunResult::BadInput(model.status());
  if (Status status = Continue(options, *model); !status.ok()) return RunResult::Failure(status);
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
