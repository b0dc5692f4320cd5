// A text file or a line of it: its kind, and the words of what it holds, which must give it back.

#include <cstdint>
#include <cstdlib>
#include <string>

#include "dataset/text_kind.h"
#include "dataset/text_reader.h"
#include "dataset/word_splitter.h"

namespace {

void CheckSplit(std::string_view text) {
  static const auto* const kPattern = new std::shared_ptr<const shoal::dataset::WordPattern>(
      *shoal::dataset::WordPattern::Compile());
  shoal::dataset::WordSplitter splitter(*kPattern);
  splitter.Start(text);
  std::string joined;
  for (std::string_view word; splitter.Next(&word);) {
    if (word.empty()) std::abort();
    joined += word;
  }
  if (joined != text) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  std::string text;
  if (shoal::dataset::ParseJsonLine(bytes, &text).ok()) CheckSplit(text);
  CheckSplit(bytes);
  // A line that reads as one with a text is of no kind that is refused, but for its first bytes.
  const auto kind = shoal::dataset::KindOfText(bytes);
  if (!text.empty() && bytes.starts_with("{\"text\":") &&
      kind != shoal::dataset::TextKind::kJsonLines && bytes.find('\n') == std::string_view::npos &&
      bytes.find('\0') == std::string_view::npos) {
    std::abort();
  }
  return 0;
}
