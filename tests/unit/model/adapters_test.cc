// Adapters against what PEFT and PyTorch compute with them (tests/models/make_adapters.py).

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "common/file.h"
#include "model/families/adapter_config.h"
#include "model/families/open_adapter.h"
#include "model/families/open_model.h"
#include "tests/unit/model/golden.h"
#include "tests/unit/model/stage_pipeline.h"
#include "tests/unit/model/test_device.h"

namespace shoal::model {
namespace {

using testing::HasSubstr;

// As in make_adapters.py.
constexpr double kRate = 1e-2, kEpsilon = 1e-4;
constexpr std::uint64_t kSteps = 3;

struct Case {
  std::string adapter, base;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.adapter; }

std::string Data() { return std::getenv("SHOAL_TEST_DATA"); }
std::string AdapterOf(const Case& c) { return Data() + "/adapters/" + c.adapter; }
std::string BaseOf(const Case& c) { return Data() + "/families/" + c.base; }

// Names of PEFT to those of the stage.
std::map<std::string, std::vector<float>> Renamed(
    const ModelSpec& spec, const std::map<std::string, std::vector<float>>& values) {
  std::map<std::string, std::vector<float>> renamed;
  for (const std::string& part : spec.PartNames()) {
    for (const auto& [name, tensor] : spec.TrainedTensors(part)) {
      const auto found = values.find(AdapterFileName(spec, name));
      EXPECT_NE(found, values.end()) << name;
      if (found != values.end()) renamed[name] = found->second;
    }
  }
  EXPECT_EQ(renamed.size(), values.size());
  return renamed;
}

class Adapter : public testing::TestWithParam<Case> {};

TEST_P(Adapter, ComputesWhatPeftDoes) {
  const Golden golden(AdapterOf(GetParam()));
  const TestBatch batch = golden.Batch();
  StagePipeline pipeline(BaseOf(GetParam()), 1, {}, AdapterOf(GetParam()));
  const std::vector<float> wanted = golden.Values<float>("logits");
  EXPECT_LT(RelativeDifference(LogitsOf(&pipeline.stage(0), batch, wanted.size()), wanted), 1e-5);
  const StepLoss loss = pipeline.RunMicroBatch({0, 0}, batch);
  EXPECT_NEAR(loss.sum / golden.Values<double>("loss")[0], 1, 1e-5);
  ExpectNear(pipeline.Gradients(), Renamed(pipeline.spec(), golden.All("gradient.")), 1e-4);
}

TEST_P(Adapter, MakesTheStepsOfPyTorch) {
  const Golden golden(AdapterOf(GetParam()));
  const TestBatch batch = golden.Batch();
  StageOptions options;
  options.optimizer = {.beta1 = 0.9, .beta2 = 0.999, .epsilon = kEpsilon, .weight_decay = 0.01};
  StagePipeline pipeline(BaseOf(GetParam()), 1, options, AdapterOf(GetParam()));
  for (std::uint64_t step = 0; step < kSteps; ++step) {
    const StepLoss loss = pipeline.RunMicroBatch({step, 0}, batch);
    pipeline.Apply(step, loss.labels, kRate);
  }
  ExpectNear(WeightsOf(&pipeline), Renamed(pipeline.spec(), golden.All("after.")), 1e-4);
}

TEST_P(Adapter, ComputesInBf16) {
  const Golden golden(AdapterOf(GetParam()));
  const TestBatch batch = golden.Batch();
  StageOptions options;
  options.compute = "bf16";
  StagePipeline pipeline(BaseOf(GetParam()), 1, options, AdapterOf(GetParam()));
  const StepLoss loss = pipeline.RunMicroBatch({0, 0}, batch);
  EXPECT_NEAR(loss.sum / golden.Values<double>("loss")[0], 1, 0.01);
  ExpectNear(pipeline.Gradients(), Renamed(pipeline.spec(), golden.All("gradient.")), 0.15);
}

TEST_P(Adapter, AnyCutGivesTheSameBits) {
  const Golden golden(AdapterOf(GetParam()));
  const TestBatch batch = golden.Batch();
  StagePipeline whole(BaseOf(GetParam()), 1, {}, AdapterOf(GetParam()));
  const StepLoss loss = whole.RunMicroBatch({0, 0}, batch);
  const auto gradients = whole.Gradients();
  for (std::uint32_t stages = 2; stages <= whole.spec().layers(); ++stages) {
    StagePipeline cut(BaseOf(GetParam()), stages, {}, AdapterOf(GetParam()));
    EXPECT_TRUE(cut.stage(0).shared_tensors().empty());
    EXPECT_EQ(cut.RunMicroBatch({0, 0}, batch).sum, loss.sum);
    EXPECT_EQ(cut.Gradients(), gradients);
  }
}

// A fresh adapter computes what the base does: B is zero.
TEST_P(Adapter, BeginsWithTheModelAsItIs) {
  const Golden golden(AdapterOf(GetParam()));
  auto opened = OpenModel(BaseOf(GetParam()));
  ASSERT_TRUE(opened.ok());
  ASSERT_TRUE(Adapt(OpenAdapter(AdapterOf(GetParam()))->config, &opened->spec).ok());
  StageOptions options;
  options.range = {0, opened->spec.layers()};
  options.device = TestDevice();
  auto stage = NewTorchStage(opened->spec, options);
  ASSERT_TRUE(stage.ok());
  ASSERT_TRUE((*stage)->LoadDirectory(*opened->directory).ok());
  StagePipeline base(BaseOf(GetParam()), 1, {});
  StepLoss loss;
  const TestBatch batch = golden.Batch();
  ASSERT_TRUE((*stage)->Evaluate(AsMicroBatch({}, batch), {}, &loss).ok());
  EXPECT_DOUBLE_EQ(loss.sum, base.Evaluate(batch).sum);
}

TEST_P(Adapter, HoldsGradientsAndMomentsOfWhatIsTrainedOnly) {
  StagePipeline base(BaseOf(GetParam()), 1, {});
  StagePipeline adapted(BaseOf(GetParam()), 1, {}, AdapterOf(GetParam()));
  const ModelSpec& spec = adapted.spec();
  const std::uint64_t all = spec.ParametersOf(0, spec.layers(), true, true);
  const std::uint64_t trained = spec.TrainedParametersOf(0, spec.layers(), true, true);
  EXPECT_EQ(adapted.stage(0).state_size(), trained);
  std::uint64_t frozen = 0;
  std::set<std::string> counted;
  for (const std::string& part : spec.PartNames()) {
    for (const auto& [name, tensor] : spec.FrozenTensors(part)) {
      if (counted.insert(name).second) frozen += ValuesOf(tensor);
    }
  }
  EXPECT_EQ(adapted.stage(0).StateBytes(), 16 * trained + 4 * frozen);
  EXPECT_EQ(base.stage(0).StateBytes(), 16 * all);
}

INSTANTIATE_TEST_SUITE_P(All, Adapter,
                         testing::Values(Case{"gpt2", "gpt2"}, Case{"llama3", "llama3"},
                                         Case{"gemma2", "gemma2"}, Case{"phi3", "phi3"},
                                         Case{"llama_saved", "llama"}, Case{"bert", "bert"},
                                         Case{"deberta", "deberta"},
                                         Case{"deberta_own", "deberta_own"}),
                         [](const auto& tested) { return tested.param.adapter; });

StageOptions Dropping(double dropout) {
  StageOptions options;
  options.dropout = dropout;
  options.seed = 3;
  return options;
}

// A folder with the adapter, changed in one place.
std::string Changed(const std::string& adapter, const std::string& from, const std::string& to) {
  const std::string folder = Scratch("changed_adapter");
  std::filesystem::remove_all(folder);
  std::filesystem::copy(Data() + "/adapters/" + adapter, folder);
  std::string text = ReadFile(folder + "/adapter_config.json", 1 << 20).value();
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  text.replace(at, from.size(), to);
  std::ofstream(folder + "/adapter_config.json") << text;
  return folder;
}

// Masks are a sample's: another micro-batch, cut or a forward made again has the same.
TEST(AdapterDropout, IsKeyedBySample) {
  const std::string folder = Changed("gpt2", "\"lora_dropout\": 0.0", "\"lora_dropout\": 0.3");
  const TestBatch both = RandomBatch(2, 9, 53, 0, 1);
  const std::string base = Data() + "/families/gpt2";
  StagePipeline kept(base, 1, Dropping(0.1), folder);
  const StepLoss loss = kept.RunMicroBatch({0, 0}, both);
  const auto gradients = kept.Gradients();
  StageOptions options = Dropping(0.1);
  options.recompute = true;
  StagePipeline again(base, 3, options, folder);
  EXPECT_EQ(again.RunMicroBatch({0, 0}, both).sum, loss.sum);
  EXPECT_EQ(again.Gradients(), gradients);
  StagePipeline apart(base, 1, Dropping(0.1), folder);
  double sum = 0;
  for (std::uint32_t row = 0; row < 2; ++row) {
    TestBatch one = both;
    one.rows = 1;
    one.samples = {both.samples[row]};
    const auto first = static_cast<std::ptrdiff_t>(row * both.tokens);
    one.token_ids.assign(both.token_ids.begin() + first,
                         both.token_ids.begin() + first + both.tokens);
    one.labels.assign(both.labels.begin() + first, both.labels.begin() + first + both.tokens);
    sum += apart.RunMicroBatch({0, row}, one).sum;
  }
  EXPECT_NEAR(sum / loss.sum, 1, 1e-6);
  for (const auto& [name, values] : apart.Gradients()) {
    EXPECT_LT(RelativeDifference(values, gradients.at(name)), 1e-4) << name;
  }
  // It does something, in training alone.
  StagePipeline without(base, 1, Dropping(0.1), Data() + "/adapters/gpt2");
  EXPECT_NE(without.RunMicroBatch({0, 0}, both).sum, loss.sum);
  EXPECT_EQ(without.Evaluate(both).sum, kept.Evaluate(both).sum);
}

TEST(AdapterConfig, IsWrittenAsItIsRead) {
  for (const std::string name : {"gpt2", "gemma2", "llama_saved"}) {
    const AdapterConfig config = OpenAdapter(Data() + "/adapters/" + name)->config;
    ModelSpec spec =
        OpenModel(Data() + "/families/" + (name == "llama_saved" ? "llama" : name)).value().spec;
    ModelSpec again = spec;
    ASSERT_TRUE(Adapt(config, &spec).ok());
    const auto read = ParseAdapterConfig(FormatAdapterConfig(config, spec, "base"), "written");
    ASSERT_TRUE(read.ok()) << read.status().ToString();
    EXPECT_EQ(read->scale(), config.scale());
    EXPECT_EQ(read->dropout, config.dropout);
    ASSERT_TRUE(Adapt(*read, &again).ok());
    for (const std::string& part : spec.PartNames()) {
      EXPECT_EQ(again.TrainedTensors(part).size(), spec.TrainedTensors(part).size()) << part;
    }
  }
}

TEST(AdapterConfig, RefusesByNameWhatChangesTheResult) {
  const auto message = [](const std::string& from, const std::string& to) {
    return OpenAdapter(Changed("gpt2", from, to)).status().message();
  };
  EXPECT_THAT(message("\"use_dora\": false", "\"use_dora\": true"), HasSubstr("'use_dora'"));
  EXPECT_THAT(message("\"rank_pattern\": {}", "\"rank_pattern\": {\"c_fc\": 2}"),
              HasSubstr("'rank_pattern'"));
  EXPECT_THAT(message("\"bias\": \"none\"", "\"bias\": \"all\""), HasSubstr("bias must be"));
  EXPECT_THAT(message("\"LORA\"", "\"IA3\""), HasSubstr("peft_type"));
  EXPECT_THAT(message("\"r\": 3", "\"r\": 0"), HasSubstr("r must be a number from 1"));
  EXPECT_THAT(message("\"r\": 3", "\"r\": 2.5"), HasSubstr("whole number"));
  EXPECT_THAT(message("\"lora_alpha\": 5", "\"lora_alpha\": -1"), HasSubstr("lora_alpha"));
  EXPECT_THAT(message("\"init_lora_weights\": true", "\"init_lora_weights\": \"pissa\""),
              HasSubstr("pissa"));
  EXPECT_THAT(OpenAdapter(Data() + "/families/gpt2").status().message(),
              HasSubstr("an adapter is a folder with adapter_config.json"));
}

TEST(AdapterConfig, RefusesModulesThatTheModelHasNot) {
  ModelSpec spec = OpenModel(Data() + "/families/llama").value().spec;
  AdapterConfig config;
  config.targets = {"q_proj", "c_attn"};
  ModelSpec adapted = spec;
  EXPECT_THAT(Adapt(config, &adapted).message(),
              testing::AllOf(HasSubstr("'c_attn'"), HasSubstr("self_attn.q_proj")));
  config.targets = {"q_proj"};
  config.modules_to_save = {"score"};
  adapted = spec;
  EXPECT_THAT(Adapt(config, &adapted).message(), HasSubstr("modules_to_save"));
  config.modules_to_save = {"self_attn.q_proj"};
  adapted = spec;
  EXPECT_THAT(Adapt(config, &adapted).message(), HasSubstr("take one of the two"));
}

TEST(AdapterFiles, ThoseOfAnotherBaseAreRefused) {
  const auto adapter = OpenAdapter(Data() + "/adapters/llama3");
  ASSERT_TRUE(adapter.ok());
  ModelSpec other = OpenModel(Data() + "/families/qwen3").value().spec;
  ASSERT_TRUE(Adapt(adapter->config, &other).ok());
  EXPECT_THAT(AdapterTensors(*adapter, other, "a").status().message(),
              HasSubstr("adapter of another base"));
  // One with more layers.
  ModelSpec fewer = OpenModel(Data() + "/families/llama3").value().spec;
  fewer.layer_specs.pop_back();
  ASSERT_TRUE(Adapt(adapter->config, &fewer).ok());
  EXPECT_THAT(AdapterTensors(*adapter, fewer, "a").status().message(), HasSubstr("no place for"));
}

}  // namespace
}  // namespace shoal::model
