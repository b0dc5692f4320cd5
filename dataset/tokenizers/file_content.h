// The content of a parsed tokenizer file. Internal to dataset/tokenizers, and for its fuzz target.

#ifndef SHOAL_DATASET_TOKENIZERS_FILE_CONTENT_H_
#define SHOAL_DATASET_TOKENIZERS_FILE_CONTENT_H_

#include <optional>

#include "common/status.h"
#include "dataset/tokenizer_content.h"
#include "dataset/tokenizers/sentencepiece_model.h"
#include "dataset/tokenizers/tokenizer_file.h"

namespace shoal::dataset {

// `pieces`: of a tokenizer.model beside it. Without begin, end, padding and chat template, which
// other files name. Errors are those of LoadTokenizerContent.
Result<TokenizerContent> ContentOf(const TokenizerFile& file,
                                   const std::optional<SentencePieceModel>& pieces);

}  // namespace shoal::dataset

#endif  // SHOAL_DATASET_TOKENIZERS_FILE_CONTENT_H_
