// A model back into a Hugging Face directory, in the number formats that are asked for.
//
// Tensors are read from mapped files and written piece by piece: memory does not grow with the
// model. Blocks on disk. Thread: any one at a time.

#ifndef SHOAL_STORAGE_MODELS_MODEL_EXPORT_H_
#define SHOAL_STORAGE_MODELS_MODEL_EXPORT_H_

#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "common/status.h"
#include "storage/models/model_tensors.h"

namespace shoal::storage {

struct ExportOptions {
  std::string path;  // must not exist, or be an empty folder
  std::string config_json;
  // By canonical name: F32, F16 or BF16. Others keep the format of their view. Values are rounded
  // to nearest even; one that would become infinite is an invalid argument.
  std::map<std::string, DType> dtypes;
  std::vector<std::string> extra_files;  // tokenizer files and the like to copy in
  std::string model_card;                // MODEL_CARD.md text; empty: none
};
// Writes a Hugging Face directory that transformers loads: model.safetensors with the layout's
// prefix and metadata {"format": "pt"}; built beside `path` and renamed into place. config.json
// names the format of most values.
Status ExportModelDirectory(const ModelLayout& layout, const ModelTensors& tensors,
                            const ExportOptions& options);

// Copies files under their own names, none of which may be in `taken` or come twice.
Status CopyFilesInto(const std::string& folder, std::span<const std::string> sources,
                     std::set<std::string> taken);

// What config.json says of its tensors' format; nothing if it does not, or names another.
std::optional<DType> ConfigFormat(const std::string& config_json);

}  // namespace shoal::storage

#endif  // SHOAL_STORAGE_MODELS_MODEL_EXPORT_H_
