// ModelDirectory: a Hugging Face model directory as shoal sees it: config.json, tokenizer files,
// and tensors grouped into parts that stages load: "embedding", "layer.0" .. "layer.N-1", "head".
//
// Knows the GPT-2 family's tensor names; knows nothing of torch. Thread: any one at a time.

#ifndef SHOAL_STORAGE_MODELS_MODEL_DIRECTORY_H_
#define SHOAL_STORAGE_MODELS_MODEL_DIRECTORY_H_

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/status.h"
#include "storage/models/safetensors.h"

namespace shoal::storage {

// The checked content of a GPT-2 config.json.
struct ModelConfig {
  std::uint32_t layers = 0;
  std::uint32_t hidden = 0;
  std::uint32_t heads = 0;
  std::uint32_t inner = 0;  // width of the MLP, 4 * hidden unless n_inner says otherwise
  std::uint32_t positions = 0;
  std::uint32_t vocabulary = 0;
  float layer_norm_epsilon = 1e-5f;
  bool tied_head = true;  // lm_head shares wte
  float initializer_range = 0.02f;
  std::string json;  // the file's own text, kept for export

  std::uint64_t ParametersOf(std::uint32_t first_layer, std::uint32_t last_layer, bool embedding,
                             bool head) const;
};

// Parses and checks config.json text; an unknown architecture or activation function is an error
// that names it and what is supported.
Result<ModelConfig> ParseModelConfig(const std::string& json, const std::string& name);

// A part's tensors by canonical name (no "transformer." prefix): wte.weight, wpe.weight,
// h.<i>.ln_1.weight ..., ln_f.weight, ln_f.bias, lm_head.weight (untied only; a tied head's part
// "head" holds wte.weight again).
using TensorMap = std::map<std::string, TensorView>;

// The names of all parts in order, and the tensors (name -> shape) a part must have.
std::vector<std::string> PartNames(const ModelConfig& config);
std::map<std::string, std::vector<std::int64_t>> PartShapes(const ModelConfig& config,
                                                            const std::string& part);

class ModelDirectory {
 public:
  virtual ~ModelDirectory() = default;
  virtual const ModelConfig& config() const = 0;
  // The tensors of a part, shapes and dtypes (F32, F16, BF16) checked; views into mapped files.
  virtual Result<TensorMap> Part(const std::string& part) const = 0;
  // Paths of the tokenizer files that exist (tokenizer.json, vocab.json, merges.txt, ...).
  virtual std::vector<std::string> TokenizerFiles() const = 0;
};

// Opens a directory: single model.safetensors or sharded through model.safetensors.index.json.
Result<std::shared_ptr<const ModelDirectory>> OpenModelDirectory(const std::string& path);

// Writes a part as one safetensors blob in fp32-or-source dtype (an artefact), to `path`.
Status WritePart(const std::string& path, const TensorMap& tensors);

struct ExportOptions {
  std::string path;  // must not exist, or be an empty folder
  std::string config_json;
  std::vector<std::string> part_files;   // artefacts in PartNames order
  std::vector<std::string> extra_files;  // tokenizer files to copy in
  std::string model_card;                // MODEL_CARD.md text
};
// Writes a Hugging Face directory that transformers loads: model.safetensors with "transformer."
// names and metadata {"format": "pt"}; built beside `path` and renamed into place.
Status ExportModelDirectory(const ModelConfig& config, const ExportOptions& options);

}  // namespace shoal::storage

#endif  // SHOAL_STORAGE_MODELS_MODEL_DIRECTORY_H_
