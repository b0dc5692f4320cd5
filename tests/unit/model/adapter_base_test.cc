// What adapters leave as it is: kept in other formats, and with the adapters' sums in it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <limits>

#include "model/exports/base_part.h"
#include "model/families/merge_adapter.h"
#include "model/families/open_adapter.h"
#include "model/families/open_model.h"
#include "model/families/trained_part.h"
#include "tests/unit/model/golden.h"
#include "tests/unit/model/stage_pipeline.h"

namespace shoal::model {
namespace {

using testing::HasSubstr;

struct Case {
  std::string adapter, base;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.adapter; }

std::string Data() { return std::getenv("SHOAL_TEST_DATA"); }

// A model with an adapter, its parts, and where to put files of them.
struct Model {
  explicit Model(const Case& c)
      : adapter(OpenAdapter(Data() + "/adapters/" + c.adapter).value()),
        opened(OpenModel(Data() + "/families/" + c.base).value()),
        folder(Scratch("base_" + c.adapter)) {
    SHOAL_CHECK(Adapt(adapter.config, &opened.spec).ok());
    tensors = AdapterTensors(adapter, opened.spec, "the adapter").value();
    std::filesystem::create_directories(folder);
  }
  ~Model() { std::filesystem::remove_all(folder); }
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  std::string Write(const std::string& part, const storage::TensorMap& of) const {
    const std::string path = folder + "/" + part;
    EXPECT_TRUE(storage::WritePart(path, of).ok());
    return path;
  }
  storage::TensorMap Part(const std::string& part) const {
    return opened.directory->Part(part).value();
  }
  std::unique_ptr<StageModel> Stage(const ModelSpec& spec) const {
    StageOptions options;
    options.range = {0, spec.layers()};
    options.device = "cpu";
    options.threads = 1;
    return NewTorchStage(spec, options).value();
  }

