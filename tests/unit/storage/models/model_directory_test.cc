#include "storage/models/model_directory.h"

#include <gmock/gmock.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "tests/unit/storage/storage_test_support.h"

namespace shoal::storage {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

ModelConfig TinyConfig(const std::string& more = "") {
  auto config = ParseModelConfig(TinyConfigText(more), "config.json");
  EXPECT_TRUE(config.ok()) << config.status().ToString();
  return *config;
}

TEST(ModelConfig, ReadsEveryField) {
  const auto config = ParseModelConfig(
      TinyConfigText(R"(,"n_inner":10,"layer_norm_epsilon":0.25,"tie_word_embeddings":false,)"
                     R"("initializer_range":0.5)"),
      "config.json");
  ASSERT_TRUE(config.ok()) << config.status().ToString();
  EXPECT_EQ(config->layers, 2u);
  EXPECT_EQ(config->hidden, 4u);
  EXPECT_EQ(config->heads, 2u);
  EXPECT_EQ(config->inner, 10u);
  EXPECT_EQ(config->positions, 6u);
  EXPECT_EQ(config->vocabulary, 7u);
  EXPECT_EQ(config->layer_norm_epsilon, 0.25f);
  EXPECT_EQ(config->initializer_range, 0.5f);
  EXPECT_FALSE(config->tied_head);
}

TEST(ModelConfig, Defaults) {
  const ModelConfig config = TinyConfig(R"(,"n_inner":null)");
  EXPECT_EQ(config.inner, 16u);
  EXPECT_TRUE(config.tied_head);
  EXPECT_EQ(config.layer_norm_epsilon, 1e-5f);
  EXPECT_EQ(config.json, TinyConfigText(R"(,"n_inner":null)"));
  const auto n_ctx =
      ParseModelConfig(R"({"architectures":["GPT2Model"],"n_layer":1,"n_embd":4,"n_head":1,)"
                       R"("n_ctx":9,"vocab_size":3})",
                       "config.json");
  ASSERT_TRUE(n_ctx.ok()) << n_ctx.status().ToString();
  EXPECT_EQ(n_ctx->positions, 9u);
}

TEST(ModelConfig, RefusesWithTheCause) {
  const std::pair<std::string, std::string> cases[] = {
      {"", "not a JSON object"},
      {"[]", "not a JSON object"},
      {"{}", "names neither model_type nor architectures"},
      {R"({"model_type":"bert","architectures":["BertLMHeadModel"]})",
       "'BertLMHeadModel' (model_type 'bert') is not supported; supported are GPT2LMHeadModel"},
      {R"({"model_type":"gpt2","architectures":["GPT2ForSequenceClassification"]})",
       "'GPT2ForSequenceClassification'"},
      {R"({"model_type":"llama","architectures":["GPT2LMHeadModel"]})", "'llama'"},
      {R"({"model_type":"gpt2","architectures":"GPT2LMHeadModel"})", "must be a list"},
      {R"({"model_type":"gpt2"})", "n_layer is missing"},
      {R"({"model_type":"gpt2","n_layer":4096,"n_embd":1048576,"n_head":65536,)"
       R"("vocab_size":268435456,"n_positions":268435456,"n_inner":4194304})",
       "the limit is 1000000000000"},
      {TinyConfigText(R"(,"n_layer":0)"), "n_layer must be a whole number from 1"},
      {TinyConfigText(R"(,"n_layer":-1)"), "n_layer must be a whole number"},
      {TinyConfigText(R"(,"n_layer":1.5)"), "n_layer must be a whole number"},
      {TinyConfigText(R"(,"n_embd":99999999999999999999)"), "n_embd must be a whole number"},
      {TinyConfigText(R"(,"n_head":3)"), "n_embd 4 is no multiple of n_head 3"},
      {TinyConfigText(R"(,"activation_function":"relu")"), "'relu' is not supported"},
      {TinyConfigText(R"(,"layer_norm_epsilon":"x")"), "layer_norm_epsilon must be a number"},
      {TinyConfigText(R"(,"tie_word_embeddings":1)"), "must be true or false"},
      {TinyConfigText(R"(,"scale_attn_by_inverse_layer_idx":true)"), "is not supported"},
      {TinyConfigText(R"(,"scale_attn_weights":false)"), "is not supported"},
      {R"({"model_type":)" + std::string(50000, '[') + std::string(50000, ']') + "}", "nests"},
  };
  for (const auto& [text, cause] : cases) {
    const auto config = ParseModelConfig(text, "dir/config.json");
    ASSERT_FALSE(config.ok()) << text.substr(0, 200);
    EXPECT_THAT(config.status().message(), HasSubstr(cause));
    EXPECT_THAT(config.status().message(), HasSubstr("dir/config.json"));
    EXPECT_EQ(config.status().message().find('\n'), std::string::npos);
  }
}

TEST(ModelConfig, RandomAndTruncatedTextNeverCrashes) {
  const std::string whole = TinyConfigText(R"(,"n_inner":10,"layer_norm_epsilon":0.25)");
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_FALSE(ParseModelConfig(whole.substr(0, size), "c").ok());
  }
  std::mt19937_64 random(3);
  int refused = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string text = whole;
    text[random() % text.size()] = static_cast<char>(random());
    const auto config = ParseModelConfig(text, "c");
    if (!config.ok()) {
      ++refused;
      continue;
    }
    EXPECT_GE(config->heads, 1u);
    EXPECT_EQ(config->hidden % config->heads, 0u);
  }
  EXPECT_GT(refused, 1000);
}

