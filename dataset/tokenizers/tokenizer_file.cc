#include "dataset/tokenizers/tokenizer_file.h"

#include <bit>
#include <string_view>

#include "common/bytes.h"
#include "dataset/sha256.h"

namespace shoal::dataset {
namespace {

class Fingerprint {
 public:
  void Add(std::size_t number) {
    std::byte bytes[8];
    StoreLittle<std::uint64_t>(bytes, number);
    hash_.Update({reinterpret_cast<const char*>(bytes), sizeof(bytes)});
  }
  void Add(const std::string& text) {
    Add(text.size());
    hash_.Update(text);
  }
  void AddHead(std::string_view text) { hash_.Update(text); }
  std::string Finish() { return DigestToHex(hash_.Finish()); }

 private:
  Sha256 hash_;
};

}  // namespace

std::string FingerprintOf(const TokenizerFile& file) {
  Fingerprint hash;
  const auto* bpe = std::get_if<BpeModel>(&file.model);
  hash.AddHead(bpe != nullptr && file.settings.empty() ? "shoal bpe 1\n" : "shoal tokenizer 1\n");
  hash.Add(file.names.size());
  for (const std::string& name : file.names) hash.Add(name);
  if (bpe != nullptr) {
    hash.Add(bpe->merges.size());
    for (const BpeMerge& merge : bpe->merges) {
      hash.Add(static_cast<std::size_t>(merge.left));
      hash.Add(static_cast<std::size_t>(merge.right));
    }
  } else if (const auto* unigram = std::get_if<UnigramModel>(&file.model)) {
    for (const double score : unigram->scores) hash.Add(std::bit_cast<std::uint64_t>(score));
  }
  if (!file.settings.empty()) hash.Add(file.settings);
  return hash.Finish();
}

}  // namespace shoal::dataset
