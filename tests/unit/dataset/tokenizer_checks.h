// What tests of tokenizers read and compare.

#ifndef SHOAL_TESTS_UNIT_DATASET_TOKENIZER_CHECKS_H_
#define SHOAL_TESTS_UNIT_DATASET_TOKENIZER_CHECKS_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/file.h"
#include "dataset/sha256.h"
#include "dataset/tokenizer.h"

namespace shoal::dataset {

using Ids = std::vector<std::int32_t>;

inline std::string Read(const std::string& path) {
  auto bytes = ReadFile(path, std::uint64_t{1} << 30);
  EXPECT_TRUE(bytes.ok()) << bytes.status().ToString();
  return bytes.ok() ? *bytes : "";
}

inline std::unique_ptr<Tokenizer> Load(const std::string& directory) {
  auto tokenizer = LoadTokenizer(directory);
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status().ToString();
  return tokenizer.ok() ? std::move(*tokenizer) : nullptr;
}

inline Ids Encode(const Tokenizer& tokenizer, std::string_view text) {
  Ids ids;
  tokenizer.Encode(text, &ids);
  return ids;
}

// SHA-256 (hex) of ids below 65,536, two bytes each.
inline std::string HashOf(const Ids& ids) {
  Sha256 hash;
  for (const std::int32_t id : ids) {
    const char bytes[2] = {static_cast<char>(id & 0xff), static_cast<char>(id >> 8)};
    hash.Update({bytes, 2});
  }
  return DigestToHex(hash.Finish());
}

}  // namespace shoal::dataset

#endif  // SHOAL_TESTS_UNIT_DATASET_TOKENIZER_CHECKS_H_
