#include "tests/quality/byte_windows.h"

#include <random>
#include <utility>

namespace shoal::quality {

std::vector<Window> SpacedWindows(const Text& text, std::uint64_t begin, std::uint64_t end,
                                  std::uint64_t count) {
  SHOAL_CHECK(count > 1 && end <= text->size() && begin + kWindowBytes <= end);
  std::vector<Window> windows;
  const std::uint64_t span = end - begin - kWindowBytes;
  for (std::uint64_t i = 0; i < count; ++i) {
    windows.push_back({text, begin + span * i / (count - 1)});
  }
  return windows;
}

std::vector<Window> RandomWindows(const Text& text, std::uint64_t begin, std::uint64_t end,
                                  std::uint64_t count, std::uint64_t seed) {
  SHOAL_CHECK(end <= text->size() && begin + kWindowBytes <= end);
  std::mt19937_64 random(seed);
  std::vector<Window> windows;
  for (std::uint64_t i = 0; i < count; ++i) {
    windows.push_back({text, begin + random() % (end - begin - kWindowBytes + 1)});
  }
  return windows;
}

ByteWindows::ByteWindows(std::vector<Window> train, const std::vector<Window>& held_out)
    : windows_(std::move(train)) {
  info_.row_tokens = kRowTokens;
  info_.vocabulary = 256;
  info_.train_rows = windows_.size();
  info_.validation_rows = held_out.size();
  windows_.insert(windows_.end(), held_out.begin(), held_out.end());
}

Status ByteWindows::AppendRow(SampleId sample, std::vector<std::int32_t>* tokens,
                              std::vector<std::int32_t>* labels) const {
  if (sample.value >= windows_.size()) return OutOfRange("there is no such window");
  const Window& window = windows_[sample.value];
  for (std::uint32_t i = 0; i < kRowTokens; ++i) {
    tokens->push_back(static_cast<unsigned char>((*window.text)[window.offset + i]));
    labels->push_back(static_cast<unsigned char>((*window.text)[window.offset + i + 1]));
  }
  return Status::Ok();
}

}  // namespace shoal::quality
