// Reads the files of a tokenizer.

#ifndef SHOAL_DATASET_TOKENIZERS_TOKENIZER_FILES_H_
#define SHOAL_DATASET_TOKENIZERS_TOKENIZER_FILES_H_

#include <memory>
#include <string>
#include <string_view>

#include "common/status.h"
#include "dataset/tokenizer.h"
#include "dataset/tokenizers/tokenizer_file.h"

namespace shoal::dataset {

// From a Hugging Face tokenizer.json. A setting that would change ids and that shoal does not have
// is an error that names it.
Result<TokenizerFile> ParseTokenizerJson(std::string_view json);

// GPT-2's byte-level BPE from vocab.json (a JSON object from name to id) and merges.txt ("left
// right" lines).
Result<TokenizerFile> ParseVocabAndMerges(std::string_view vocab_json, std::string_view merges);

// From the bytes of a SentencePiece model: tokenizer.model.
Result<TokenizerFile> ParseSentencePiece(std::string_view bytes);

// From whichever files `directory` has: tokenizer.json, else tokenizer.model, else vocab.json +
// merges.txt, else encoder.json + vocab.bpe. tokenizer_config.json and added_tokens.json beside
// them add their tokens. <|endoftext|> counts as a special token wherever the vocabulary has it, as
// transformers' own GPT-2 tokenizer has it.
Result<TokenizerFile> LoadTokenizerFile(const std::string& directory);

// The tokenizer that `file` describes.
Result<std::unique_ptr<Tokenizer>> NewFileTokenizer(TokenizerFile file);

}  // namespace shoal::dataset

#endif  // SHOAL_DATASET_TOKENIZERS_TOKENIZER_FILES_H_
