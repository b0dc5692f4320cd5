#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>

#include "common/file.h"
#include "model/families/open_model.h"
#include "model/init_weights.h"
#include "storage/models/safetensors.h"
#include "tests/unit/model/stage_pipeline.h"

namespace shoal::model {
namespace {

using ::testing::HasSubstr;

template <typename T>
std::vector<T> Values(const storage::TensorView& view) {
  std::vector<T> values(view.data.size() / sizeof(T));
  std::memcpy(values.data(), view.data.data(), view.data.size());
  return values;
}

// The golden micro-batch: labels are the next token, none at the last place.
TestBatch GoldenBatch(const storage::SafetensorsFile& golden) {
  const storage::TensorView& ids = golden.tensors().at("input_ids");
  TestBatch batch;
  batch.rows = static_cast<std::uint32_t>(ids.shape[0]);
  batch.tokens = static_cast<std::uint32_t>(ids.shape[1]);
  for (std::int64_t id : Values<std::int64_t>(ids)) {
    batch.token_ids.push_back(static_cast<std::int32_t>(id));
  }
  for (std::size_t i = 0; i < batch.token_ids.size(); ++i) {
    const bool end = (i + 1) % batch.tokens == 0;
    batch.labels.push_back(end ? -100 : batch.token_ids[i + 1]);
  }
  for (std::uint32_t row = 0; row < batch.rows; ++row) batch.samples.push_back({row});
  return batch;
}

void CheckGolden(const std::string& directory, std::uint32_t stages) {
  auto golden = storage::OpenSafetensors(directory + "/golden.safetensors");
  ASSERT_TRUE(golden.ok()) << golden.status().ToString();
  const TestBatch batch = GoldenBatch(**golden);
  const auto& tensors = (*golden)->tensors();
  StagePipeline pipeline(directory, stages, {});
  std::vector<std::vector<float>> boundaries;
  const StepLoss loss = pipeline.Forward({0, 0}, batch, &boundaries);
  EXPECT_EQ(loss.labels, batch.rows * (batch.tokens - 1));
  const double want = Values<double>(tensors.at("mean_nll"))[0];
  EXPECT_NEAR(loss.sum / static_cast<double>(loss.labels), want, 1e-5 * want);
  for (std::size_t s = 0; s + 1 < stages; ++s) {
    const std::uint32_t layer = pipeline.stage(s).options().range.last_layer;
    const auto hidden = Values<float>(tensors.at("hidden." + std::to_string(layer)));
    EXPECT_LT(RelativeDifference(boundaries[s], hidden), 1e-5) << "boundary " << s;
  }
  const bool whole = tensors.contains("logits");
  const storage::TensorView& view = tensors.at(whole ? "logits" : "logits.first_256");
  const std::size_t vocabulary = pipeline.spec().vocabulary;
  const auto columns = static_cast<std::size_t>(view.shape.back());
  std::vector<float> logits(batch.token_ids.size() * vocabulary);
  MicroBatch last{{}, batch.rows, batch.tokens, batch.samples, batch.token_ids, {}, {}};
  if (stages > 1) last.input = boundaries.back();
  ASSERT_TRUE(pipeline.stage(stages - 1).Logits(last, false, logits).ok());
  std::vector<float> cut;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (i % vocabulary < columns) cut.push_back(logits[i]);
  }
  EXPECT_LT(RelativeDifference(cut, Values<float>(view)), 1e-5);
}

TEST(TorchGpt2Stage, ReproducesTheGoldenValuesCutIntoOneToFourStages) {
  for (std::uint32_t stages = 1; stages <= 4; ++stages) CheckGolden(MiniModel(), stages);
}

TEST(TorchGpt2Stage, ReproducesTheGoldenValuesOfForeignModels) {
  if (!std::filesystem::exists(SharedModel("tiny_gpt2"))) GTEST_SKIP() << "no shared data";
  CheckGolden(SharedModel("tiny_gpt2"), 1);
  CheckGolden(SharedModel("fake_gpt2"), 1);
}

TEST(TorchGpt2Stage, GradientsEqualFiniteDifferences) {
  StagePipeline pipeline(MiniModel(), 1, {});
  const TestBatch batch = RandomBatch(2, 9, 512, 0.3, 7);
  pipeline.RunMicroBatch({0, 0}, batch);
  const std::vector<float> gradient = ExportGradients(pipeline.stage(0));
  // Steps along the normalised gradient of one tensor at a time: the loss must rise by its norm.
  for (const TensorLayout& layout : pipeline.stage(0).layout()) {
    double squared = 0;
    for (std::size_t i = 0; i < layout.size; ++i) {
      squared += std::pow(static_cast<double>(gradient[layout.offset + i]), 2);
    }
    const double norm = std::sqrt(squared);
    ASSERT_GT(norm, 0) << layout.name;
    const auto loss_at = [&](double distance) {
      // AdamW with both betas 0, no decay and a huge epsilon is plain gradient descent:
      // value -= rate * g / (|g| + epsilon).
      StageOptions options;
      options.optimizer = {0, 0, 1e6, 0, 0};
      StagePipeline moved(MiniModel(), 1, options);
      std::vector<float> only(gradient.size());
      for (std::size_t i = 0; i < layout.size; ++i) {
        only[layout.offset + i] = gradient[layout.offset + i];
      }
      EXPECT_TRUE(moved.stage(0).Write(StateVector::kGradients, 0, only).ok());
      EXPECT_TRUE(moved.stage(0).Apply(0, 1e-3, 1, -distance / norm * 1e9).ok());
      return moved.Evaluate(batch).sum;
    };
    const double distance = 2e-3;
    const double slope = (loss_at(distance) - loss_at(-distance)) / (2 * distance);
    EXPECT_NEAR(slope / norm, 1, 0.02) << layout.name;
  }
}

TEST(TorchGpt2Stage, AnyCutGivesTheSameLossesAndGradients) {
  // Unequal masks: the loss is a sum, so micro-batches weigh by their labels.
  const std::vector<TestBatch> batches = {RandomBatch(3, 16, 512, 0.1, 1),
                                          RandomBatch(2, 16, 512, 0.7, 2),
                                          RandomBatch(1, 31, 512, 1.0, 3)};
  StagePipeline one(MiniModel(), 1, {});
  std::vector<StepLoss> losses;
  for (std::uint32_t i = 0; i < batches.size(); ++i) {
    losses.push_back(one.RunMicroBatch({0, i}, batches[i]));
  }
  EXPECT_EQ(losses[2].labels, 0u);
  EXPECT_EQ(losses[2].sum, 0);
  const auto want = one.Gradients();
  for (std::uint32_t stages = 2; stages <= 4; ++stages) {
    StagePipeline cut(MiniModel(), stages, {});
    for (std::uint32_t i = 0; i < batches.size(); ++i) {
      const StepLoss loss = cut.RunMicroBatch({0, i}, batches[i]);
      EXPECT_NEAR(loss.sum, losses[i].sum, 1e-5 * losses[i].sum);
      EXPECT_EQ(loss.labels, losses[i].labels);
    }
    const auto gradients = cut.Gradients();
    ASSERT_EQ(gradients.size(), want.size());
    for (const auto& [name, values] : want) {
      EXPECT_LT(RelativeDifference(gradients.at(name), values), 1e-5) << name << " of " << stages;
    }
  }
}

TEST(TorchGpt2Stage, GradientsOfAUnionAreTheSumOfItsMicroBatches) {
  StagePipeline apart(MiniModel(), 1, {});
  StagePipeline joint(MiniModel(), 1, {});
  TestBatch a = RandomBatch(2, 12, 512, 0.2, 4);
  const TestBatch b = RandomBatch(1, 12, 512, 0.8, 5);
  apart.RunMicroBatch({0, 0}, a);
  apart.RunMicroBatch({0, 1}, b);
  a.rows += b.rows;
  a.samples.insert(a.samples.end(), b.samples.begin(), b.samples.end());
  a.token_ids.insert(a.token_ids.end(), b.token_ids.begin(), b.token_ids.end());
  a.labels.insert(a.labels.end(), b.labels.begin(), b.labels.end());
  joint.RunMicroBatch({0, 0}, a);
  const auto want = joint.Gradients();
  for (const auto& [name, values] : apart.Gradients()) {
    EXPECT_LT(RelativeDifference(values, want.at(name)), 1e-5) << name;
  }
}

// Runs three micro-batches with the forwards and backwards in the given order, weights in order.
std::vector<std::vector<float>> Interleaved(const std::vector<std::uint32_t>& order, bool late,
                                            const StageOptions& options) {
  StagePipeline pipeline(MiniModel(), 2, options);
  std::vector<TestBatch> batches;
  for (std::uint32_t i = 0; i < 3; ++i) batches.push_back(RandomBatch(2, 10, 512, 0.2, 10 + i));
  for (std::uint32_t i : order) pipeline.Forward({5, i}, batches[i]);
  for (std::uint32_t i : order) pipeline.BackwardInput({5, i}, batches[i]);
  if (late) (void)pipeline.Evaluate(batches[1]);
  for (std::uint32_t i = 0; i < 3; ++i) pipeline.BackwardWeights({5, i});
  return {ExportGradients(pipeline.stage(0)), ExportGradients(pipeline.stage(1))};
}

TEST(TorchGpt2Stage, InterleavingDoesNotChangeABit) {
  StageOptions options;
  options.dropout = 0.1;
  const auto want = Interleaved({0, 1, 2}, false, options);
  EXPECT_EQ(Interleaved({2, 0, 1}, true, options), want);
  EXPECT_EQ(Interleaved({1, 2, 0}, false, options), want);
  options.recompute = true;
  EXPECT_EQ(Interleaved({0, 2, 1}, true, options), want);
  options.seed = 1;
  EXPECT_NE(Interleaved({0, 1, 2}, false, options), want);
}

// What is exchanged while the backward goes on must not change any more.
TEST(TorchGpt2Stage, GradientsAreFinalBehindTheirPart) {
  for (const std::uint32_t stages : {1u, 2u}) {
    StagePipeline pipeline(MiniModel(), stages, {});
    const TestBatch batch = RandomBatch(2, 10, 512, 0.2, 10);
    pipeline.Forward({5, 0}, batch);
    pipeline.BackwardInput({5, 0}, batch);
    for (std::size_t s = 0; s < stages; ++s) {
      StageModel& stage = pipeline.stage(s);
      std::vector<std::vector<float>> behind;  // gradients behind each part
      for (bool more = true; more;) {
        const Result<bool> part = stage.BackwardWeights({5, 0});
        ASSERT_TRUE(part.ok()) << part.status().ToString();
        more = *part;
        behind.push_back(ExportGradients(stage));
      }
      const auto parts = stage.weight_parts();
      ASSERT_EQ(parts.size(), behind.size());
      std::vector<int> times(stage.layout().size());
      for (std::size_t p = 0; p < parts.size(); ++p) {
        for (const std::size_t entry : parts[p]) {
          ++times[entry];
          const TensorLayout& tensor = stage.layout()[entry];
          const auto at = [&](std::size_t q) {
            return std::vector<float>(behind[q].begin() + tensor.offset,
                                      behind[q].begin() + tensor.offset + tensor.size);
          };
          EXPECT_EQ(at(p), at(parts.size() - 1)) << tensor.name;
          EXPECT_TRUE(p == 0 || at(p) != at(p - 1)) << tensor.name << " could go earlier";
        }
      }
      EXPECT_EQ(times, std::vector<int>(times.size(), 1));
    }
  }
}

TEST(TorchGpt2Stage, FreshMasksFollowTheStepAsWell) {
  const TestBatch batch = RandomBatch(2, 12, 512, 0, 6);
  const auto loss = [&](bool fresh, bool recompute, std::uint64_t step) {
    StageOptions options;
    options.dropout = 0.3;
    options.fresh_masks = fresh;
    options.recompute = recompute;
    StagePipeline pipeline(MiniModel(), 2, options);
    const double sum = pipeline.RunMicroBatch({step, 0}, batch).sum;
    return std::pair(sum, ExportGradients(pipeline.stage(0)));
  };
  EXPECT_EQ(loss(false, false, 0), loss(false, false, 1));
  EXPECT_NE(loss(true, false, 0).first, loss(true, false, 1).first);
  EXPECT_NE(loss(true, false, 0).first, loss(false, false, 0).first);
  EXPECT_EQ(loss(true, false, 1), loss(true, true, 1)) << "backward took other masks";
}

TEST(TorchGpt2Stage, DropoutMasksFollowTheSampleNotTheMicroBatch) {
  StageOptions options;
  options.dropout = 0.3;
  StagePipeline apart(MiniModel(), 2, options);
  StagePipeline joint(MiniModel(), 3, options);
  const TestBatch both = RandomBatch(2, 12, 512, 0, 6);
  const auto row = [&](std::size_t index) {
    const auto begin = static_cast<std::ptrdiff_t>(index * 12);
    return TestBatch{1,
                     12,
                     {both.samples[index]},
                     {both.token_ids.begin() + begin, both.token_ids.begin() + begin + 12},
                     {both.labels.begin() + begin, both.labels.begin() + begin + 12}};
  };
  const double sum =
      apart.RunMicroBatch({0, 0}, row(1)).sum + apart.RunMicroBatch({0, 1}, row(0)).sum;
  const double want = joint.RunMicroBatch({0, 0}, both).sum;
  EXPECT_NEAR(sum, want, 1e-5 * want);
  const auto gradients = joint.Gradients();
  for (const auto& [name, values] : apart.Gradients()) {
    EXPECT_LT(RelativeDifference(values, gradients.at(name)), 1e-5) << name;
  }
  EXPECT_GT(std::fabs(joint.Evaluate(both).sum - want), 1e-3 * want) << "dropout had no effect";
}

TEST(TorchGpt2Stage, TrainsWithTheTiedEmbeddingEqualOnBothEnds) {
  StageOptions options;
  StagePipeline one(MiniModel(), 1, options);
  StagePipeline three(MiniModel(), 3, options);
  const TestBatch batch = RandomBatch(4, 16, 512, 0.2, 8);
  double first_loss = 0;
  double last_loss = 0;
  for (std::uint64_t step = 0; step < 20; ++step) {
    const StepLoss a = one.RunMicroBatch({step, 0}, batch);
    const StepLoss b = three.RunMicroBatch({step, 0}, batch);
    EXPECT_NEAR(a.sum, b.sum, 2e-4 * a.sum) << step;
    const double norm = one.Apply(step, a.labels, 1e-2);
    EXPECT_NEAR(three.Apply(step, b.labels, 1e-2), norm, 1e-3 * norm) << step;
    if (step == 0) first_loss = a.sum;
    last_loss = a.sum;
  }
  EXPECT_LT(last_loss, 0.5 * first_loss);
  // The part files show both copies.
  const std::string folder = Scratch("tied");
  std::filesystem::create_directories(folder);
  ASSERT_TRUE(three.stage(0).Save(folder).ok());
  ASSERT_TRUE(three.stage(2).Save(folder).ok());
  for (const char* suffix : {"", ".exp_avg", ".exp_avg_sq"}) {
    const std::string kind = *suffix ? ".optimizer.safetensors" : ".safetensors";
    auto embedding = storage::OpenSafetensors(folder + "/embedding" + kind);
    auto head = storage::OpenSafetensors(folder + "/head" + kind);
    ASSERT_TRUE(embedding.ok() && head.ok());
    const std::string name = std::string("wte.weight") + suffix;
    EXPECT_EQ(Values<std::uint32_t>((*embedding)->tensors().at(name)),
              Values<std::uint32_t>((*head)->tensors().at(name)));
  }
  std::filesystem::remove_all(folder);
}

TEST(TorchGpt2Stage, NormCountsTheTiedEmbeddingOnceAndScales) {
  StagePipeline one(MiniModel(), 1, {});
  StagePipeline two(MiniModel(), 2, {});
  const TestBatch batch = RandomBatch(2, 16, 512, 0, 9);
  one.RunMicroBatch({0, 0}, batch);
  two.RunMicroBatch({0, 0}, batch);
  double want = 0;
  for (float g : ExportGradients(one.stage(0))) want += static_cast<double>(g) * g;
  EXPECT_NEAR(one.stage(0).SquaredGradientNorm(0.5), want * 0.25, 1e-9 * want);
  two.SumShared();
  const double sum = two.stage(0).SquaredGradientNorm(1) + two.stage(1).SquaredGradientNorm(1);
  EXPECT_NEAR(sum, want, 1e-5 * want);
}

TEST(TorchGpt2Stage, RepeatsBitForBit) {
  const auto run = [] {
    StagePipeline pipeline(MiniModel(), 2, {});
    double sum = 0;
    for (std::uint64_t step = 0; step < 5; ++step) {
      const StepLoss loss = pipeline.RunMicroBatch({step, 0}, RandomBatch(2, 16, 512, 0.2, step));
      pipeline.Apply(step, loss.labels, 1e-3);
      sum += loss.sum;
    }
    return std::pair(sum, pipeline.Checksums());
  };
  EXPECT_EQ(run(), run());
}

TEST(TorchGpt2Stage, AnUntiedHeadHasItsOwnGradient) {
  const std::string folder = Scratch("untied");
  std::filesystem::create_directories(folder);
  auto config = ReadFile(MiniModel() + "/config.json", 1 << 16);
  ASSERT_TRUE(config.ok());
  const std::string tied = "\"tie_word_embeddings\": true";
  config->replace(config->find(tied), tied.size(), "\"tie_word_embeddings\": false");
  ASSERT_TRUE(WriteFileAtomic(folder + "/config.json", *config).ok());
  const Status made = InitModelDirectory(folder + "/config.json", folder + "/model", 1);
  ASSERT_TRUE(made.ok()) << made.ToString();
  StagePipeline one(folder + "/model", 1, {});
  StagePipeline two(folder + "/model", 2, {});
  EXPECT_TRUE(two.stage(0).shared_tensors().empty());
  EXPECT_TRUE(two.stage(1).shared_tensors().empty());
  const TestBatch batch = RandomBatch(2, 16, 512, 0.2, 3);
  const double want = one.RunMicroBatch({0, 0}, batch).sum;
  EXPECT_NEAR(two.RunMicroBatch({0, 0}, batch).sum, want, 1e-5 * want);
  const auto gradients = one.Gradients();
  ASSERT_TRUE(gradients.contains("lm_head.weight"));
  for (const auto& [name, values] : two.Gradients()) {
    EXPECT_LT(RelativeDifference(values, gradients.at(name)), 1e-5) << name;
  }
  std::filesystem::remove_all(folder);
}

TEST(TorchGpt2Stage, Bf16IsCloseToFp32) {
  StagePipeline exact(MiniModel(), 2, {});
  StageOptions options;
  options.compute = "bf16";
  StagePipeline close(MiniModel(), 2, options);
  const TestBatch batch = RandomBatch(4, 16, 512, 0.2, 12);
  const double want = exact.RunMicroBatch({0, 0}, batch).sum;
  const double have = close.RunMicroBatch({0, 0}, batch).sum;
  EXPECT_NEAR(have, want, 0.02 * want);
  EXPECT_NE(have, want);
  const auto gradients = exact.Gradients();
  for (const auto& [name, values] : close.Gradients()) {
    EXPECT_LT(RelativeDifference(values, gradients.at(name)), 0.08) << name;
  }
}

TEST(TorchGpt2Stage, RefusesWhatDoesNotFit) {
  StagePipeline pipeline(MiniModel(), 2, {});
  StageModel& first = pipeline.stage(0);
  StageModel& last = pipeline.stage(1);
  TestBatch batch = RandomBatch(1, 4, 512, 0, 1);
  std::vector<float> output(4 * 32);
  StepLoss loss;
  MicroBatch micro_batch{{1, 2}, 1, 4, batch.samples, batch.token_ids, batch.labels, {}};
  EXPECT_FALSE(first.Forward(micro_batch, std::span<float>(output).first(5), &loss).ok());
  ASSERT_TRUE(first.Forward(micro_batch, output, &loss).ok());
  EXPECT_THAT(first.Forward(micro_batch, output, &loss).message(), HasSubstr("micro-batch 1/2"));
  EXPECT_FALSE(first.BackwardWeights({1, 2}).ok());
  EXPECT_FALSE(first.BackwardInput({1, 3}, output, {}).ok());
  EXPECT_FALSE(first.BackwardInput({1, 2}, {}, {}).ok());
  ASSERT_TRUE(first.BackwardInput({1, 2}, output, {}).ok());
  EXPECT_FALSE(first.BackwardInput({1, 2}, output, {}).ok());
  first.ZeroGradients();
  EXPECT_FALSE(first.BackwardWeights({1, 2}).ok());
  EXPECT_FALSE(last.Forward(micro_batch, {}, &loss).ok()) << "no input";
  batch.token_ids[2] = 512;
  micro_batch.token_ids = batch.token_ids;
  EXPECT_THAT(first.Evaluate(micro_batch, output, &loss).message(), HasSubstr("512"));
  micro_batch.input = output;
  batch.labels[3] = -1;
  micro_batch.labels = batch.labels;
  EXPECT_THAT(last.Evaluate(micro_batch, {}, &loss).message(), HasSubstr("label -1"));
  const TestBatch wide = RandomBatch(1, 65, 512, 0, 1);
  MicroBatch too_long{{1, 4}, 1, 65, wide.samples, wide.token_ids, wide.labels, {}};
  output.resize(65 * 32);
  EXPECT_THAT(first.Evaluate(too_long, output, &loss).message(), HasSubstr("64 positions"));
  EXPECT_FALSE(first.Apply(0, 1, std::nan(""), 1e-3).ok());
  EXPECT_FALSE(first.Logits(too_long, true, output).ok());
}

TEST(TorchGpt2Stage, ChecksItsOptions) {
  const auto opened = OpenModel(MiniModel());
  ASSERT_TRUE(opened.ok());
  const auto message = [&](const StageOptions& options) {
    auto stage = NewTorchStage(opened->spec, options);
    return stage.ok() ? "" : stage.status().message();
  };
  StageOptions options;
  options.range = {1, 5};
  EXPECT_THAT(message(options), HasSubstr("4 layers"));
  options.range = {0, 4};
  options.device = "gpu";
  EXPECT_THAT(message(options), HasSubstr("cpu, cuda, cuda:N or auto"));
  options.device = "cuda:99";
  EXPECT_THAT(message(options), HasSubstr("cuda:99"));
  options.device = "auto";
  EXPECT_EQ(message(options), "");
  options.compute = "fp8";
  EXPECT_THAT(message(options), HasSubstr("fp32 or bf16"));
  options.compute = "fp32";
  options.dropout = 1;
  EXPECT_THAT(message(options), HasSubstr("dropout"));
}

TEST(TorchGpt2Stage, OfWeightsAloneItEvaluatesAndDoesNotTrain) {
  StageOptions options;
  options.held = ZeroMode::kWeights;
  StagePipeline lean(MiniModel(), 1, options), whole(MiniModel(), 1, {});
  StageModel& stage = lean.stage(0);
  EXPECT_EQ(stage.StateBytes(), 4 * stage.state_size());
  const TestBatch batch = RandomBatch(2, 16, lean.spec().vocabulary, 0.2, 5);
  EXPECT_EQ(lean.Evaluate(batch).sum, whole.Evaluate(batch).sum);
  EXPECT_EQ(lean.Checksums(), whole.Checksums());
  StepLoss loss;
  EXPECT_THAT(stage.Forward(AsMicroBatch({0, 0}, batch), {}, &loss).message(),
              HasSubstr("weights alone: it does not train"));
  EXPECT_EQ(stage.Apply(0, 1, 1, 1e-3).code(), StatusCode::kFailedPrecondition);
  std::vector<float> values(4);
  for (const auto which :
       {StateVector::kGradients, StateVector::kFirstMoment, StateVector::kSecondMoment}) {
    EXPECT_EQ(stage.Read(which, 0, values).code(), StatusCode::kFailedPrecondition);
    EXPECT_EQ(stage.Write(which, 0, values).code(), StatusCode::kFailedPrecondition);
  }
  stage.ZeroGradients();
  // What it saves is what the whole one loads, and the other way round.
  ASSERT_TRUE(MakeDirectories(Scratch("weights")).ok());
  ASSERT_TRUE(stage.Save(Scratch("weights")).ok());
  std::map<std::string, std::string> weights, moments;
  for (const std::string& part : stage.parts()) {
    weights[part] = Scratch("weights") + "/" + part + ".safetensors";
  }
  ASSERT_TRUE(whole.stage(0).Load(weights, {}).ok());
  EXPECT_EQ(lean.Checksums(), whole.Checksums());
  ASSERT_TRUE(MakeDirectories(Scratch("all")).ok());
  ASSERT_TRUE(whole.stage(0).Save(Scratch("all")).ok());
  for (const std::string& part : stage.parts()) {
    weights[part] = Scratch("all") + "/" + part + ".safetensors";
    moments[part] = Scratch("all") + "/" + part + ".optimizer.safetensors";
  }
  EXPECT_TRUE(stage.Load(weights, moments).ok());
  EXPECT_EQ(lean.Checksums(), whole.Checksums());
}

TEST(TorchGpt2Stage, KnowsItsSize) {
  StagePipeline pipeline(MiniModel(), 2, {});
  for (std::size_t s = 0; s < 2; ++s) {
    EXPECT_EQ(pipeline.stage(s).StateBytes(), 16 * pipeline.stage(s).state_size());
    EXPECT_EQ(pipeline.stage(s).MicroBatchBytes(2, 16) * 3,
              pipeline.stage(s).MicroBatchBytes(6, 16));
  }
  StageOptions options;
  options.recompute = true;
  StagePipeline lean(MiniModel(), 2, options);
  EXPECT_LT(lean.stage(1).MicroBatchBytes(2, 16) * 10, pipeline.stage(1).MicroBatchBytes(2, 16));
}

}  // namespace
}  // namespace shoal::model
