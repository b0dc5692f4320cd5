#include "bench/bench_files.h"

#include <nlohmann/json.hpp>

#include <cstddef>
#include <vector>

#include "common/bytes.h"
#include "common/checksum.h"
#include "common/file.h"
#include "dataset/data_header.h"

namespace shoal::bench {
namespace {

constexpr std::uint32_t kVocabulary = 256;
constexpr std::uint64_t kTokensMax = 1ull << 28;

std::string ConfigJson(const BenchFiles& files) {
  return nlohmann::ordered_json{{"model_type", "gpt2"},
                                {"n_layer", files.stages},
                                {"n_embd", files.hidden},
                                {"n_head", 1},
                                {"n_positions", files.row_tokens},
                                {"vocab_size", kVocabulary},
                                {"tie_word_embeddings", false}}
             .dump(2) +
         "\n";
}

// Token ids that count upwards: a synthetic stage only counts their labels.
std::string DataFile(const BenchFiles& files) {
  dataset::DataHeader header;
  header.row_tokens = files.row_tokens;
  header.vocabulary = kVocabulary;
  header.train = {files.rows, files.rows * files.row_tokens};
  header.text_tokens = header.train.tokens;
  std::vector<std::byte> payload(header.payload_bytes());
  for (std::size_t i = 0; i < payload.size(); i += 2) {
    StoreLittle(payload.data() + i, static_cast<std::uint16_t>(i / 2 % kVocabulary));
  }
  header.payload_checksum = Checksum64(payload);
  const auto encoded = dataset::EncodeDataHeader(header);
  std::string text(reinterpret_cast<const char*>(encoded.data()), encoded.size());
  text.append(reinterpret_cast<const char*>(payload.data()), payload.size());
  return text;
}

}  // namespace

Status WriteBenchFiles(const BenchFiles& files) {
  if (files.stages == 0 || files.hidden == 0 || files.rows == 0 ||
      files.row_tokens < dataset::kMinRowTokens || files.row_tokens > dataset::kMaxRowTokens ||
      files.rows > kTokensMax / files.row_tokens) {
    return InvalidArgument(
        "stages, hidden, rows and row_tokens must be positive, rows of 2 to "
        "65536 tokens, 2^28 tokens in all at most");
  }
  SHOAL_RETURN_IF_ERROR(WriteFileAtomic(files.directory + "/config.json", ConfigJson(files)));
  return WriteFileAtomic(files.directory + "/data.shoal", DataFile(files));
}

}  // namespace shoal::bench
