// A tokenizer whose ids anybody can work out: bytes, and a few longer tokens, the longest first.

#ifndef SHOAL_TESTS_UNIT_DATASET_PREPARE_BYTE_TOKENIZER_H_
#define SHOAL_TESTS_UNIT_DATASET_PREPARE_BYTE_TOKENIZER_H_

#include <string>
#include <utility>
#include <vector>

#include "dataset/tokenizer.h"

namespace shoal::dataset {

class ByteTokenizer final : public Tokenizer {
 public:
  // Ids of `longer` are 256 and so on. The end token is `end`, if it is not negative.
  explicit ByteTokenizer(std::vector<std::string> longer = {}, std::int32_t end = -1,
                         Wrapping wrapping = {})
      : longer_(std::move(longer)), wrapping_(std::move(wrapping)) {
    if (end >= 0) end_ = end;
  }

  void Encode(std::string_view text, std::vector<std::int32_t>* ids) const override {
    while (!text.empty()) {
      std::size_t size = 1;
      std::int32_t id = static_cast<unsigned char>(text[0]);
      for (std::size_t i = 0; i < longer_.size(); ++i) {
        if (text.starts_with(longer_[i]) && longer_[i].size() > size) {
          size = longer_[i].size();
          id = static_cast<std::int32_t>(256 + i);
        }
      }
      ids->push_back(id);
      text.remove_prefix(size);
    }
  }
  std::size_t FindBreak(std::string_view text, std::size_t) const override { return text.size(); }
  Result<std::string> Decode(std::span<const std::int32_t> ids) const override {
    std::string text;
    for (const std::int32_t id : ids) {
      if (id < 0 || static_cast<std::uint32_t>(id) >= vocabulary()) return OutOfRange("no such id");
      text += id < 256 ? std::string(1, static_cast<char>(id))
                       : longer_[static_cast<std::size_t>(id - 256)];
    }
    return text;
  }
  std::uint32_t vocabulary() const override {
    return static_cast<std::uint32_t>(256 + longer_.size());
  }
  std::optional<std::int32_t> end_of_text() const override { return end_; }
  const Wrapping& wrapping() const override { return wrapping_; }
  const std::string& fingerprint() const override { return fingerprint_; }
  const std::vector<std::string>& notes() const override { return notes_; }

 private:
  const std::vector<std::string> longer_;
  const Wrapping wrapping_;
  std::optional<std::int32_t> end_;
  const std::string fingerprint_ = std::string(64, 'a');
  const std::vector<std::string> notes_;
};

}  // namespace shoal::dataset

#endif  // SHOAL_TESTS_UNIT_DATASET_PREPARE_BYTE_TOKENIZER_H_