  OpenedAdapter adapter;
  OpenedModel opened;
  std::string folder;
  storage::TensorMap tensors;  // of the adapter
};

class AdapterBase : public testing::TestWithParam<Case> {};

TEST_P(AdapterBase, MergedItComputesWhatPeftDoes) {
  const Model model(GetParam());
  const ModelSpec& spec = model.opened.spec;
  std::map<std::string, std::string> files;
  for (const std::string& part : spec.PartNames()) {
    const auto merged = MergePart(spec, part, model.Part(part), model.tensors);
    ASSERT_TRUE(merged.ok()) << merged.status().ToString();
    files[part] = model.Write(part, merged->tensors);
  }
  const auto plain = model.Stage(OpenModel(Data() + "/families/" + GetParam().base)->spec);
  ASSERT_TRUE(plain->Load(files, {}).ok());
  const Golden golden(Data() + "/adapters/" + GetParam().adapter);
  const std::vector<float> wanted = golden.Values<float>("logits");
  EXPECT_LT(RelativeDifference(LogitsOf(plain.get(), golden.Batch(), wanted.size()), wanted), 2e-5);
}

// Computing with codes is computing with what they decode to.
TEST_P(AdapterBase, InEveryFormatIsItsDecodedValues) {
  const Model model(GetParam());
  const ModelSpec& spec = model.opened.spec;
  const Golden golden(Data() + "/adapters/" + GetParam().adapter);
  const std::size_t size = golden.Values<float>("logits").size();
  std::vector<float> exact;
  std::uint64_t largest = 0;
  for (const std::string format : {"source", "fp32", "fp16", "bf16", "int8", "nf4"}) {
    std::map<std::string, std::string> coded, decoded, trained;
    for (const std::string& part : spec.PartNames()) {
      const storage::TensorMap given = model.Part(part);
      const auto base = EncodeBase(spec, part, given, format);
      ASSERT_TRUE(base.ok()) << base.status().ToString();
      const auto again = DecodeBase(spec, part, base->tensors);
      ASSERT_TRUE(again.ok()) << again.status().ToString();
      coded[part] = model.Write(part + ".coded", base->tensors);
      decoded[part] = model.Write(part + ".decoded", again->tensors);
      trained[part] = model.Write(part, BeginTraining(spec, part, given, 1).tensors);
    }
    std::vector<std::vector<float>> logits;
    std::vector<std::uint64_t> bytes;
    for (const auto& files : {coded, decoded}) {
      const auto stage = model.Stage(spec);
      ASSERT_TRUE(stage->LoadBase(files).ok());
      ASSERT_TRUE(stage->Load(trained, {}).ok());
      logits.push_back(LogitsOf(stage.get(), golden.Batch(), size));
      bytes.push_back(stage->StateBytes());
    }
    EXPECT_EQ(logits[0], logits[1]) << format;
    if (exact.empty()) exact = logits[0], largest = bytes[0];
    const std::map<std::string, double> most = {{"source", 0},  {"fp32", 0},   {"fp16", 0.01},
                                                {"bf16", 0.05}, {"int8", 0.1}, {"nf4", 0.5}};
    const double off = RelativeDifference(logits[0], exact);
    EXPECT_LE(off, most.at(format)) << format;
    EXPECT_EQ(off > 0, most.at(format) > 0) << format;
    EXPECT_LE(bytes[0], largest) << format;
    // What lies beside the codes outweighs them in the smallest of these.
    if (GetParam().base == "llama3") {
      EXPECT_EQ(bytes[0] < bytes[1], format == "nf4" || format == "int8") << format;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, AdapterBase,
                         testing::Values(Case{"gpt2", "gpt2"}, Case{"llama3", "llama3"},
                                         Case{"gemma2", "gemma2"}, Case{"phi3", "phi3"},
                                         Case{"llama_saved", "llama"}, Case{"bert", "bert"},
                                         Case{"deberta", "deberta"},
                                         Case{"deberta_own", "deberta_own"}),
                         [](const auto& tested) { return tested.param.adapter; });

TEST(AddLowRank, IsItsDefinition) {
  for (const bool in_first : {false, true}) {
    LinearSpec product{"w", "", 5, 3, in_first};
    product.lora = LoraSpec{"a", "b", 2, 0.5};
    const std::vector<float> a = {1, 2, 3, 4, 5, -1, 0, 1, 0, 2}, b = {1, 0, 2, -1, 0, 3};
    std::vector<float> weight(15, 1);
    AddLowRank(product, a, b, weight);
    for (std::size_t out = 0; out < 3; ++out) {
      for (std::size_t in = 0; in < 5; ++in) {
        const float sum = b[out * 2] * a[in] + b[out * 2 + 1] * a[5 + in];
        EXPECT_EQ(weight[in_first ? in * 3 + out : out * 5 + in], 1 + 0.5F * sum);
      }
    }
  }
}

TEST(AdapterBaseFiles, OfOtherShapesOrWithoutTensorsAreRefused) {
  const Model model({"llama3", "llama3"});
  const ModelSpec& spec = model.opened.spec;
  const auto stage = model.Stage(spec);
  EXPECT_THAT(stage->LoadBase({}).message(), HasSubstr("no file of the base for part"));
  std::map<std::string, std::string> files;
  for (const std::string& part : spec.PartNames()) {
    storage::TensorMap tensors = EncodeBase(spec, part, model.Part(part), "source")->tensors;
    if (part == "layer.1") tensors.erase(tensors.begin());
    files[part] = model.Write(part, tensors);
  }
  EXPECT_THAT(stage->LoadBase(files).message(), HasSubstr("layer.1"));
  storage::TensorMap given = model.Part("layer.0");
  std::vector<float> broken(
      ValuesOf(spec.PartTensors("layer.0").at("layers.0.self_attn.q_proj.weight")),
      std::numeric_limits<float>::quiet_NaN());
  storage::TensorView& view = given.at("layers.0.self_attn.q_proj.weight");
  view = {storage::DType::kF32, view.shape, std::as_bytes(std::span<const float>(broken))};
  EXPECT_THAT(EncodeBase(spec, "layer.0", given, "nf4").status().message(),
              HasSubstr("layers.0.self_attn.q_proj.weight"));
}

}  // namespace
}  // namespace shoal::model
