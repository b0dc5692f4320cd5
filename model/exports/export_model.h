// ExportModel: a model as files that others take away: a Hugging Face directory, or a GGUF file for
// llama.cpp and what is built on it.
//
// Each kind of export is one entry of the table in export_model.cc. Blocks on disk. Thread: any one
// at a time.

#ifndef SHOAL_MODEL_EXPORTS_EXPORT_MODEL_H_
#define SHOAL_MODEL_EXPORTS_EXPORT_MODEL_H_

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/status.h"
#include "model/exports/adapter_export.h"
#include "model/families/model_spec.h"
#include "storage/models/model_tensors.h"

namespace shoal::model {

// As options name it.
struct ExportFormat {
  std::string as = "directory";  // or "gguf", "adapter", "merged"
  std::string dtype;             // of a directory: fp32, bf16 or fp16; empty: the source's
  std::string type;              // of a GGUF file: f16 or q8_0; empty: f16
};

// Invalid argument: a name that is not known, or an option of another kind of export.
Status CheckExportFormat(const ExportFormat& format);

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

// Writes the folder `path`, which must not exist or be empty; on an error nothing is there. Gives
// sentences about what comes out otherwise than in the source.
Result<std::vector<std::string>> ExportModel(const ExportSource& source, const ExportFormat& format,
                                             const std::string& path);

// The model of a directory, to be exported again.
Result<ExportSource> OpenExportSource(const std::string& directory);

}  // namespace shoal::model

#endif  // SHOAL_MODEL_EXPORTS_EXPORT_MODEL_H_
