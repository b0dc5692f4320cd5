// TextWindows: rows of token ids cut out of texts at chosen places.
//
// A window of row_tokens + 1 ids gives row_tokens tokens and as many labels, so that a row's last
// token has a label, too. Training windows first, then held-out ones. Thread: any.

#ifndef SHOAL_TESTS_QUALITY_TEXT_WINDOWS_H_
#define SHOAL_TESTS_QUALITY_TEXT_WINDOWS_H_

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "dataset/prepared_data.h"
#include "dataset/tokenizer.h"

namespace shoal::quality {

inline constexpr std::uint32_t kRowTokens = 128;
inline constexpr std::uint64_t kWindowTokens = kRowTokens + 1;

// Token ids.
using Text = std::shared_ptr<const std::vector<std::int32_t>>;

// The ids of `text`; its bytes where there is no tokenizer.
Text EncodeText(std::string_view text, const dataset::Tokenizer* tokenizer);

struct Window {
  Text text;
  std::uint64_t offset = 0;  // in tokens
};

// `count` windows, 2 or more, whose starts are evenly spaced over `text`.
std::vector<Window> SpacedWindows(const Text& text, std::uint64_t count);
// `count` windows at random places of `text`, drawn from `seed`.
std::vector<Window> RandomWindows(const Text& text, std::uint64_t count, std::uint64_t seed);

class TextWindows final : public dataset::PreparedData {
 public:
  // All ids are below `vocabulary`.
  TextWindows(std::uint32_t vocabulary, std::vector<Window> train,
              const std::vector<Window>& held_out);

  const dataset::DataInfo& info() const override { return info_; }
  Status AppendRow(SampleId sample, std::vector<std::int32_t>* tokens,
                   std::vector<std::int32_t>* labels,
                   std::vector<std::int32_t>* segments) const override;
  std::uint32_t LabelCount(SampleId sample) const override {
    return sample.value < windows_.size() ? kRowTokens : 0;
  }

 private:
  dataset::DataInfo info_;
  std::vector<Window> windows_;
};

}  // namespace shoal::quality

#endif  // SHOAL_TESTS_QUALITY_TEXT_WINDOWS_H_
