// What generation reads beside a model: a record of a file of answers, and files that name stop
// tokens. Ids are of the vocabulary, in order, each once.

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <string>
#include <string_view>

#include "dataset/answer_records.h"
#include "dataset/stop_tokens.h"

namespace {

using shoal::Result;

// A token is a byte.
class ByteTokenizer final : public shoal::dataset::Tokenizer {
 public:
  void Encode(std::string_view text, std::vector<std::int32_t>* ids) const override {
    for (const char c : text) ids->push_back(static_cast<unsigned char>(c));
  }
  std::size_t FindBreak(std::string_view, std::size_t from) const override { return from; }
  Result<std::string> Decode(std::span<const std::int32_t> ids) const override {
    std::string text;
    for (const std::int32_t id : ids) text += static_cast<char>(id);
    return text;
  }
  std::uint32_t vocabulary() const override { return 256; }
  std::optional<std::int32_t> end_of_text() const override { return 0; }
  const shoal::dataset::Wrapping& wrapping() const override { return wrapping_; }
  const std::string& fingerprint() const override { return fingerprint_; }
  const std::vector<std::string>& notes() const override { return notes_; }

 private:
  const shoal::dataset::Wrapping wrapping_ = {};
  const std::string fingerprint_ = {};
  const std::vector<std::string> notes_ = {};
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  const auto record = shoal::dataset::ParseAnswerRecord(bytes);
  if (record.ok() && (record->prompt.empty() || record->answer.empty())) std::abort();
  const ByteTokenizer tokenizer;
  for (const shoal::dataset::StopTokenFiles& files :
       {shoal::dataset::StopTokenFiles{bytes, "", "", ""},
        shoal::dataset::StopTokenFiles{"", "", bytes, bytes}}) {
    const auto ids = shoal::dataset::FindStopTokens(files, tokenizer);
    if (!ids.ok()) continue;
    if (ids->empty() || ids->front() != 0 || ids->back() > 255) std::abort();
    if (std::adjacent_find(ids->begin(), ids->end(), std::greater_equal<>()) != ids->end()) {
      std::abort();
    }
  }
  return 0;
}
