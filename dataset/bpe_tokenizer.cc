// Byte-level BPE (Sennrich et al. 2016, on bytes as in GPT-2). Inside each word the adjacent pair
// whose merge comes first in the list is merged, until no pair is in the list. Of equal pairs the
// leftmost is merged.

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <queue>
#include <utility>

#include "common/mutex.h"
#include "dataset/added_tokens.h"
#include "dataset/bpe_model.h"
#include "dataset/end_token.h"
#include "dataset/tokenizer.h"
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
    for (std::size_t rank = 0; rank < merges.size(); ++rank) {
      const BpeMerge& merge = merges[rank];
      const std::uint64_t pair = Pair(merge.left, merge.right);
      entries_[SlotOf(pair)] = {pair, static_cast<std::uint32_t>(rank), merge.merged};
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

// The ids of recent short words; a newer word takes the place of an older one, so the size is
// bounded (about 1 MiB).
class WordCache {
 public:
  static constexpr std::size_t kMaxWord = 15;
  static constexpr std::size_t kMaxIds = 11;

  struct Slot {
    std::array<std::uint64_t, 2> key{};  // the word, zeros, its length; {} is no word
    std::uint32_t count = 0;
    std::array<std::int32_t, kMaxIds> ids{};
  };

  // The slot where `word` (at most kMaxWord bytes) belongs; *hit says whether it is there.
  Slot& Find(std::string_view word, bool* hit, std::array<std::uint64_t, 2>* key) {
    char bytes[16] = {};
    std::memcpy(bytes, word.data(), word.size());
    bytes[15] = static_cast<char>(word.size());
    std::memcpy(key->data(), bytes, sizeof(bytes));
    Slot& slot = slots_[Mix((*key)[0], (*key)[1]) % kSlots];
    *hit = slot.key == *key;
    return slot;
  }

 private:
  static constexpr std::size_t kSlots = 16384;
  std::vector<Slot> slots_ = std::vector<Slot>(kSlots);
};

// Merges the pairs of one word.
class WordMerger {
 public:
  explicit WordMerger(const MergeTable& table) : table_(table) {}

  // Appends what `symbols` (ids of single bytes) merge to.
  void Merge(std::vector<std::int32_t>* symbols, std::vector<std::int32_t>* ids) {
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

  void MergeByScan(std::vector<std::int32_t>* symbols) {
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
  void MergeByHeap(std::vector<std::int32_t>* symbols) {
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

  const MergeTable& table_;
};

class BpeTokenizer final : public Tokenizer {
 public:
  BpeTokenizer(BpeModel model, std::shared_ptr<const WordPattern> pattern,
               std::unique_ptr<const AddedTokens> added)
      : model_(std::move(model)),
        table_(model_.merges),
        fingerprint_(FingerprintOf(model_)),
        pattern_(std::move(pattern)),
        added_(std::move(added)) {
    model_.names = {};  // only the fingerprint needs them
    model_.merges = {};
    model_.added = {};
  }

  void Encode(std::string_view text, std::vector<std::int32_t>* ids) const override {
    std::unique_ptr<Scratch> scratch = BorrowScratch();
    if (added_->empty()) {
      EncodeWords(text, scratch.get(), ids);
    } else {
      for (const TextPiece& piece : added_->Split(text)) {
        if (piece.id < 0) {
          EncodeWords(piece.text, scratch.get(), ids);
        } else {
          ids->push_back(piece.id);
        }
      }
    }
    ReturnScratch(std::move(scratch));
  }

  std::size_t FindBreak(std::string_view text, std::size_t from) const override {
    for (std::size_t p = FindWordBreak(text, from); p < text.size();
         p = FindWordBreak(text, p + 1)) {
      // A half that begins with a space gets no other one in front.
      if (model_.add_prefix_space && text[p] != ' ') continue;
      if (!added_->Touches(text, p)) return p;
    }
    return text.size();
  }

  Result<std::string> Decode(std::span<const std::int32_t> ids) const override {
    std::string text;
    for (const std::int32_t id : ids) {
      if (id < 0 || static_cast<std::size_t>(id) >= model_.bytes.size()) {
        return OutOfRange("token id " + std::to_string(id) + " is outside the vocabulary of " +
                          std::to_string(model_.bytes.size()) +
                          ": use the tokenizer that made the ids");
      }
      text += model_.bytes[static_cast<std::size_t>(id)];
    }
    return text;
  }

  std::uint32_t vocabulary() const override {
    return static_cast<std::uint32_t>(model_.bytes.size());
  }
  std::optional<std::int32_t> end_of_text() const override { return model_.end_of_text; }
  const Wrapping& wrapping() const override { return wrapping_; }
  const std::string& fingerprint() const override { return fingerprint_; }
  const std::vector<std::string>& notes() const override { return model_.notes; }

 private:
  // What one Encode at a time works with; kept for the next, because a warm cache matters.
  struct Scratch {
    Scratch(const std::shared_ptr<const WordPattern>& pattern, const MergeTable& table)
        : splitter(pattern), merger(table) {}
    WordSplitter splitter;
    WordMerger merger;
    WordCache cache;
    std::vector<std::int32_t> symbols;
  };

  // Longer buffers of symbols are not kept.
  static constexpr std::size_t kKeptSymbols = 65536;

  // Of a piece of text without added tokens.
  void EncodeWords(std::string_view text, Scratch* scratch, std::vector<std::int32_t>* ids) const {
    std::string spaced;
    if (model_.add_prefix_space && !text.empty() && text.front() != ' ') {
      spaced = ' ' + std::string(text);
      text = spaced;
    }
    scratch->splitter.Start(text);
    for (std::string_view word; scratch->splitter.Next(&word);) EncodeWord(word, scratch, ids);
    scratch->splitter.Start({});
  }

  void EncodeWord(std::string_view word, Scratch* scratch, std::vector<std::int32_t>* ids) const {
    if (word.size() == 1) {
      ids->push_back(model_.byte_ids[static_cast<std::uint8_t>(word[0])]);
      return;
    }
    if (word.size() > WordCache::kMaxWord) return MergeWord(word, scratch, ids);
    bool hit = false;
    std::array<std::uint64_t, 2> key;
    WordCache::Slot& slot = scratch->cache.Find(word, &hit, &key);
    if (hit) {
      ids->insert(ids->end(), slot.ids.begin(), slot.ids.begin() + slot.count);
      return;
    }
    const std::size_t before = ids->size();
    MergeWord(word, scratch, ids);
    const std::size_t count = ids->size() - before;
    if (count > WordCache::kMaxIds) return;
    slot.key = key;
    slot.count = static_cast<std::uint32_t>(count);
    std::copy_n(ids->end() - static_cast<std::ptrdiff_t>(count), count, slot.ids.begin());
  }

  void MergeWord(std::string_view word, Scratch* scratch, std::vector<std::int32_t>* ids) const {
    scratch->symbols.clear();
    for (const char byte : word) {
      scratch->symbols.push_back(model_.byte_ids[static_cast<std::uint8_t>(byte)]);
    }
    scratch->merger.Merge(&scratch->symbols, ids);
  }

  std::unique_ptr<Scratch> BorrowScratch() const {
    {
      MutexLock lock(mutex_);
      if (!idle_.empty()) {
        std::unique_ptr<Scratch> scratch = std::move(idle_.back());
        idle_.pop_back();
        return scratch;
      }
    }
    return std::make_unique<Scratch>(pattern_, table_);
  }

  void ReturnScratch(std::unique_ptr<Scratch> scratch) const {
    if (scratch->symbols.capacity() > kKeptSymbols) scratch->symbols = {};
    MutexLock lock(mutex_);
    idle_.push_back(std::move(scratch));
  }

  BpeModel model_;
  const MergeTable table_;
  const Wrapping wrapping_;
  const std::string fingerprint_;
  const std::shared_ptr<const WordPattern> pattern_;
  const std::unique_ptr<const AddedTokens> added_;

  mutable Mutex mutex_;
  mutable std::vector<std::unique_ptr<Scratch>> idle_ SHOAL_GUARDED_BY(mutex_);
};

}  // namespace

Result<std::unique_ptr<Tokenizer>> LoadTokenizer(const std::string& directory) {
  SHOAL_ASSIGN_OR_RETURN(BpeModel model, LoadBpeModel(directory));
  if (!model.end_of_text) {
    SHOAL_ASSIGN_OR_RETURN(model.end_of_text, LoadEndToken(directory, model.names));
  }
  SHOAL_ASSIGN_OR_RETURN(auto pattern, WordPattern::Compile());
  SHOAL_ASSIGN_OR_RETURN(auto added, AddedTokens::New(model.added));
  return std::unique_ptr<Tokenizer>(
      std::make_unique<BpeTokenizer>(std::move(model), std::move(pattern), std::move(added)));
}

}  // namespace shoal::dataset
