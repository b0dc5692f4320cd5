// What the tests of storage/ share: folders that vanish, data paths, bytes and a tiny model.

#ifndef SHOAL_TESTS_UNIT_STORAGE_STORAGE_TEST_SUPPORT_H_
#define SHOAL_TESTS_UNIT_STORAGE_STORAGE_TEST_SUPPORT_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "storage/models/model_directory.h"
#include "storage/models/safetensors.h"
#include "tests/support/temporary_folder.h"

namespace shoal::storage {

#define ASSERT_OK(expression)                              \
  do {                                                     \
    const ::shoal::Status assert_ok_ = (expression);       \
    ASSERT_TRUE(assert_ok_.ok()) << assert_ok_.ToString(); \
  } while (false)
#define EXPECT_OK(expression)                              \
  do {                                                     \
    const ::shoal::Status expect_ok_ = (expression);       \
    EXPECT_TRUE(expect_ok_.ok()) << expect_ok_.ToString(); \
  } while (false)

using test_support::Environment;
using test_support::TemporaryFolder;

inline std::string ReadAll(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

inline void WriteAll(const std::string& path, std::string_view bytes) {
  std::ofstream out(path, std::ios::binary);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

inline std::span<const std::byte> Bytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

inline std::string RandomBytes(std::mt19937_64& random, std::size_t size) {
  std::string bytes(size, '\0');
  for (char& c : bytes) c = static_cast<char>(random());
  return bytes;
}

// Names of what lies in a folder, in order.
inline std::vector<std::string> NamesIn(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

// A GPT-2 so small that a test can write it: 2 layers, hidden 4, 6 positions, 7 tokens.
inline ModelLayout TinyLayout(bool tied = true, std::int64_t vocabulary = 7) {
  ModelLayout layout;
  layout.parts.push_back({"embedding", {{"wte.weight", {vocabulary, 4}}, {"wpe.weight", {6, 4}}}});
  for (const std::string layer : {"0", "1"}) {
    const std::string h = "h." + layer + ".";
    layout.parts.push_back({"layer." + layer,
                            {{h + "ln_1.weight", {4}},
                             {h + "attn.c_attn.weight", {4, 12}},
                             {h + "mlp.c_proj.weight", {16, 4}}}});
  }
  layout.parts.push_back(
      {"head", {{"ln_f.weight", {4}}, {tied ? "wte.weight" : "lm_head.weight", {vocabulary, 4}}}});
  layout.prefix = "transformer.";
  layout.without_prefix = {"lm_head.weight"};
  layout.buffer_ends = {".attn.bias", ".attn.masked_bias"};
  if (tied) layout.shared = "wte.weight", layout.copy = "lm_head.weight";
  layout.architecture = "GPT2LMHeadModel";
  return layout;
}

// Tensors with chosen names and bytes, and where to write them.
struct TensorSet {
  std::map<std::string, std::string> bytes;
  std::vector<TensorToWrite> list;

  void Add(const std::string& name, DType dtype, std::vector<std::int64_t> shape) {
    std::size_t size = DTypeBytes(dtype);
    for (const std::int64_t dimension : shape) size *= static_cast<std::size_t>(dimension);
    std::mt19937_64 random(std::hash<std::string>{}(name));
    std::string& data = bytes[name] = RandomBytes(random, size);
    list.push_back({name, dtype, std::move(shape), Bytes(data)});
  }
};

inline TensorSet TinyTensors(const ModelLayout& layout, const std::string& prefix, DType dtype) {
  TensorSet set;
  for (const ModelLayout::Part& part : layout.parts) {
    for (const auto& [name, shape] : part.tensors) {
      const std::string stored = (name == "lm_head.weight" ? "" : prefix) + name;
      if (set.bytes.count(stored) == 0) set.Add(stored, dtype, shape);
    }
  }
  return set;
}

}  // namespace shoal::storage

#endif  // SHOAL_TESTS_UNIT_STORAGE_STORAGE_TEST_SUPPORT_H_
