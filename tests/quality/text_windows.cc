#include "tests/quality/text_windows.h"

#include <random>
#include <utility>

namespace shoal::quality {

Text EncodeText(std::string_view text, const dataset::Tokenizer* tokenizer) {
  auto ids = std::make_shared<std::vector<std::int32_t>>();
  if (tokenizer != nullptr) {
    tokenizer->Encode(text, ids.get());
  } else {
    ids->reserve(text.size());
    for (const char byte : text) ids->push_back(static_cast<unsigned char>(byte));
  }
  return ids;
}

std::vector<Window> SpacedWindows(const Text& text, std::uint64_t count) {
  SHOAL_CHECK(count > 1 && kWindowTokens <= text->size());
  std::vector<Window> windows;
  const std::uint64_t span = text->size() - kWindowTokens;
  for (std::uint64_t i = 0; i < count; ++i) windows.push_back({text, span * i / (count - 1)});
  return windows;
}

std::vector<Window> RandomWindows(const Text& text, std::uint64_t count, std::uint64_t seed) {
  SHOAL_CHECK(kWindowTokens <= text->size());
  std::mt19937_64 random(seed);
  std::vector<Window> windows;
  for (std::uint64_t i = 0; i < count; ++i) {
    windows.push_back({text, random() % (text->size() - kWindowTokens + 1)});
  }
  return windows;
}

TextWindows::TextWindows(std::uint32_t vocabulary, std::vector<Window> train,
                         const std::vector<Window>& held_out)
    : windows_(std::move(train)) {
  info_.row_tokens = kRowTokens;
  info_.vocabulary = vocabulary;
  info_.train_rows = windows_.size();
  info_.validation_rows = held_out.size();
  windows_.insert(windows_.end(), held_out.begin(), held_out.end());
}

Status TextWindows::AppendRow(SampleId sample, std::vector<std::int32_t>* tokens,
                              std::vector<std::int32_t>* labels,
                              std::vector<std::int32_t>* /*segments*/) const {
  if (sample.value >= windows_.size()) return OutOfRange("there is no such window");
  const Window& window = windows_[sample.value];
  const auto first = window.text->begin() + static_cast<std::ptrdiff_t>(window.offset);
  tokens->insert(tokens->end(), first, first + kRowTokens);
  labels->insert(labels->end(), first + 1, first + 1 + kRowTokens);
  return Status::Ok();
}

}  // namespace shoal::quality