TEST(ModelConfig, PartsAndParameters) {
  const ModelConfig tied = TinyConfig();
  EXPECT_EQ(PartNames(tied), (std::vector<std::string>{"embedding", "layer.0", "layer.1", "head"}));
  EXPECT_EQ(PartShapes(tied, "head").at("wte.weight"), (std::vector<std::int64_t>{7, 4}));
  EXPECT_EQ(PartShapes(tied, "layer.1").size(), 12u);
  EXPECT_EQ(PartShapes(tied, "layer.1").at("h.1.mlp.c_proj.weight"),
            (std::vector<std::int64_t>{16, 4}));
  for (const char* unknown :
       {"layer.2", "layer.01", "layer.", "layer.x", "", "layer.99999999999"}) {
    EXPECT_TRUE(PartShapes(tied, unknown).empty()) << unknown;
  }
  const std::uint64_t layer = 4 * 4 + 4 * 12 + 12 + 4 * 4 + 4 + 4 * 16 + 16 + 16 * 4 + 4;
  EXPECT_EQ(tied.ParametersOf(0, 1, false, false), layer);
  EXPECT_EQ(tied.ParametersOf(1, 1, true, false), 7u * 4 + 6 * 4);
  EXPECT_EQ(tied.ParametersOf(0, 2, false, true), 2 * layer + 8 + 28);
  EXPECT_EQ(tied.ParametersOf(0, 2, true, true), 2 * layer + 52 + 8);
  const ModelConfig untied = TinyConfig(R"(,"tie_word_embeddings":false)");
  EXPECT_EQ(PartShapes(untied, "head").count("lm_head.weight"), 1u);
  EXPECT_EQ(untied.ParametersOf(0, 2, true, true), 2 * layer + 52 + 8 + 28);
}

// GPT-2's published sizes, from its published shape.
TEST(ModelConfig, CountsTheParametersOfKnownModels) {
  const auto count = [](int layers, int hidden, int heads) {
    ModelConfig config;
    config.layers = static_cast<std::uint32_t>(layers);
    config.hidden = static_cast<std::uint32_t>(hidden);
    config.heads = static_cast<std::uint32_t>(heads);
    config.inner = 4 * config.hidden;
    config.positions = 1024;
    config.vocabulary = 50257;
    return config.ParametersOf(0, config.layers, true, true);
  };
  EXPECT_EQ(count(12, 768, 12), 124439808u);
  EXPECT_EQ(count(48, 1600, 25), 1557611200u);
}

