#include "dataset/tokenizers/bpe_words.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <optional>
#include <queue>
#include <utility>

#include "dataset/tokenizers/byte_names.h"
#include "dataset/word_splitter.h"

namespace shoal::dataset {
namespace {

constexpr std::uint32_t kNoRank = std::numeric_limits<std::uint32_t>::max();

std::uint64_t Mix(std::uint64_t a, std::uint64_t b) {
  const std::uint64_t product = (a ^ (b >> 29) ^ 0x9e3779b97f4a7c15U) * 0xbf58476d1ce4e5b9U;
  const std::uint64_t mixed = (product ^ (product >> 32) ^ b) * 0x94d049bb133111ebU;
  return mixed ^ (mixed >> 31);
}

// Pair of ids -> position in the list of merges and merged id; open addressing.
class MergeTable {
 public:
  struct Entry {
    std::uint64_t pair = std::numeric_limits<std::uint64_t>::max();  // of no two ids
    std::uint32_t rank = kNoRank;
    std::int32_t merged = -1;
  };

  explicit MergeTable(const std::vector<BpeMerge>& merges)
      : entries_(std::bit_ceil(merges.size() * 2 + 2)) {
    for (const BpeMerge& merge : merges) {
      const std::uint64_t pair = Pair(merge.left, merge.right);
      entries_[SlotOf(pair)] = {pair, merge.rank, merge.merged};
    }
  }

  // The entry of the pair, or one with kNoRank.
  const Entry& Find(std::int32_t left, std::int32_t right) const {
    return entries_[SlotOf(Pair(left, right))];
  }

 private:
  static std::uint64_t Pair(std::int32_t left, std::int32_t right) {
    return static_cast<std::uint64_t>(left) << 32 | static_cast<std::uint32_t>(right);
  }
  std::size_t SlotOf(std::uint64_t pair) const {
    std::size_t slot = Mix(pair, pair >> 32) & (entries_.size() - 1);
    while (entries_[slot].rank != kNoRank && entries_[slot].pair != pair) {
      slot = (slot + 1) & (entries_.size() - 1);
    }
    return slot;
  }

  std::vector<Entry> entries_;
};

// Merges the pairs of one word.
class WordMerger {
 public:
  explicit WordMerger(const std::vector<BpeMerge>& merges) : table_(merges) {}

  // Appends what `symbols` merge to.
  void Merge(std::vector<std::int32_t>* symbols, std::vector<std::int32_t>* ids) const {
    symbols->size() <= kScanLimit ? MergeByScan(symbols) : MergeByHeap(symbols);
    ids->insert(ids->end(), symbols->begin(), symbols->end());
  }

 private:
  // Up to here scanning all pairs for each merge is faster than a heap.
  static constexpr std::size_t kScanLimit = 48;

  struct Candidate {
    std::uint32_t rank;
    std::size_t position;
    std::int32_t left, right;  // to see whether the pair is still there
    bool operator>(const Candidate& other) const {
      return std::pair(rank, position) > std::pair(other.rank, other.position);
    }
  };

  void MergeByScan(std::vector<std::int32_t>* symbols) const {
    std::array<const MergeTable::Entry*, kScanLimit> pairs;
    std::vector<std::int32_t>& s = *symbols;
    std::size_t count = s.size();
    for (std::size_t i = 0; i + 1 < count; ++i) pairs[i] = &table_.Find(s[i], s[i + 1]);
    while (count > 1) {
      std::size_t best = 0;
      for (std::size_t i = 1; i + 1 < count; ++i) {
        if (pairs[i]->rank < pairs[best]->rank) best = i;
      }
      if (pairs[best]->rank == kNoRank) break;
      s[best] = pairs[best]->merged;
      --count;
      for (std::size_t i = best + 1; i < count; ++i) s[i] = s[i + 1];
      for (std::size_t i = best + 1; i + 1 < count; ++i) pairs[i] = pairs[i + 1];
      if (best > 0) pairs[best - 1] = &table_.Find(s[best - 1], s[best]);
      if (best + 1 < count) pairs[best] = &table_.Find(s[best], s[best + 1]);
    }
    s.resize(count);
  }

