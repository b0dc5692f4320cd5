// ByteWindows: rows of bytes cut out of texts at chosen places; the vocabulary is the 256 bytes.
//
// A window of row_tokens + 1 bytes gives row_tokens tokens and as many labels, so that a row's last
// token has a label, too. Training windows first, then held-out ones. Thread: any.

#ifndef SHOAL_TESTS_QUALITY_BYTE_WINDOWS_H_
#define SHOAL_TESTS_QUALITY_BYTE_WINDOWS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "dataset/prepared_data.h"

namespace shoal::quality {

inline constexpr std::uint32_t kRowTokens = 128;
inline constexpr std::uint64_t kWindowBytes = kRowTokens + 1;

using Text = std::shared_ptr<const std::string>;

struct Window {
  Text text;
  std::uint64_t offset = 0;
};

// `count` windows whose starts are evenly spaced over bytes [begin, end) of `text`.
std::vector<Window> SpacedWindows(const Text& text, std::uint64_t begin, std::uint64_t end,
                                  std::uint64_t count);
// `count` windows at random places of bytes [begin, end), drawn from `seed`.
std::vector<Window> RandomWindows(const Text& text, std::uint64_t begin, std::uint64_t end,
                                  std::uint64_t count, std::uint64_t seed);

class ByteWindows final : public dataset::PreparedData {
 public:
  ByteWindows(std::vector<Window> train, const std::vector<Window>& held_out);

  const dataset::DataInfo& info() const override { return info_; }
  Status AppendRow(SampleId sample, std::vector<std::int32_t>* tokens,
                   std::vector<std::int32_t>* labels) const override;
  std::uint32_t LabelCount(SampleId sample) const override {
    return sample.value < windows_.size() ? kRowTokens : 0;
  }

 private:
  dataset::DataInfo info_;
  std::vector<Window> windows_;
};

}  // namespace shoal::quality

#endif  // SHOAL_TESTS_QUALITY_BYTE_WINDOWS_H_