class ModelDirectoryTest : public ::testing::Test {
 protected:
  void WriteModel(const std::string& config_text, const TensorSet& set) {
    WriteAll(folder_ / "config.json", config_text);
    ASSERT_OK(WriteSafetensors(folder_ / "model.safetensors", set.list, {{"format", "pt"}}));
  }
  std::string OpenError() {
    const auto opened = OpenModelDirectory(folder_.path());
    EXPECT_FALSE(opened.ok());
    if (opened.ok()) return "";
    EXPECT_EQ(opened.status().message().find('\n'), std::string::npos);
    return opened.status().message();
  }
  // Every tensor of every part holds the bytes that were written under prefix + name.
  void ExpectModel(const TensorSet& set, const std::string& prefix, DType dtype) {
    const auto opened = OpenModelDirectory(folder_.path());
    ASSERT_TRUE(opened.ok()) << opened.status().ToString();
    for (const std::string& part : PartNames((*opened)->config())) {
      const auto tensors = (*opened)->Part(part);
      ASSERT_TRUE(tensors.ok()) << tensors.status().ToString();
      EXPECT_EQ(tensors->size(), PartShapes((*opened)->config(), part).size());
      for (const auto& [name, view] : *tensors) {
        const auto& want = set.bytes.at((name == "lm_head.weight" ? "" : prefix) + name);
        EXPECT_EQ(view.dtype, dtype);
        ASSERT_EQ(view.data.size(), want.size());
        EXPECT_EQ(std::memcmp(view.data.data(), want.data(), want.size()), 0) << name;
      }
    }
  }
  TemporaryFolder folder_;
};

TEST_F(ModelDirectoryTest, PrefixOrNotAndEveryDType) {
  for (const std::string prefix : {"", "transformer."}) {
    for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
      const TensorSet set = TinyTensors(TinyConfig(), prefix, dtype);
      WriteModel(TinyConfigText(), set);
      ExpectModel(set, prefix, dtype);
    }
  }
}

TEST_F(ModelDirectoryTest, BuffersAndTheCopyOfATiedHeadAreIgnored) {
  TensorSet set = TinyTensors(TinyConfig(), "transformer.", DType::kF32);
  set.Add("transformer.h.0.attn.bias", DType::kU8, {1, 1, 6, 6});
  set.Add("transformer.h.0.attn.masked_bias", DType::kF32, {});
  set.Add("lm_head.weight", DType::kF32, {7, 4});
  set.bytes.at("lm_head.weight") = set.bytes.at("transformer.wte.weight");
  set.list.back().data = Bytes(set.bytes.at("lm_head.weight"));
  WriteModel(TinyConfigText(), set);
  ExpectModel(set, "transformer.", DType::kF32);
}

// A run on such a directory would train wte.weight as head and drop the head that was stored.
TEST_F(ModelDirectoryTest, ATiedHeadThatDiffersIsRefused) {
  const auto error_of = [this](DType dtype, const std::vector<std::int64_t>& shape,
                               std::size_t flipped) {
    TensorSet set = TinyTensors(TinyConfig(), "transformer.", DType::kF32);
    set.Add("lm_head.weight", dtype, shape);
    auto& head = set.bytes.at("lm_head.weight");
    if (head.size() == set.bytes.at("transformer.wte.weight").size()) {
      head = set.bytes.at("transformer.wte.weight");
      head.at(flipped) ^= 1;
    }
    set.list.back().data = Bytes(head);
    WriteModel(TinyConfigText(), set);
    return OpenError();
  };
  const std::string values = error_of(DType::kF32, {7, 4}, 7 * 4 * 4 - 1);
  EXPECT_THAT(values, HasSubstr("lm_head.weight is no copy of it (other values from element 27"));
  EXPECT_THAT(values, HasSubstr("\"tie_word_embeddings\": false"));
  EXPECT_THAT(error_of(DType::kF32, {7, 4}, 0), HasSubstr("from element 0 on"));
  EXPECT_THAT(error_of(DType::kF32, {8, 4}, 0), HasSubstr("shape [8, 4] instead of [7, 4]"));
  EXPECT_THAT(error_of(DType::kF16, {7, 4}, 0), HasSubstr("dtype F16 instead of F32"));

  // As the text advises.
  const std::string more = R"(,"tie_word_embeddings":false)";
  TensorSet set = TinyTensors(TinyConfig(), "transformer.", DType::kF32);
  set.Add("lm_head.weight", DType::kF32, {7, 4});
  WriteModel(TinyConfigText(more), set);
  ExpectModel(set, "transformer.", DType::kF32);
}

