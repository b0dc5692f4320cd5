// Tokens that are found in texts as a whole, as tokenizer.json and the files beside it name them.
// Internal to dataset/tokenizers.

#ifndef SHOAL_DATASET_TOKENIZERS_NAMED_TOKENS_H_
#define SHOAL_DATASET_TOKENIZERS_NAMED_TOKENS_H_

#include <string>

#include "common/status.h"
#include "dataset/added_tokens.h"
#include "dataset/tokenizers/tokenizer_file.h"

namespace shoal::dataset {

// Refuses a token that is too long.
Status CheckAddedToken(const AddedToken& token);

// Has the tokenizer find `token` in texts. It stands for its own UTF-8, also where all its letters
// are of the printable alphabet. But a name that is a byte's keeps that byte, which BPE needs.
void Recognise(AddedToken token, TokenizerFile* file);

// What added_tokens.json and tokenizer_config.json of `directory` say, as transformers reads them.
Status ApplyFilesBeside(const std::string& directory, TokenizerFile* file);

}  // namespace shoal::dataset

#endif  // SHOAL_DATASET_TOKENIZERS_NAMED_TOKENS_H_
