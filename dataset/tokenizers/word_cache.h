// WordCache: the ids of recent short words. A newer word takes the place of an older one, so the
// size is bounded (about 1 MiB). Thread: one at a time.

#ifndef SHOAL_DATASET_TOKENIZERS_WORD_CACHE_H_
#define SHOAL_DATASET_TOKENIZERS_WORD_CACHE_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

namespace shoal::dataset {

class WordCache {
 public:
  static constexpr std::size_t kMaxWord = 15;

  // Appends the ids of `word`, which `encode(word, ids)` appends where they are not known.
  template <typename Encode>
  void Append(std::string_view word, std::vector<std::int32_t>* ids, Encode encode) {
    if (word.size() > kMaxWord) return encode(word, ids);
    std::array<std::uint64_t, 2> key;
    char bytes[16] = {};
    std::memcpy(bytes, word.data(), word.size());
    bytes[15] = static_cast<char>(word.size());
    std::memcpy(key.data(), bytes, sizeof(bytes));
    Slot& slot = slots_[Mix(key[0], key[1]) % kSlots];
    if (slot.key == key) {
      ids->insert(ids->end(), slot.ids.begin(), slot.ids.begin() + slot.count);
      return;
    }
    const std::size_t before = ids->size();
    encode(word, ids);
    const std::size_t count = ids->size() - before;
    if (count > kMaxIds) return;
    slot.key = key;
    slot.count = static_cast<std::uint32_t>(count);
    std::copy_n(ids->end() - static_cast<std::ptrdiff_t>(count), count, slot.ids.begin());
  }

 private:
  static constexpr std::size_t kSlots = 16384;
  static constexpr std::size_t kMaxIds = 11;

  struct Slot {
    std::array<std::uint64_t, 2> key{};  // the word, zeros, its length; {} is no word
    std::uint32_t count = 0;
    std::array<std::int32_t, kMaxIds> ids{};
  };

  static std::uint64_t Mix(std::uint64_t a, std::uint64_t b) {
    const std::uint64_t product = (a ^ (b >> 29) ^ 0x9e3779b97f4a7c15U) * 0xbf58476d1ce4e5b9U;
    const std::uint64_t mixed = (product ^ (product >> 32) ^ b) * 0x94d049bb133111ebU;
    return mixed ^ (mixed >> 31);
  }

  std::vector<Slot> slots_ = std::vector<Slot>(kSlots);
};

}  // namespace shoal::dataset

#endif  // SHOAL_DATASET_TOKENIZERS_WORD_CACHE_H_
