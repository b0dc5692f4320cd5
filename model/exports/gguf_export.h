// A model as model.gguf, with its tokenizer and chat template inside, and a Modelfile for Ollama.

#ifndef SHOAL_MODEL_EXPORTS_GGUF_EXPORT_H_
#define SHOAL_MODEL_EXPORTS_GGUF_EXPORT_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"
#include "model/exports/export_source.h"
#include "storage/models/gguf.h"

namespace shoal::model {

// "f16" or "q8_0".
std::optional<storage::GgufType> GgufTypeOf(std::string_view name);

// Matrices have the type that is asked for; of Q8_0 those whose rows are no whole blocks are F16.
// Norms, biases and learned positions are F32.
Result<std::vector<std::string>> ExportGguf(const ExportSource& source, const ExportFormat& format,
                                            const std::string& path);

}  // namespace shoal::model

#endif  // SHOAL_MODEL_EXPORTS_GGUF_EXPORT_H_
