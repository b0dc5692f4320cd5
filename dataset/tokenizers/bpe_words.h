// Byte pair encoding (Sennrich et al., "Neural machine translation of rare words with subword
// units", 2016) of one word: the adjacent pair whose merge comes first in the list is merged, until
// no pair is in the list. Of equal pairs the leftmost is merged.

#ifndef SHOAL_DATASET_TOKENIZERS_BPE_WORDS_H_
#define SHOAL_DATASET_TOKENIZERS_BPE_WORDS_H_

#include <memory>

#include "dataset/tokenizers/tokenizer_file.h"
#include "dataset/tokenizers/word_model.h"

namespace shoal::dataset {

// What `model` has no token for is made of byte tokens, of its unknown token, or left out, as the
// model says. `model` may go; `names` are by id.
std::unique_ptr<const WordModel> NewBpeWords(const BpeModel& model,
                                             const std::vector<std::string>& names);

}  // namespace shoal::dataset

#endif  // SHOAL_DATASET_TOKENIZERS_BPE_WORDS_H_
