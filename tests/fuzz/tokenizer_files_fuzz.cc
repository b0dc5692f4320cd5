// A tokenizer.json, or vocabulary and merges with a NUL between, from anybody.

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "dataset/bpe_model.h"
#include "dataset/end_token.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto check = [](const shoal::Result<shoal::dataset::BpeModel>& model) {
    if (!model.ok()) return;
    if (model->bytes.size() != model->names.size() || model->names.size() < 256) std::abort();
    if (shoal::dataset::FingerprintOf(*model).size() != 64) std::abort();
  };
  check(shoal::dataset::ParseTokenizerJson(bytes));
  const std::size_t middle = bytes.find('\0');
  if (middle != std::string_view::npos) {
    check(shoal::dataset::ParseVocabAndMerges(bytes.substr(0, middle), bytes.substr(middle + 1)));
  }
  const auto id = shoal::dataset::FindEndToken({std::string(bytes), "", std::string(bytes)},
                                               std::vector<std::string>{"a", "</s>"});
  if (id.ok() && id->has_value() && (**id < 0 || **id > 1)) std::abort();
  return 0;
}
