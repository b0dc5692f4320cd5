// Vocabularies of tokenizer files: names with ids, and their merges. Internal to
// dataset/tokenizers.

#ifndef SHOAL_DATASET_TOKENIZERS_VOCABULARY_H_
#define SHOAL_DATASET_TOKENIZERS_VOCABULARY_H_

#include <array>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/status.h"
#include "dataset/tokenizers/tokenizer_file.h"
#include "dataset/tokenizers/word_model.h"

namespace shoal::dataset {

inline constexpr char kEndOfText[] = "<|endoftext|>";

// Adds an object of name to id.
Status AddVocabulary(const nlohmann::json& vocabulary, NameIds* ids);
// Names by id, which must be 0, 1, 2, ... each once.
Result<std::vector<std::string>> NamesById(const NameIds& ids);

// A pair of names a merge; from "model.merges" or the lines of merges.txt.
using NamePair = std::pair<std::string, std::string>;
Result<std::vector<NamePair>> MergesOfJson(const nlohmann::json& model);
Result<std::vector<NamePair>> MergesOfText(std::string_view text);
Status AddMerges(const std::vector<NamePair>& pairs, const NameIds& ids, BpeModel* model);

// The tokens of single bytes: of GPT-2's alphabet, where all must be there, or "<0x0A>", where -1
// stands for none.
Result<std::array<std::int32_t, 256>> ByteLevelIds(const NameIds& ids);
std::array<std::int32_t, 256> FallbackIds(const NameIds& ids);

}  // namespace shoal::dataset

#endif  // SHOAL_DATASET_TOKENIZERS_VOCABULARY_H_
