#include "replica/collective/ring/ring_merge.h"

#include <algorithm>

#include "replica/collective/one_bit.h"

namespace shoal::collective {
namespace {

template <typename T>
std::span<T> As(std::span<std::byte> bytes) {
  return {reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T)};
}
template <typename T>
std::span<const T> As(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
}

class SumMerge final : public RingMerge {
 public:
  RingKind kind() const override { return RingKind::kSum; }
  std::size_t element_bytes() const override { return sizeof(float); }
  std::string spec() const override { return "sum"; }
  Status Check(std::size_t, std::span<const std::byte>) const override { return Status::Ok(); }
  void Merge(const MergeContext&, std::span<const std::byte> received,
             std::span<std::byte> own) const override {
    const std::span<const float> from = As<float>(received);
    const std::span<float> into = As<float>(own);
    for (std::size_t i = 0; i < into.size(); ++i) into[i] = from[i] + into[i];
  }
};

class OneBitMerge final : public RingMerge {
 public:
  OneBitMerge(std::uint64_t seed, std::size_t signs, std::size_t marks)
      : seed_(seed), signs_(signs), marks_(marks) {}
  RingKind kind() const override { return RingKind::kOneBit; }
  std::size_t element_bytes() const override { return sizeof(std::uint64_t); }
  std::string spec() const override {
    return "onebit seed=" + std::to_string(seed_) + " signs=" + std::to_string(signs_) +
           " marks=" + std::to_string(marks_);
  }

  Status Check(std::size_t in_vector, std::span<const std::byte> received) const override {
    const std::span<const std::uint64_t> words = As<std::uint64_t>(received);
    const std::size_t sign_words = SignWords(signs_), all = sign_words + SignWords(marks_);
    if (UnusedAreZero(words, in_vector, sign_words, signs_) &&
        UnusedAreZero(words, in_vector, all, marks_)) {
      return Status::Ok();
    }
    return InvalidArgument("unused bits behind the vector are set");
  }

  void Merge(const MergeContext& context, std::span<const std::byte> received,
             std::span<std::byte> own) const override {
    const std::span<const std::uint64_t> from = As<std::uint64_t>(received);
    const std::span<std::uint64_t> into = As<std::uint64_t>(own);
    const std::size_t sign_words = SignWords(signs_);
    const std::size_t n =
        context.in_vector < sign_words ? std::min(into.size(), sign_words - context.in_vector) : 0;
    const MergeNoise noise(seed_, context.round, static_cast<std::uint32_t>(context.slice),
                           RingDrawOf(context.phase, context.hop, context.member));
    MergeSigns(from.first(n), context.received, context.own, noise, context.in_slice,
               into.first(n));
    for (std::size_t i = n; i < into.size(); ++i) into[i] |= from[i];
  }

 private:
  // Looks at the word before `end`, the last of `bits` bits, if it is among `words`.
  static bool UnusedAreZero(std::span<const std::uint64_t> words, std::size_t in_vector,
                            std::size_t end, std::size_t bits) {
    if (bits == 0 || end <= in_vector || end - in_vector > words.size()) return true;
    const std::size_t used = bits % kSignsPerWord;
    return used == 0 || words[end - in_vector - 1] >> used == 0;
  }

  const std::uint64_t seed_;
  const std::size_t signs_, marks_;
};

}  // namespace

std::shared_ptr<const RingMerge> NewSumMerge() { return std::make_shared<SumMerge>(); }

std::shared_ptr<const RingMerge> NewOneBitMerge(std::uint64_t seed, std::size_t signs,
                                                std::size_t marks) {
  return std::make_shared<OneBitMerge>(seed, signs, marks);
}

}  // namespace shoal::collective
