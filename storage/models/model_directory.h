// ModelDirectory: a Hugging Face model directory as shoal sees it: tokenizer files, and tensors
// grouped into parts that stages load: "embedding", "layer.0" .. "layer.N-1", "head".
//
// Knows no family's tensor names: a ModelLayout says what a directory must hold. Thread: any one at
// a time.

#ifndef SHOAL_STORAGE_MODELS_MODEL_DIRECTORY_H_
#define SHOAL_STORAGE_MODELS_MODEL_DIRECTORY_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/status.h"
#include "storage/models/safetensors.h"

namespace shoal::storage {

// A part's tensors by canonical name, that is without the prefix that files may have.
using TensorMap = std::map<std::string, TensorView>;
using TensorShapes = std::map<std::string, std::vector<std::int64_t>>;

// What the files of a model must hold, as its family says (model/families).
struct ModelLayout {
  struct Part {
    std::string name;
    TensorShapes tensors;
  };
  std::vector<Part> parts;  // in order: "embedding", "layer.0", ..., "head"
  // Before canonical names in files, which may lack it; an export has it.
  std::string prefix;
  std::vector<std::string> without_prefix;  // names that never have it
  std::vector<std::string> buffer_ends;     // ends of names of what is no weight
  std::vector<std::string> unused_begins;   // beginnings of canonical names of what is left out
  // Ends of names in older files, and what they are today.
  std::vector<std::pair<std::string, std::string>> old_ends;
  // Tensors that files may lack, each group as a whole; `draw` then makes their values.
  std::vector<std::vector<std::string>> fresh_groups;
  std::function<void(const std::string& name, std::span<float> values)> draw;
  // A matrix that two parts share, and the name under which files may have a copy of it; or empty.
  std::string shared, copy;
  std::string architecture;  // for the config.json of an export

  const Part* Find(const std::string& part) const;
};

class ModelDirectory {
 public:
  virtual ~ModelDirectory() = default;
  virtual const ModelLayout& layout() const = 0;
  // The tensors of a part, shapes and dtypes (F32, F16, BF16) checked; views into mapped files.
  virtual Result<TensorMap> Part(const std::string& part) const = 0;
  // Tensors that the files lack, so that Part gives drawn values for them.
  virtual std::vector<std::string> FreshTensors() const = 0;
  // Paths of the tokenizer files that exist (tokenizer.json, vocab.json, merges.txt, ...).
  virtual std::vector<std::string> TokenizerFiles() const = 0;
};

// Opens a directory: single model.safetensors or sharded through model.safetensors.index.json.
Result<std::shared_ptr<const ModelDirectory>> OpenModelDirectory(const std::string& path,
                                                                 ModelLayout layout);
// The text of config.json in a model's folder.
Result<std::string> ReadModelConfig(const std::string& path);

// Invalid argument if a value is NaN or infinite. Reads all of them.
Status CheckFinite(const std::string& name, const TensorView& view);
Status CheckFinite(const TensorMap& tensors);

// Writes a part as one safetensors blob in fp32-or-source dtype (an artefact), to `path`.
Status WritePart(const std::string& path, const TensorMap& tensors);

}  // namespace shoal::storage

#endif  // SHOAL_STORAGE_MODELS_MODEL_DIRECTORY_H_