TEST_F(ModelDirectoryTest, UntiedHead) {
  const std::string more = R"(,"tie_word_embeddings":false)";
  const TensorSet set = TinyTensors(TinyConfig(more), "transformer.", DType::kF32);
  ASSERT_EQ(set.bytes.count("lm_head.weight"), 1u);
  WriteModel(TinyConfigText(more), set);
  ExpectModel(set, "transformer.", DType::kF32);
}

TEST_F(ModelDirectoryTest, Sharded) {
  const TensorSet set = TinyTensors(TinyConfig(), "transformer.", DType::kBF16);
  std::vector<TensorToWrite> shards[3];
  json map;
  for (std::size_t i = 0; i < set.list.size(); ++i) {
    shards[i % 3].push_back(set.list[i]);
    map[set.list[i].name] = "part-" + std::to_string(i % 3) + ".safetensors";
  }
  WriteAll(folder_ / "config.json", TinyConfigText());
  for (int i = 0; i < 3; ++i) {
    const std::string name = "part-" + std::to_string(i) + ".safetensors";
    ASSERT_OK(WriteSafetensors(folder_ / name, shards[i], {}));
  }
  const std::string index = folder_ / "model.safetensors.index.json";
  WriteAll(index, json{{"weight_map", map}}.dump());
  ExpectModel(set, "transformer.", DType::kBF16);

  json wrong = map;
  wrong["transformer.wte.weight"] = "../secret";
  WriteAll(index, json{{"weight_map", wrong}}.dump());
  EXPECT_THAT(OpenError(), HasSubstr("no plain file name"));
  wrong["transformer.wte.weight"] = "part-9.safetensors";
  WriteAll(index, json{{"weight_map", wrong}}.dump());
  EXPECT_THAT(OpenError(), HasSubstr("part-9.safetensors"));
  wrong = map;
  wrong["no.such"] = "part-0.safetensors";
  WriteAll(index, json{{"weight_map", wrong}}.dump());
  EXPECT_THAT(OpenError(), HasSubstr("'no.such'"));
  wrong = map;
  wrong.erase("transformer.h.1.ln_1.weight");
  WriteAll(index, json{{"weight_map", wrong}}.dump());
  EXPECT_THAT(OpenError(), HasSubstr("'h.1.ln_1.weight' is missing"));
  WriteAll(index, "{}");
  EXPECT_THAT(OpenError(), HasSubstr("weight_map"));
}

TEST_F(ModelDirectoryTest, RefusesWhatDoesNotFit) {
  EXPECT_THAT(OpenError(), HasSubstr("config.json"));
  WriteAll(folder_ / "config.json", TinyConfigText());
  EXPECT_THAT(OpenError(), HasSubstr("holds neither model.safetensors nor"));
  WriteAll(folder_ / "pytorch_model.bin", "x");
  EXPECT_THAT(OpenError(), HasSubstr("pickle"));

  TensorSet set = TinyTensors(TinyConfig(), "", DType::kF32);
  set.list.pop_back();
  WriteModel(TinyConfigText(), set);
  EXPECT_THAT(OpenError(), HasSubstr("is missing"));

  set = TinyTensors(TinyConfig(), "", DType::kF32);
  WriteModel(TinyConfigText(R"(,"vocab_size":8)"), set);
  EXPECT_THAT(OpenError(), HasSubstr("has shape [7, 4], but config.json asks for [8, 4]"));

  set = TinyTensors(TinyConfig(), "", DType::kF64);
  WriteModel(TinyConfigText(), set);
  EXPECT_THAT(OpenError(), HasSubstr("dtype F64; supported are"));

  set = TinyTensors(TinyConfig(), "", DType::kF32);
  set.Add("h.2.ln_1.weight", DType::kF32, {4});
  WriteModel(TinyConfigText(), set);
  EXPECT_THAT(OpenError(), HasSubstr("'h.2.ln_1.weight' belongs to no part"));

  set = TinyTensors(TinyConfig(), "", DType::kF32);
  set.Add("transformer.wpe.weight", DType::kF32, {6, 4});
  WriteModel(TinyConfigText(), set);
  EXPECT_THAT(OpenError(), HasSubstr("both with and without"));

  set = TinyTensors(TinyConfig(), "", DType::kF32);
  WriteModel(TinyConfigText(), set);
  const std::string whole = ReadAll(folder_ / "model.safetensors");
  WriteAll(folder_ / "model.safetensors", whole.substr(0, whole.size() - 1));
  EXPECT_THAT(OpenError(), HasSubstr("but the file holds only"));
  EXPECT_EQ(OpenModelDirectory(folder_ / "none").status().code(), StatusCode::kNotFound);
}

