#include "dataset/tokenizers/unigram_words.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "dataset/word_splitter.h"

namespace shoal::dataset {
namespace {

constexpr double kUnknownPenalty = 10;
constexpr std::size_t kNowhere = std::numeric_limits<std::size_t>::max();

// The best tokens of a word that end at a byte.
struct Node {
  std::int32_t id = -1;  // -1: unknown
  double sum = 0;
  std::size_t begin = kNowhere;  // of the last token; kNowhere: no token ends here
};

class UnigramWords final : public WordModel {
 public:
  UnigramWords(const UnigramModel& model, const std::vector<std::string>& names)
      : model_(model), unknown_score_(std::numeric_limits<double>::max()) {
    for (std::size_t id = 0; id < model_.scores.size(); ++id) {
      if (names[id].empty()) continue;  // found in no text
      unknown_score_ = std::min(unknown_score_, model_.scores[id]);
      longest_ = std::max(longest_, names[id].size());
      ids_.emplace(names[id], static_cast<std::int32_t>(id));
    }
    unknown_score_ -= kUnknownPenalty;
  }

  void Encode(std::string_view word, std::vector<std::int32_t>* ids) const override {
    const std::vector<Node> nodes = Best(word);
    std::vector<std::pair<std::size_t, std::size_t>> tokens;  // from the back
    for (std::size_t end = word.size(); end > 0;) {
      const std::size_t begin = nodes[end].begin;
      const bool fused = !tokens.empty() && nodes[end].id < 0 && nodes[tokens.back().second].id < 0;
      if (fused) {
        tokens.back().first = begin;
      } else {
        tokens.emplace_back(begin, end);
      }
      end = begin;
    }
    for (auto token = tokens.rbegin(); token != tokens.rend(); ++token) {
      const std::int32_t id = nodes[token->second].id;
      if (id >= 0) {
        ids->push_back(id);
      } else {
        AddUnknown(word.substr(token->first, token->second - token->first), ids);
      }
    }
  }

  bool OnlyBegins(std::string_view letter) const override {
    return ids_.contains(letter) && std::none_of(ids_.begin(), ids_.end(), [&](const auto& known) {
             return StandsBehind(letter, known.first);
           });
  }

 private:
  // By byte at which tokens may end.
  std::vector<Node> Best(std::string_view word) const {
    std::vector<Node> nodes(word.size() + 1);
    for (std::size_t begin = 0; begin < word.size();) {
      const std::size_t character = std::max<std::size_t>(Utf8Length(word.substr(begin)), 1);
      const double sum = nodes[begin].sum;
      bool single = false;
      const auto offer = [&](std::size_t end, std::int32_t id, double score) {
        Node& node = nodes[end];
        if (node.begin == kNowhere || sum + score > node.sum) node = {id, sum + score, begin};
      };
      const std::size_t most = std::min(word.size(), begin + longest_);
      for (std::size_t end = begin + character; end <= most;) {
        const auto known = ids_.find(word.substr(begin, end - begin));
        // An unknown token is one that no text stands for.
        if (known != ids_.end()) {
          offer(end, known->second, model_.scores[static_cast<std::size_t>(known->second)]);
          single = single || end == begin + character;
        }
        if (end == word.size()) break;
        end += std::max<std::size_t>(Utf8Length(word.substr(end)), 1);
      }
      if (!single) offer(begin + character, -1, unknown_score_);
      begin += character;
    }
    return nodes;
  }

  void AddUnknown(std::string_view text, std::vector<std::int32_t>* ids) const {
    const auto id_of = [this](char byte) {
      return model_.byte_ids[static_cast<std::uint8_t>(byte)];
    };
    const bool bytes =
        model_.byte_fallback &&
        std::all_of(text.begin(), text.end(), [&](char byte) { return id_of(byte) >= 0; });
    if (!bytes) {
      if (model_.unknown) ids->push_back(*model_.unknown);
      return;
    }
    for (const char byte : text) ids->push_back(id_of(byte));
  }

  const UnigramModel model_;
  NameIds ids_;
  double unknown_score_;
  std::size_t longest_ = 0;
};

}  // namespace

std::unique_ptr<const WordModel> NewUnigramWords(const UnigramModel& model,
                                                 const std::vector<std::string>& names) {
  return std::make_unique<UnigramWords>(model, names);
}

}  // namespace shoal::dataset
