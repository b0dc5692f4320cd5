#include "dataset/tokenizers/word_model.h"

namespace shoal::dataset {

bool StandsBehind(std::string_view letter, std::string_view name) {
  while (name.starts_with(letter)) name.remove_prefix(letter.size());
  return name.find(letter) != std::string_view::npos;
}

}  // namespace shoal::dataset
