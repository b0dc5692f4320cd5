// Unigram (Kudo, "Subword regularization", 2018) of one word: the tokens whose scores, logarithms
// of probabilities, have the largest sum.

#ifndef SHOAL_DATASET_TOKENIZERS_UNIGRAM_WORDS_H_
#define SHOAL_DATASET_TOKENIZERS_UNIGRAM_WORDS_H_

#include <memory>

#include "dataset/tokenizers/tokenizer_file.h"
#include "dataset/tokenizers/word_model.h"

namespace shoal::dataset {

// A character that no token begins with counts as unknown, with a score of 10 below the lowest;
// unknown characters beside each other are one. They become byte tokens where the model says so and
// has them, else the unknown token. Of equal sums the one counts that was found first, from the
// left. `model` and `names` (by id) may go.
std::unique_ptr<const WordModel> NewUnigramWords(const UnigramModel& model,
                                                 const std::vector<std::string>& names);

}  // namespace shoal::dataset

#endif  // SHOAL_DATASET_TOKENIZERS_UNIGRAM_WORDS_H_
