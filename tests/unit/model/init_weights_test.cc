#include "model/init_weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "common/file.h"
#include "model/families/open_model.h"
#include "tests/support/temporary_folder.h"

namespace shoal::model {
namespace {

namespace fs = std::filesystem;

class InitWeights : public ::testing::Test {
 protected:
  InitWeights() {
    fs::create_directories(folder_ + "/in");
    const std::string source = test_support::Environment("SHOAL_TEST_DATA") + "/gpt2_mini_random";
    fs::copy_file(source + "/config.json", folder_ + "/in/config.json");
    EXPECT_TRUE(WriteFileAtomic(folder_ + "/in/vocab.json", "{}").ok());
  }

  const test_support::TemporaryFolder temporary_;
  const std::string folder_ = temporary_.path();
};

std::vector<float> Values(const storage::ModelDirectory& directory, const std::string& part,
                          const std::string& name) {
  auto tensors = directory.Part(part);
  EXPECT_TRUE(tensors.ok()) << tensors.status().ToString();
  const storage::TensorView& view = tensors->at(name);
  std::vector<float> values(view.data.size() / sizeof(float));
  std::memcpy(values.data(), view.data.data(), view.data.size());
  return values;
}

double Deviation(const std::vector<float>& values) {
  double squares = 0;
  for (float value : values) squares += static_cast<double>(value) * value;
  return std::sqrt(squares / static_cast<double>(values.size()));
}

TEST_F(InitWeights, WritesADirectoryWithGpt2Initialisation) {
  const std::string out = folder_ + "/out";
  const Status status = InitModelDirectory(folder_ + "/in/config.json", out, 1);
  ASSERT_TRUE(status.ok()) << status.ToString();
  const auto opened = OpenModel(out);
  ASSERT_TRUE(opened.ok()) << opened.status().ToString();
  const storage::ModelDirectory& directory = *opened->directory;
  const double range = opened->spec.embedding.tokens.deviation;
  EXPECT_NEAR(Deviation(Values(directory, "embedding", "wte.weight")), range, 0.02 * range);
  EXPECT_NEAR(Deviation(Values(directory, "layer.2", "h.2.attn.c_attn.weight")), range,
              0.05 * range);
  const double residual = range / std::sqrt(2.0 * 4);
  for (const char* name : {"h.3.attn.c_proj.weight", "h.3.mlp.c_proj.weight"}) {
    EXPECT_NEAR(Deviation(Values(directory, "layer.3", name)), residual, 0.06 * residual);
  }
  EXPECT_THAT(Values(directory, "layer.0", "h.0.mlp.c_fc.bias"), ::testing::Each(0.0f));
  EXPECT_THAT(Values(directory, "head", "ln_f.weight"), ::testing::Each(1.0f));
  EXPECT_THAT(Values(directory, "head", "ln_f.bias"), ::testing::Each(0.0f));
  EXPECT_TRUE(fs::exists(out + "/vocab.json"));
  EXPECT_FALSE(fs::exists(out + ".init-parts"));
  EXPECT_NE(Values(directory, "layer.0", "h.0.attn.c_attn.weight"),
            Values(directory, "layer.1", "h.1.attn.c_attn.weight"));
}

TEST_F(InitWeights, DependsOnTheSeedOnly) {
  for (std::uint64_t i = 0; i < 3; ++i) {
    const std::string out = folder_ + "/out" + std::to_string(i);
    ASSERT_TRUE(InitModelDirectory(folder_ + "/in/config.json", out, i / 2).ok());
  }
  const auto bytes = [&](int i) {
    return *ReadFile(folder_ + "/out" + std::to_string(i) + "/model.safetensors", 1 << 20);
  };
  EXPECT_EQ(bytes(0), bytes(1));
  EXPECT_NE(bytes(0), bytes(2));
}

TEST_F(InitWeights, RefusesWhatIsThereOrWrong) {
  EXPECT_EQ(InitModelDirectory(folder_ + "/in/config.json", folder_ + "/in", 0).code(),
            StatusCode::kAlreadyExists);
  EXPECT_EQ(InitModelDirectory(folder_ + "/none.json", folder_ + "/out", 0).code(),
            StatusCode::kNotFound);
  ASSERT_TRUE(WriteFileAtomic(folder_ + "/bad.json", "{\"model_type\": \"bert\"}").ok());
  EXPECT_FALSE(InitModelDirectory(folder_ + "/bad.json", folder_ + "/out", 0).ok());
  EXPECT_FALSE(fs::exists(folder_ + "/out"));
}

}  // namespace
}  // namespace shoal::model
