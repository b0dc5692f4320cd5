// Modelfile: what Ollama reads beside a GGUF file. Thread: any.

#ifndef SHOAL_MODEL_EXPORTS_MODELFILE_H_
#define SHOAL_MODEL_EXPORTS_MODELFILE_H_

#include <string>
#include <vector>

#include "dataset/tokenizer_content.h"

namespace shoal::model {

struct Modelfile {
  std::string text;
  std::vector<std::string> notes;
};

// For ./model.gguf, from the chat template in `folder`, where Ollama's language can say it: else
// without TEMPLATE, and with a note. Reads files.
Modelfile MakeModelfile(const dataset::TokenizerContent& content, const std::string& folder);

}  // namespace shoal::model

#endif  // SHOAL_MODEL_EXPORTS_MODELFILE_H_
