#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "common/file.h"
#include "storage/models/safetensors.h"
#include "tests/unit/model/stage_pipeline.h"

namespace shoal::model {
namespace {

using ::testing::HasSubstr;

TEST(TorchGpt2StageFiles, SaveAndLoadContinueBitForBitOnAnotherCut) {
  const std::string folder = Scratch("continue");
  std::filesystem::create_directories(folder);
  const auto train = [](StagePipeline& pipeline, std::uint64_t from, std::uint64_t to) {
    double sum = 0;
    for (std::uint64_t step = from; step < to; ++step) {
      const StepLoss loss = pipeline.RunMicroBatch({step, 0}, RandomBatch(2, 16, 512, 0.2, step));
      pipeline.Apply(step, loss.labels, 1e-3);
      sum = loss.sum;
    }
    return sum;
  };
  StagePipeline pipeline(MiniModel(), 2, {});
  train(pipeline, 0, 3);
  std::map<std::string, std::string> weights;
  std::map<std::string, std::string> moments;
  for (std::size_t s = 0; s < 2; ++s) {
    ASSERT_TRUE(pipeline.stage(s).Save(folder).ok());
    for (const std::string& part : pipeline.stage(s).parts()) {
      weights[part] = folder + "/" + part + ".safetensors";
      moments[part] = folder + "/" + part + ".optimizer.safetensors";
    }
  }
  const double want = train(pipeline, 3, 6);
  StagePipeline loaded(MiniModel(), 2, {});
  for (std::size_t s = 0; s < 2; ++s) ASSERT_TRUE(loaded.stage(s).Load(weights, moments).ok());
  EXPECT_EQ(train(loaded, 3, 6), want);
  EXPECT_EQ(loaded.Checksums(), pipeline.Checksums());
  StagePipeline other(MiniModel(), 3, {});
  for (std::size_t s = 0; s < 3; ++s) ASSERT_TRUE(other.stage(s).Load(weights, moments).ok());
  EXPECT_NEAR(train(other, 3, 6), want, 1e-4 * want);
  // Without optimizer state the continuation differs.
  StagePipeline fresh(MiniModel(), 2, {});
  for (std::size_t s = 0; s < 2; ++s) ASSERT_TRUE(fresh.stage(s).Load(weights, {}).ok());
  train(fresh, 3, 6);
  EXPECT_NE(fresh.Checksums(), pipeline.Checksums());
  weights.erase("layer.1");
  const Status missing = loaded.stage(0).Load(weights, {});
  EXPECT_THAT(missing.message(), HasSubstr("layer.1"));
  weights["layer.1"] = folder + "/layer.0.safetensors";
  EXPECT_THAT(loaded.stage(0).Load(weights, {}).message(), HasSubstr("is missing"));
  std::filesystem::remove_all(folder);
}

// Writes `part` with every value given as 16 bits, and as the fp32 value they stand for.
void WriteHalfPart(const std::string& folder, const ModelSpec& spec, const std::string& part,
                   storage::DType dtype) {
  std::map<std::string, std::vector<std::uint16_t>> halves;
  std::map<std::string, std::vector<float>> wide;
  storage::TensorMap half_tensors;
  storage::TensorMap wide_tensors;
  for (const auto& [name, tensor] : spec.PartTensors(part)) {
    const auto& shape = tensor.shape;
    std::size_t count = 1;
    for (std::int64_t size : shape) count *= static_cast<std::size_t>(size);
    for (std::size_t i = 0; i < count; ++i) {
      // F16: 1.0 is 0x3c00 with 10 bits of fraction; BF16: 1.0 is 0x3f80 with 7.
      const std::size_t fraction = i % (dtype == storage::DType::kF16 ? 1024 : 128);
      const int base = dtype == storage::DType::kF16 ? 0x3c00 : 0x3f80;
      halves[name].push_back(static_cast<std::uint16_t>(base + static_cast<int>(fraction)));
      const float scale = dtype == storage::DType::kF16 ? 0x1p-10f : 0x1p-7f;
      wide[name].push_back(1 + static_cast<float>(fraction) * scale);
    }
    half_tensors[name] = {dtype, shape, std::as_bytes(std::span(halves[name]))};
    wide_tensors[name] = {storage::DType::kF32, shape, std::as_bytes(std::span(wide[name]))};
  }
  ASSERT_TRUE(storage::WritePart(folder + "/half." + part, half_tensors).ok());
  ASSERT_TRUE(storage::WritePart(folder + "/wide." + part, wide_tensors).ok());
}

TEST(TorchGpt2StageFiles, LoadsSixteenBitWeightsExactly) {
  const std::string folder = Scratch("halves");
  std::filesystem::create_directories(folder);
  StagePipeline pipeline(MiniModel(), 2, {});
  for (storage::DType dtype : {storage::DType::kF16, storage::DType::kBF16}) {
    for (std::size_t s = 0; s < 2; ++s) {
      std::map<std::string, std::string> half;
      std::map<std::string, std::string> wide;
      for (const std::string& part : pipeline.stage(s).parts()) {
        WriteHalfPart(folder, pipeline.spec(), part, dtype);
        half[part] = folder + "/half." + part;
        wide[part] = folder + "/wide." + part;
      }
      const std::uint64_t before = pipeline.stage(s).WeightChecksum();
      ASSERT_TRUE(pipeline.stage(s).Load(half, {}).ok());
      const std::uint64_t loaded = pipeline.stage(s).WeightChecksum();
      EXPECT_NE(loaded, before);
      ASSERT_TRUE(pipeline.stage(s).Load(wide, {}).ok());
      EXPECT_EQ(pipeline.stage(s).WeightChecksum(), loaded);
      // Optimizer state is fp32 or nothing.
      EXPECT_FALSE(pipeline.stage(s).Load(wide, half).ok());
    }
  }
  std::filesystem::remove_all(folder);
}

// With the moments in files: what is loaded is read from them, what is saved passes through.
TEST(TorchGpt2StageFiles, AStageWithoutMomentsReadsAndSavesThemAllTheSame) {
  const std::string folder = Scratch("moments");
  for (const char* name : {"/full", "/lean", "/none"}) {
    std::filesystem::create_directories(folder + name);
  }
  StagePipeline pipeline(MiniModel(), 1, {});
  for (std::uint64_t step = 0; step < 2; ++step) {
    const StepLoss loss = pipeline.RunMicroBatch({step, 0}, RandomBatch(2, 16, 512, 0.2, step));
    pipeline.Apply(step, loss.labels, 1e-3);
  }
  StageModel& full = pipeline.stage(0);
  ASSERT_TRUE(full.Save(folder + "/full").ok());
  std::map<std::string, std::string> weights, moments;
  for (const std::string& part : full.parts()) {
    weights[part] = folder + "/full/" + part + ".safetensors";
    moments[part] = folder + "/full/" + part + ".optimizer.safetensors";
  }
  StageOptions options = full.options();
  options.held = ZeroMode::kZero1;
  EXPECT_THAT(NewTorchStage(full.spec(), options).status().message(), HasSubstr("folder"));
  options.state_folder = folder + "/state";
  auto made = NewTorchStage(full.spec(), options);
  ASSERT_TRUE(made.ok()) << made.status().ToString();
  StageModel& lean = **made;
  EXPECT_EQ(lean.StateBytes(), 8 * lean.state_size());
  ASSERT_TRUE(lean.Load(weights, moments).ok());
  EXPECT_THAT(lean.Apply(2, 1, 1, 1e-3).message(), HasSubstr("no optimizer state"));
  EXPECT_THAT(lean.Save(folder + "/none").message(), HasSubstr("0 of"));

  // Pieces that end anywhere, the second moment first.
  for (const StateVector which : {StateVector::kSecondMoment, StateVector::kFirstMoment}) {
    std::vector<float> want(full.state_size()), have(full.state_size());
    ASSERT_TRUE(full.Read(which, 0, want).ok());
    const std::size_t cut = want.size() / 3 + 17;
    ASSERT_TRUE(lean.Read(which, 0, std::span(have).first(cut)).ok());
    ASSERT_TRUE(lean.Read(which, cut, std::span(have).subspan(cut)).ok());
    EXPECT_EQ(have, want);
    ASSERT_TRUE(lean.Write(which, cut, std::span(have).subspan(cut)).ok());
    ASSERT_TRUE(lean.Write(which, 0, std::span(have).first(cut)).ok());
  }
  ASSERT_TRUE(lean.Save(folder + "/lean").ok());
  for (const auto& file : std::filesystem::directory_iterator(folder + "/full")) {
    const std::string name = file.path().filename().string();
    const auto want = ReadFile(folder + "/full/" + name, 1 << 24);
    const auto have = ReadFile(folder + "/lean/" + name, 1 << 24);
    ASSERT_TRUE(want.ok() && have.ok()) << name;
    EXPECT_TRUE(*want == *have) << name;
  }
  EXPECT_FALSE(std::filesystem::exists(options.state_folder));
  // Without optimizer files moments are zero.
  ASSERT_TRUE(lean.Load(weights, {}).ok());
  std::vector<float> zeros(lean.state_size(), 1);
  ASSERT_TRUE(lean.Read(StateVector::kFirstMoment, 0, zeros).ok());
  EXPECT_EQ(zeros, std::vector<float>(lean.state_size()));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace shoal::model
