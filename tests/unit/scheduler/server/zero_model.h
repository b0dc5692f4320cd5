// A model directory that a scheduler can serve.

#ifndef SHOAL_TESTS_UNIT_SCHEDULER_SERVER_ZERO_MODEL_H_
#define SHOAL_TESTS_UNIT_SCHEDULER_SERVER_ZERO_MODEL_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "common/file.h"
#include "model/families/family.h"
#include "model/families/open_model.h"
#include "storage/models/safetensors.h"

namespace shoal::scheduler {

inline std::string Source(const std::string& path) {
  const char* source = std::getenv("SHOAL_SOURCE_DIR");
  return (source == nullptr ? "." : std::string(source)) + "/" + path;
}

// A model directory with the configuration and tokenizer of examples/tiny-gpt2 and weights of
// zero.
inline void WriteModel(const std::string& path) {
  std::filesystem::create_directories(path);
  for (const auto& entry : std::filesystem::directory_iterator(Source("examples/tiny-gpt2"))) {
    std::filesystem::copy(entry.path(), path);
  }
  const auto json = ReadFile(path + "/config.json", 1 << 20);
  ASSERT_TRUE(json.ok());
  const auto config = model::ParseModelSpec(*json, "config.json");
  ASSERT_TRUE(config.ok()) << config.status().ToString();
  std::vector<storage::TensorToWrite> tensors;
  std::size_t largest = 0;
  for (const storage::ModelLayout::Part& part : model::LayoutOf(*config).parts) {
    for (const auto& [name, shape] : part.tensors) {
      const bool again = std::any_of(tensors.begin(), tensors.end(),
                                     [&, &key = name](const auto& t) { return t.name == key; });
      if (again) continue;
      storage::TensorToWrite tensor{name, storage::DType::kF16, shape, {}};
      std::size_t bytes = 2;
      for (const std::int64_t size : shape) bytes *= static_cast<std::size_t>(size);
      largest = std::max(largest, bytes);
      tensors.push_back(tensor);
    }
  }
  const std::vector<std::byte> zeros(largest);
  for (storage::TensorToWrite& tensor : tensors) {
    std::size_t bytes = 2;
    for (const std::int64_t size : tensor.shape) bytes *= static_cast<std::size_t>(size);
    tensor.data = std::span(zeros).first(bytes);
  }
  const Status written =
      storage::WriteSafetensors(path + "/model.safetensors", tensors, {{"format", "pt"}});
  ASSERT_TRUE(written.ok()) << written.ToString();
}

}  // namespace shoal::scheduler

#endif  // SHOAL_TESTS_UNIT_SCHEDULER_SERVER_ZERO_MODEL_H_