TEST_F(ModelDirectoryTest, UnknownPartIsNotFound) {
  WriteModel(TinyConfigText(), TinyTensors(TinyConfig(), "", DType::kF32));
  const auto opened = OpenModelDirectory(folder_.path());
  ASSERT_TRUE(opened.ok());
  EXPECT_EQ((*opened)->Part("layer.2").status().code(), StatusCode::kNotFound);
  EXPECT_TRUE((*opened)->TokenizerFiles().empty());
}

class SharedModels : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = Environment("SHOAL_SHARED_DATA") + "/hf-tiny/";
    if (!std::filesystem::exists(root_)) GTEST_SKIP() << "no shared data";
  }
  std::string root_;
};

TEST_F(SharedModels, Gpt2DirectoriesOpen) {
  for (const char* name : {"tiny_gpt2", "fake_gpt2", "gpt2_mini_random"}) {
    const auto opened = OpenModelDirectory(root_ + name);
    ASSERT_TRUE(opened.ok()) << opened.status().ToString();
    for (const std::string& part : PartNames((*opened)->config())) {
      EXPECT_TRUE((*opened)->Part(part).ok());
    }
  }
  const auto tiny = OpenModelDirectory(root_ + "tiny_gpt2");
  EXPECT_EQ((*tiny)->config().vocabulary, 21u);
  EXPECT_EQ((*tiny)->config().inner, 8u);
  EXPECT_EQ((*tiny)->TokenizerFiles().size(), 4u);
}

TEST_F(SharedModels, OtherArchitecturesAreNamed) {
  const auto bert = OpenModelDirectory(root_ + "bert_tiniest");
  ASSERT_FALSE(bert.ok());
  EXPECT_THAT(bert.status().message(), HasSubstr("'BertLMHeadModel'"));
  const auto llama = OpenModelDirectory(root_ + "llama_mini_random");
  ASSERT_FALSE(llama.ok());
  EXPECT_THAT(llama.status().message(), HasSubstr("'LlamaForCausalLM'"));
}

class ExportTest : public ModelDirectoryTest {
 protected:
  // Opens folder_, writes its parts to parts_ and returns options that export them.
  ExportOptions Prepare() {
    source_ = *OpenModelDirectory(folder_.path());
    ExportOptions options;
    options.path = out_ / "exported";
    options.config_json = source_->config().json;
    options.model_card = "# card\n";
    for (const std::string& part : PartNames(source_->config())) {
      options.part_files.push_back(parts_ / part);
      EXPECT_OK(WritePart(options.part_files.back(), *source_->Part(part)));
    }
    return options;
  }
  std::shared_ptr<const ModelDirectory> source_;
  TemporaryFolder parts_;
  TemporaryFolder out_;
};

