// WordPiece (Schuster and Nakajima, "Japanese and Korean voice search", 2012) of one word, as BERT
// has it: from the left, always the longest token that fits.

#ifndef SHOAL_DATASET_TOKENIZERS_WORDPIECE_WORDS_H_
#define SHOAL_DATASET_TOKENIZERS_WORDPIECE_WORDS_H_

#include <memory>

#include "dataset/tokenizers/tokenizer_file.h"
#include "dataset/tokenizers/word_model.h"

namespace shoal::dataset {

// A word that no tokens make, or that is too long, is the unknown token. `names` are by id.
std::unique_ptr<const WordModel> NewWordPieceWords(const WordPieceModel& model,
                                                   const std::vector<std::string>& names);

}  // namespace shoal::dataset

#endif  // SHOAL_DATASET_TOKENIZERS_WORDPIECE_WORDS_H_