  // The same for long words in n log n, with a linked list of symbols and a heap of pairs. Pairs
  // that a merge destroyed are skipped when they come up.
  void MergeByHeap(std::vector<std::int32_t>* symbols) const {
    std::vector<std::int32_t>& s = *symbols;
    const std::size_t end = s.size();
    std::vector<std::size_t> next(end), previous(end);
    std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> heap;
    const auto offer = [&](std::size_t i) {
      if (next[i] == end) return;
      const MergeTable::Entry& entry = table_.Find(s[i], s[next[i]]);
      if (entry.rank != kNoRank) heap.push({entry.rank, i, s[i], s[next[i]]});
    };
    for (std::size_t i = 0; i < end; ++i) {
      next[i] = i + 1;
      previous[i] = i - 1;  // wraps for the first, which has none
    }
    for (std::size_t i = 0; i < end; ++i) offer(i);
    while (!heap.empty()) {
      const Candidate best = heap.top();
      heap.pop();
      const std::size_t i = best.position;
      if (s[i] != best.left || next[i] == end || s[next[i]] != best.right) continue;
      const std::size_t gone = next[i];
      s[i] = table_.Find(best.left, best.right).merged;
      s[gone] = -1;
      next[i] = next[gone];
      if (next[i] != end) previous[next[i]] = i;
      offer(i);
      if (i > 0) offer(previous[i]);
    }
    std::erase(s, -1);
  }

  const MergeTable table_;
};

class BpeWords final : public WordModel {
 public:
  BpeWords(const BpeModel& model, const std::vector<std::string>& names)
      : model_(model), merger_(model.merges) {
    model_.merges = {};  // the table has them
    for (const BpeMerge& merge : model.merges) {
      made_.push_back(names[static_cast<std::size_t>(merge.merged)]);
    }
    if (model.byte_level && !model.whole_words) return;
    for (std::size_t id = 0; id < names.size(); ++id) {
      if (!names[id].empty()) ids_.emplace(names[id], static_cast<std::int32_t>(id));
    }
  }

  void Encode(std::string_view word, std::vector<std::int32_t>* ids) const override {
    if (model_.byte_level) return EncodeBytes(word, ids);
    if (model_.whole_words) {
      if (const auto whole = ids_.find(word); whole != ids_.end()) {
        ids->push_back(whole->second);
        return;
      }
    }
    thread_local std::vector<std::int32_t> symbols;
    symbols.clear();
    AddCharacters(word, &symbols);
    merger_.Merge(&symbols, ids);
    if (symbols.capacity() > kKeptSymbols) symbols = {};
  }

  bool OnlyBegins(std::string_view letter) const override {
    if (model_.byte_level || model_.whole_words || !ids_.contains(letter)) return false;
    return std::none_of(made_.begin(), made_.end(),
                        [letter](const std::string& name) { return StandsBehind(letter, name); });
  }

 private:
  // Longer buffers of symbols are not kept.
  static constexpr std::size_t kKeptSymbols = 65536;

  void EncodeBytes(std::string_view word, std::vector<std::int32_t>* ids) const {
    if (word.size() == 1) {
      ids->push_back(model_.byte_ids[static_cast<std::uint8_t>(word[0])]);
      return;
    }
    if (model_.whole_words) {
      if (const auto whole = ids_.find(NameOfBytes(word)); whole != ids_.end()) {
        ids->push_back(whole->second);
        return;
      }
    }
    thread_local std::vector<std::int32_t> symbols;
    symbols.clear();
    for (const char byte : word) {
      symbols.push_back(model_.byte_ids[static_cast<std::uint8_t>(byte)]);
    }
    merger_.Merge(&symbols, ids);
    if (symbols.capacity() > kKeptSymbols) symbols = {};
  }

  void AddCharacters(std::string_view word, std::vector<std::int32_t>* symbols) const {
    bool unknown_before = false;
    while (!word.empty()) {
      const std::string_view character = word.substr(0, std::max<std::size_t>(Utf8Length(word), 1));
      word.remove_prefix(character.size());
      const bool fused = unknown_before && model_.fuse_unknown;
      unknown_before = false;
      if (const auto known = ids_.find(character); known != ids_.end()) {
        symbols->push_back(known->second);
      } else if (model_.byte_fallback && HasBytes(character)) {
        for (const char byte : character) {
          symbols->push_back(model_.byte_ids[static_cast<std::uint8_t>(byte)]);
        }
      } else if (model_.unknown) {
        unknown_before = true;
        if (!fused) symbols->push_back(*model_.unknown);
      }
    }
  }

  bool HasBytes(std::string_view character) const {
    return std::all_of(character.begin(), character.end(), [this](char byte) {
      return model_.byte_ids[static_cast<std::uint8_t>(byte)] >= 0;
    });
  }

  BpeModel model_;
  const WordMerger merger_;
  std::vector<std::string> made_;  // what merges make
  NameIds ids_;
};

}  // namespace

std::unique_ptr<const WordModel> NewBpeWords(const BpeModel& model,
                                             const std::vector<std::string>& names) {
  return std::make_unique<BpeWords>(model, names);
}

}  // namespace shoal::dataset
