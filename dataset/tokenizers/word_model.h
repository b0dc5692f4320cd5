// WordModel: makes the tokens of one word. Thread: any, the object does not change.

#ifndef SHOAL_DATASET_TOKENIZERS_WORD_MODEL_H_
#define SHOAL_DATASET_TOKENIZERS_WORD_MODEL_H_

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace shoal::dataset {

class WordModel {
 public:
  virtual ~WordModel() = default;
  // Appends the ids of `word`, which is not empty.
  virtual void Encode(std::string_view word, std::vector<std::int32_t>* ids) const = 0;
  // Whether no token has `letter` behind another character: then a word is the words before its
  // letters, each for itself.
  virtual bool OnlyBegins(std::string_view letter) const = 0;
};

// Found by string_view without a copy.
struct NameHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view name) const {
    return std::hash<std::string_view>{}(name);
  }
};
using NameIds = std::unordered_map<std::string, std::int32_t, NameHash, std::equal_to<>>;

// Whether `letter` stands in `name` behind anything but itself.
bool StandsBehind(std::string_view letter, std::string_view name);

}  // namespace shoal::dataset

#endif  // SHOAL_DATASET_TOKENIZERS_WORD_MODEL_H_
