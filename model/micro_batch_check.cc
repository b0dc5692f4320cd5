#include "model/micro_batch_check.h"

#include <algorithm>

#include "model/blocks/row_segments.h"

namespace shoal::model {
namespace {

Status CheckRange(std::string_view what, std::span<const std::int32_t> ids,
                  std::uint32_t vocabulary, bool ignorable) {
  for (std::int32_t id : ids) {
    if (ignorable && id == kIgnoredLabel) continue;
    if (id < 0 || static_cast<std::uint32_t>(id) >= vocabulary) {
      return InvalidArgument(std::string(what) + " " + std::to_string(id) +
                             " is outside the vocabulary of " + std::to_string(vocabulary) +
                             "; was the data prepared with this model's tokenizer?");
    }
  }
  return Status::Ok();
}

// A class at the first token of a row, and none elsewhere.
Status CheckClasses(const ModelSpec& spec, const MicroBatch& micro_batch) {
  const std::string name = NameOf(micro_batch.id);
  for (std::size_t i = 0; i < micro_batch.labels.size(); ++i) {
    const std::int32_t label = micro_batch.labels[i];
    if (label == kIgnoredLabel) continue;
    const std::string where = name + ": label " + std::to_string(label);
    if (i % micro_batch.tokens != 0) {
      return InvalidArgument(where +
                             " is not at the first token of a row, as a class is; was the "
                             "data prepared for classification?");
    }
    if (label < 0 || static_cast<std::uint32_t>(label) >= spec.classes()) {
      return InvalidArgument(where + " is none of the model's " + std::to_string(spec.classes()) +
                             " classes; set num_labels in config.json to those of the data");
    }
  }
  return Status::Ok();
}

Status CheckSegments(const ModelSpec& spec, const MicroBatch& micro_batch) {
  if (micro_batch.segments.empty()) return Status::Ok();
  const std::string name = NameOf(micro_batch.id);
  const std::size_t tokens = micro_batch.tokens;
  SHOAL_RETURN_IF_ERROR(
      CheckSize(name + ": segments", micro_batch.segments.size(), micro_batch.rows * tokens));
  for (std::size_t i = 0; i < micro_batch.segments.size() && spec.classes() > 0; i += tokens) {
    if (micro_batch.segments[i] >= 0) continue;
    return InvalidArgument(name + ": row " + std::to_string(i / tokens) +
                           " begins with padding, where a classifier looks at its first token");
  }
  return FindSegments(micro_batch.segments, micro_batch.tokens).status().WithContext(name);
}

Status CheckTypes(const ModelSpec& spec, const MicroBatch& micro_batch) {
  if (micro_batch.type_borders.empty()) return Status::Ok();
  const std::string name = NameOf(micro_batch.id);
  SHOAL_RETURN_IF_ERROR(
      CheckSize(name + ": type borders", micro_batch.type_borders.size(), micro_batch.rows));
  for (const std::uint32_t border : micro_batch.type_borders) {
    if (border > micro_batch.tokens) {
      return InvalidArgument(name + ": token types begin at " + std::to_string(border) +
                             " of a row of " + std::to_string(micro_batch.tokens) + " tokens");
    }
    if (border < micro_batch.tokens && spec.token_types() == 1) {
      return InvalidArgument(
          name +
          " has token types, which the model does not have; was the data prepared "
          "with this model's tokenizer?");
    }
  }
  return Status::Ok();
}

}  // namespace

std::string NameOf(MicroBatchId id) {
  return "micro-batch " + std::to_string(id.step) + "/" + std::to_string(id.index);
}

Status CheckSize(std::string_view what, std::size_t have, std::size_t want) {
  if (have == want) return Status::Ok();
  return InvalidArgument(std::string(what) + " has " + std::to_string(have) + " values, wanted " +
                         std::to_string(want));
}

Status CheckMicroBatch(const ModelSpec& spec, StageEnds ends, const MicroBatch& micro_batch,
                       bool labels) {
  const std::string name = NameOf(micro_batch.id);
  if (micro_batch.rows == 0 || micro_batch.tokens == 0) {
    return InvalidArgument(name + " is empty");
  }
  if (micro_batch.tokens > spec.positions) {
    return InvalidArgument(name + " has rows of " + std::to_string(micro_batch.tokens) +
                           " tokens, the model has " + std::to_string(spec.positions) +
                           " positions; prepare the data with shorter rows");
  }
  const std::size_t tokens_in_all = std::size_t{micro_batch.rows} * micro_batch.tokens;
  SHOAL_RETURN_IF_ERROR(
      CheckSize(name + ": samples", micro_batch.samples.size(), micro_batch.rows));
  if (ends.first) {
    SHOAL_RETURN_IF_ERROR(
        CheckSize(name + ": token ids", micro_batch.token_ids.size(), tokens_in_all));
    SHOAL_RETURN_IF_ERROR(
        CheckRange(name + ": token id", micro_batch.token_ids, spec.vocabulary, false));
    SHOAL_RETURN_IF_ERROR(CheckTypes(spec, micro_batch));
  } else {
    SHOAL_RETURN_IF_ERROR(
        CheckSize(name + ": input", micro_batch.input.size(), tokens_in_all * spec.hidden));
  }
  SHOAL_RETURN_IF_ERROR(CheckSegments(spec, micro_batch));
  if (!ends.last || !labels) return Status::Ok();
  SHOAL_RETURN_IF_ERROR(CheckSize(name + ": labels", micro_batch.labels.size(), tokens_in_all));
  if (spec.classes() > 0) return CheckClasses(spec, micro_batch);
  return CheckRange(name + ": label", micro_batch.labels, spec.vocabulary, true);
}

Status CheckOutput(const ModelSpec& spec, StageEnds ends, const MicroBatch& micro_batch,
                   std::size_t output_values, const StepLoss* loss) {
  const std::string name = NameOf(micro_batch.id);
  if (ends.last && loss == nullptr) return InvalidArgument(name + ": no place for the loss");
  const std::size_t tokens_in_all = std::size_t{micro_batch.rows} * micro_batch.tokens;
  return CheckSize(name + ": output", output_values, ends.last ? 0 : tokens_in_all * spec.hidden);
}

std::uint32_t LogitsOf(const ModelSpec& spec) {
  return spec.classes() > 0 ? spec.classes() : spec.vocabulary;
}

StepLoss LossOf(const MicroBatch& micro_batch, double sum) {
  const auto ignored =
      std::count(micro_batch.labels.begin(), micro_batch.labels.end(), kIgnoredLabel);
  return {sum, micro_batch.labels.size() - static_cast<std::size_t>(ignored)};
}

Status CheckOptions(const ModelSpec& spec, const StageOptions& options) {
  const StageRange& range = options.range;
  if (range.first_layer >= range.last_layer || range.last_layer > spec.layers()) {
    return InvalidArgument("stage of layers " + std::to_string(range.first_layer) + "-" +
                           std::to_string(range.last_layer) + " does not fit a model of " +
                           std::to_string(spec.layers()) + " layers");
  }
  if (!(options.dropout >= 0 && options.dropout < 1)) {
    return InvalidArgument("dropout must be at least 0 and below 1");
  }
  if (NeedsFiles(options.held) && options.state_folder.empty()) {
    return InvalidArgument("a stage that does not hold all of its state needs a folder for it");
  }
  const OptimizerOptions& optimizer = options.optimizer;
  const bool betas =
      optimizer.beta1 >= 0 && optimizer.beta1 < 1 && optimizer.beta2 >= 0 && optimizer.beta2 < 1;
  if (!betas || !(optimizer.epsilon > 0) || !(optimizer.weight_decay >= 0) ||
      !(optimizer.clip_norm >= 0)) {
    return InvalidArgument(
        "optimizer options out of range: betas in [0, 1), epsilon above 0, weight decay and clip "
        "norm not negative");
  }
  return Status::Ok();
}

}  // namespace shoal::model
