// What an export is made of, and in which form it is wanted. Plain values.

#ifndef SHOAL_MODEL_EXPORTS_EXPORT_SOURCE_H_
#define SHOAL_MODEL_EXPORTS_EXPORT_SOURCE_H_

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "model/exports/adapter_export.h"
#include "model/families/model_spec.h"
#include "storage/models/model_tensors.h"

namespace shoal::model {

// As options name it.
struct ExportFormat {
  std::string as = "directory";  // or "merged", "adapter", "gguf"
  std::string dtype;             // of a directory: fp32, bf16 or fp16; empty: the source's
  std::string type;              // of a GGUF file: f16 or q8_0; empty: f16
};

struct ExportSource {
  ModelSpec spec;
  storage::ModelTensors tensors;
  // The formats that tensors had where training began, by canonical name; others keep theirs.
  std::map<std::string, storage::DType> dtypes;
  std::string folder;              // of the tokenizer's files and the chat template
  std::vector<std::string> files;  // that go with the model: tokenizer, generation settings
  std::string model_card;          // text of MODEL_CARD.md; empty: none
  // Where one was trained: `tensors` are the model with its sums in it.
  std::optional<ExportedAdapter> adapter = {};
};

}  // namespace shoal::model

#endif  // SHOAL_MODEL_EXPORTS_EXPORT_SOURCE_H_