TEST_F(ExportTest, ExportOfPartsEqualsTheSource) {
  for (const std::string more : {"", R"(,"tie_word_embeddings":false)"}) {
    TensorSet set = TinyTensors(TinyConfig(more), "", DType::kF32);
    WriteModel(TinyConfigText(more), set);
    WriteAll(folder_ / "vocab.json", "{}");
    ExportOptions options = Prepare();
    options.extra_files = source_->TokenizerFiles();
    ASSERT_OK(ExportModelDirectory(source_->config(), options));
    EXPECT_EQ(NamesIn(options.path), (std::vector<std::string>{"MODEL_CARD.md", "config.json",
                                                               "model.safetensors", "vocab.json"}));
    EXPECT_EQ(NamesIn(out_.path()), std::vector<std::string>{"exported"});
    EXPECT_EQ(ReadAll(options.path + "/config.json"), TinyConfigText(more));
    EXPECT_EQ(ReadAll(options.path + "/MODEL_CARD.md"), "# card\n");
    const auto file = OpenSafetensors(options.path + "/model.safetensors");
    ASSERT_TRUE(file.ok());
    EXPECT_EQ((*file)->metadata().at("format"), "pt");
    EXPECT_EQ((*file)->tensors().size(), set.list.size());
    for (const auto& [name, want] : set.bytes) {
      const std::string stored = name == "lm_head.weight" ? name : "transformer." + name;
      ASSERT_EQ((*file)->tensors().count(stored), 1u) << stored;
      const auto& data = (*file)->tensors().at(stored).data;
      ASSERT_EQ(data.size(), want.size());
      EXPECT_EQ(std::memcmp(data.data(), want.data(), want.size()), 0);
    }
    EXPECT_TRUE(OpenModelDirectory(options.path).ok());
    std::filesystem::remove_all(options.path);
  }
}

TEST_F(ExportTest, ConfigSaysWhatWasExported) {
  const std::string text =
      R"({"architectures":["GPT2Model"],"model_type":"gpt2","n_layer":2,"n_embd":4,"n_head":2,)"
      R"("n_positions":6,"vocab_size":7,"torch_dtype":"float16","x":[1,2]})";
  WriteModel(text, TinyTensors(TinyConfig(), "", DType::kBF16));
  const ExportOptions options = Prepare();
  ASSERT_OK(ExportModelDirectory(source_->config(), options));
  json want = json::parse(text);
  want["architectures"] = {"GPT2LMHeadModel"};
  want["torch_dtype"] = "bfloat16";
  EXPECT_EQ(json::parse(ReadAll(options.path + "/config.json")), want);
}

TEST_F(ExportTest, NeverWritesOverAnything) {
  WriteModel(TinyConfigText(), TinyTensors(TinyConfig(), "", DType::kF32));
  const ExportOptions options = Prepare();
  std::filesystem::create_directory(options.path);
  WriteAll(options.path + "/mine", "mine");
  EXPECT_EQ(ExportModelDirectory(source_->config(), options).code(), StatusCode::kAlreadyExists);
  EXPECT_EQ(NamesIn(options.path), std::vector<std::string>{"mine"});
  std::filesystem::remove(options.path + "/mine");
  EXPECT_OK(ExportModelDirectory(source_->config(), options));  // an empty folder is fine
  EXPECT_EQ(NamesIn(out_.path()), std::vector<std::string>{"exported"});
}

TEST_F(ExportTest, FailuresLeaveNothing) {
  WriteModel(TinyConfigText(), TinyTensors(TinyConfig(), "", DType::kF32));
  const ExportOptions good = Prepare();
  const auto error = [&](const ExportOptions& options) {
    const Status status = ExportModelDirectory(source_->config(), options);
    EXPECT_FALSE(status.ok());
    EXPECT_TRUE(NamesIn(out_.path()).empty());
    return status.message();
  };
  ExportOptions bad = good;
  bad.part_files.pop_back();
  EXPECT_THAT(error(bad), HasSubstr("4 parts, but 3"));
  bad = good;
  std::swap(bad.part_files[1], bad.part_files[2]);
  EXPECT_THAT(error(bad), HasSubstr("is not part 'layer.0'"));
  bad = good;
  bad.extra_files = {folder_ / "config.json"};
  EXPECT_THAT(error(bad), HasSubstr("'config.json' is taken"));
  bad = good;
  bad.extra_files = {folder_ / "none.json"};
  EXPECT_THAT(error(bad), HasSubstr("none.json"));
  // A tied head that has drifted from the embedding.
  std::string head = ReadAll(good.part_files.back());
  head.back() = static_cast<char>(head.back() ^ 1);
  WriteAll(good.part_files.back(), head);
  EXPECT_THAT(error(good), HasSubstr("the tied embedding"));
}

}  // namespace
}  // namespace shoal::storage
