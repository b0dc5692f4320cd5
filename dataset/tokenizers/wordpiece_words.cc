#include "dataset/tokenizers/wordpiece_words.h"

#include <algorithm>
#include <utility>

namespace shoal::dataset {
namespace {

bool Begins(char byte) { return (static_cast<std::uint8_t>(byte) & 0xc0) != 0x80; }

class WordPieceWords final : public WordModel {
 public:
  WordPieceWords(const WordPieceModel& model, const std::vector<std::string>& names)
      : model_(model) {
    for (std::size_t id = 0; id < names.size(); ++id) {
      if (names[id].empty()) continue;
      longest_ = std::max(longest_, names[id].size());
      ids_.emplace(names[id], static_cast<std::int32_t>(id));
    }
  }

  void Encode(std::string_view word, std::vector<std::int32_t>* ids) const override {
    const auto characters = std::count_if(word.begin(), word.end(), Begins);
    const std::size_t before = ids->size();
    if (static_cast<std::size_t>(characters) <= model_.characters_max && Pieces(word, ids)) return;
    ids->resize(before);
    ids->push_back(model_.unknown);
  }

  // Words are cut where they must be before.
  bool OnlyBegins(std::string_view letter) const override { return letter.empty(); }

 private:
  bool Pieces(std::string_view word, std::vector<std::int32_t>* ids) const {
    std::string name;
    for (std::size_t begin = 0; begin < word.size();) {
      const std::string_view prefix = begin == 0 ? "" : std::string_view(model_.prefix);
      std::size_t end = std::min(word.size(), begin + longest_);
      for (; end > begin; --end) {
        if (end < word.size() && !Begins(word[end])) continue;
        name.assign(prefix);
        name += word.substr(begin, end - begin);
        if (const auto known = ids_.find(name); known != ids_.end()) {
          ids->push_back(known->second);
          break;
        }
      }
      if (end == begin) return false;
      begin = end;
    }
    return true;
  }

  const WordPieceModel model_;
  NameIds ids_;
  std::size_t longest_ = 0;
};

}  // namespace

std::unique_ptr<const WordModel> NewWordPieceWords(const WordPieceModel& model,
                                                   const std::vector<std::string>& names) {
  return std::make_unique<WordPieceWords>(model, names);
}

}  // namespace shoal::dataset
