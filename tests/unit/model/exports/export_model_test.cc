#include "model/exports/export_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <random>

#include "common/file.h"
#include "model/families/family.h"
#include "storage/models/safetensors.h"
#include "tests/support/gguf_reader.h"
#include "tests/support/temporary_folder.h"

namespace shoal::model {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using test_support::GgufRead;
using test_support::GgufTensorRead;
using test_support::ReadGguf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

const json kLlama = {{"architectures", {"LlamaForCausalLM"}},
                     {"model_type", "llama"},
                     {"vocab_size", 720},
                     {"hidden_size", 32},
                     {"intermediate_size", 40},
                     {"num_attention_heads", 2},
                     {"num_key_value_heads", 1},
                     {"num_hidden_layers", 2},
                     {"max_position_embeddings", 64},
                     {"tie_word_embeddings", true}};

class ExportModelTest : public ::testing::Test {
 protected:
  // A model with a family's tokenizer of tests/data, its weights in bf16.
  void MakeModel(const json& config, const std::string& tokenizer) {
    const std::string text = config.dump();
    ASSERT_TRUE(WriteFileAtomic(folder_ / "config.json", text).ok());
    const auto spec = ParseModelSpec(text, "config.json");
    ASSERT_TRUE(spec.ok()) << spec.status().ToString();
    std::mt19937 random(1);
    values_.clear();
    bytes_.clear();
    std::map<std::string, std::vector<std::int64_t>> shapes;
    for (const std::string& part : spec->PartNames()) {
      for (const auto& [name, tensor] : spec->PartTensors(part)) shapes[name] = tensor.shape;
    }
    std::vector<storage::TensorToWrite> tensors;
    for (const auto& [name, shape] : shapes) {
      std::size_t count = 1;
      for (const std::int64_t size : shape) count *= static_cast<std::size_t>(size);
      std::vector<float>& values = values_[name];
      std::string& bytes = bytes_[name];
      for (std::size_t i = 0; i < count; ++i) {
        // Eight bits, so that bf16 has all of it.
        values.push_back(static_cast<float>(static_cast<int>(random() % 255) - 127) / 64);
        char float_bytes[4];
        std::memcpy(float_bytes, &values.back(), 4);
        bytes.append(float_bytes + 2, 2);
      }
      tensors.push_back({name, storage::DType::kBF16, shape, std::as_bytes(std::span(bytes))});
    }
    Write(tensors);
    fs::remove(folder_ / "tokenizer.json");
    fs::copy(std::string(std::getenv("SHOAL_TEST_DATA")) + "/tokenizers/" + tokenizer +
                 "/tokenizer.json",
             folder_ / "tokenizer.json");
  }
  void Write(const std::vector<storage::TensorToWrite>& tensors) {
    ASSERT_TRUE(
        storage::WriteSafetensors(folder_ / "model.safetensors", tensors, {{"format", "pt"}}).ok());
  }
  Result<std::vector<std::string>> Export(const ExportFormat& format) {
    const auto source = OpenExportSource(folder_.path());
    if (!source.ok()) return source.status();
    return ExportModel(*source, format, out_ / "made");
  }
  // One line, and nothing is left.
  std::string ErrorOf(const ExportFormat& format) {
    const auto notes = Export(format);
    EXPECT_FALSE(notes.ok());
    EXPECT_TRUE(fs::is_empty(out_.path()));
    EXPECT_EQ(notes.status().message().find('\n'), std::string::npos);
    return notes.status().message();
  }
  std::string Text(const std::string& name) {
    return ReadFile(out_ / "made" + name, 1 << 20).value();
  }

  test_support::TemporaryFolder folder_, out_;
  std::map<std::string, std::vector<float>> values_;
  std::map<std::string, std::string> bytes_;
};

TEST_F(ExportModelTest, GgufHasWeightsAndTokenizer) {
  MakeModel(kLlama, "llama3");
  const auto notes = Export({"gguf", "", ""});
  ASSERT_TRUE(notes.ok()) << notes.status().ToString();
  EXPECT_TRUE(notes->empty());
  const GgufRead read = ReadGguf(out_ / "made/model.gguf");
  EXPECT_EQ(read.values.at("general.architecture"), "llama");
  EXPECT_EQ(read.values.at("general.file_type"), "1");
  EXPECT_EQ(read.values.at("tokenizer.ggml.model"), "gpt2");
  EXPECT_EQ(read.values.at("tokenizer.ggml.pre"), "llama-bpe");
  EXPECT_EQ(read.values.at("tokenizer.ggml.add_bos_token"), "true");
  EXPECT_EQ(read.values.at("tokenizer.ggml.bos_token_id"), "700");
  const std::string& tokens = read.values.at("tokenizer.ggml.tokens");
  EXPECT_THAT(tokens, HasSubstr("|<|begin_of_text|>|<|end_of_text|>|<|eot_id|>|"));
  EXPECT_THAT(tokens, HasSubstr("|[PAD719]|"));  // the embedding has more rows than tokens
  const std::string& kinds = read.values.at("tokenizer.ggml.token_type");
  EXPECT_EQ(kinds.size(), 2u * 720);
  EXPECT_THAT(kinds, StartsWith("1|1|"));
  EXPECT_EQ(kinds.substr(2 * 700, 6), "3|3|3|");
  EXPECT_EQ(kinds.substr(2 * 719), "5|");

  const GgufTensorRead& norm = read.tensors.at("blk.1.ffn_norm.weight");
  EXPECT_EQ(norm.type, 0u);
  const std::vector<double> embedding = read.tensors.at("token_embd.weight").Numbers();
  const std::vector<float>& want = values_.at("embed_tokens.weight");
  EXPECT_TRUE(std::equal(want.begin(), want.end(), embedding.begin(), embedding.end()));
  // Row 2 i + k of a head of 16 is row 8 k + i of the source.
  const std::vector<double> query = read.tensors.at("blk.1.attn_q.weight").Numbers();
  const std::vector<float>& source = values_.at("layers.1.self_attn.q_proj.weight");
  ASSERT_EQ(query.size(), source.size());
  for (std::size_t row = 0; row < 32; ++row) {
    const std::size_t from = row / 16 * 16 + row % 2 * 8 + row % 16 / 2;
    for (std::size_t i = 0; i < 32; ++i) EXPECT_EQ(query[row * 32 + i], source[from * 32 + i]);
  }
  EXPECT_EQ(Text("/Modelfile"), "FROM ./model.gguf\n");
}

TEST_F(ExportModelTest, Q8HasBlocksWhereRowsAreWhole) {
  MakeModel(kLlama, "llama3");
  const auto notes = Export({"gguf", "", "q8_0"});
  ASSERT_TRUE(notes.ok()) << notes.status().ToString();
  const GgufRead read = ReadGguf(out_ / "made/model.gguf");
  EXPECT_EQ(read.values.at("general.file_type"), "7");
  EXPECT_EQ(read.tensors.at("blk.0.attn_norm.weight").type, 0u);
  EXPECT_EQ(read.tensors.at("blk.0.ffn_up.weight").type, 8u);
  EXPECT_EQ(read.tensors.at("blk.0.ffn_down.weight").type, 1u);  // rows of 40
  ASSERT_EQ(notes->size(), 1u);
  EXPECT_THAT(notes->front(), StartsWith("2 tensors are F16"));
  const std::vector<double> up = read.tensors.at("blk.0.ffn_up.weight").Numbers();
  const std::vector<float>& want = values_.at("layers.0.mlp.up_proj.weight");
  // Half a step of 127/64 / 127, and the scale's rounding.
  for (std::size_t i = 0; i < up.size(); ++i) EXPECT_NEAR(up[i], want[i], 0.009) << i;
}

TEST_F(ExportModelTest, TheChatTemplateGoesAlong) {
  MakeModel(kLlama, "smollm");
  const std::string chat =
      std::string(std::getenv("SHOAL_TEST_DATA")) + "/chat/templates/chatml.jinja";
  fs::copy(chat, folder_ / "chat_template.jinja");
  ASSERT_TRUE(WriteFileAtomic(folder_ / "tokenizer_config.json",
                              R"({"eos_token":"<|im_end|>","pad_token":"<|im_end|>"})")
                  .ok());
  ASSERT_TRUE(Export({"gguf", "", ""}).ok());
  const GgufRead read = ReadGguf(out_ / "made/model.gguf");
  EXPECT_EQ(read.values.at("tokenizer.chat_template"), ReadFile(chat, 1 << 20).value());
  EXPECT_EQ(read.values.at("tokenizer.ggml.pre"), "smollm");
  EXPECT_EQ(read.values.at("tokenizer.ggml.eos_token_id"), "701");
  EXPECT_EQ(read.values.at("tokenizer.ggml.padding_token_id"), "701");
  EXPECT_EQ(read.values.at("tokenizer.ggml.add_bos_token"), "false");
  EXPECT_EQ(Text("/Modelfile"),
            "FROM ./model.gguf\n"
            "TEMPLATE \"\"\"{{ if .System }}<|im_start|>system\n{{ .System }}<|im_end|>\n{{ end }}"
            "<|im_start|>user\n{{ .Prompt }}<|im_end|>\n<|im_start|>assistant\n{{ .Response }}"
            "<|im_end|>\n\"\"\"\n"
            "SYSTEM \"\"\"You are a small model\"\"\"\n"
            "PARAMETER stop \"<|im_end|>\"\n");
}

TEST_F(ExportModelTest, DirectoriesKeepTheFormatOrTakeAnother) {
  MakeModel(kLlama, "llama3");
  ASSERT_TRUE(Export({}).ok());
  auto file = storage::OpenSafetensors(out_ / "made/model.safetensors");
  ASSERT_TRUE(file.ok());
  EXPECT_EQ((*file)->tensors().at("model.norm.weight").dtype, storage::DType::kBF16);
  EXPECT_EQ(json::parse(Text("/config.json"))["torch_dtype"], "bfloat16");
  EXPECT_TRUE(fs::exists(out_ / "made/tokenizer.json"));
  fs::remove_all(out_ / "made");
  ASSERT_TRUE(Export({"directory", "fp32", ""}).ok());
  file = storage::OpenSafetensors(out_ / "made/model.safetensors");
  const auto& view = (*file)->tensors().at("model.norm.weight");
  EXPECT_EQ(view.dtype, storage::DType::kF32);
  EXPECT_EQ(std::memcmp(view.data.data(), values_.at("norm.weight").data(), view.data.size()), 0);
}

TEST_F(ExportModelTest, WhatCannotBeDoneLeavesNothing) {
  MakeModel(kLlama, "deepseek");
  EXPECT_THAT(ErrorOf({"gguf", "", ""}), HasSubstr("its pre_tokenizer is \"Split\" and more"));
  MakeModel(kLlama, "bert");
  EXPECT_THAT(ErrorOf({"gguf", "", ""}), HasSubstr("Unigram or WordPiece"));
  fs::remove(folder_ / "tokenizer.json");
  EXPECT_THAT(ErrorOf({"gguf", "", ""}), HasSubstr("no tokenizer in"));
  json config = kLlama;
  config["vocab_size"] = 600;
  MakeModel(config, "llama3");
  EXPECT_THAT(ErrorOf({"gguf", "", ""}), HasSubstr("the model only 600"));
  config = kLlama;
  config["hidden_act"] = "gelu";
  MakeModel(config, "llama3");
  EXPECT_THAT(ErrorOf({"gguf", "", ""}), HasSubstr("activation"));
}

TEST_F(ExportModelTest, DamagedWeightsAreRefused) {
  MakeModel(kLlama, "llama3");
  auto file = storage::OpenSafetensors(folder_ / "model.safetensors");
  std::vector<storage::TensorToWrite> tensors;
  bytes_.at("layers.1.mlp.down_proj.weight").replace(100, 2, "\xc0\x7f");  // NaN
  for (const auto& [name, view] : (*file)->tensors()) {
    tensors.push_back({name, view.dtype, view.shape, std::as_bytes(std::span(bytes_.at(name)))});
  }
  Write(tensors);
  for (const char* type : {"f16", "q8_0"}) {
    EXPECT_THAT(ErrorOf({"gguf", "", type}),
                HasSubstr("'layers.1.mlp.down_proj.weight' has a value that is not finite"));
  }
}

TEST(ExportFormat, OptionsOfOtherKindsAreRefused) {
  EXPECT_TRUE(CheckExportFormat({}).ok());
  EXPECT_TRUE(CheckExportFormat({"directory", "bf16", ""}).ok());
  EXPECT_TRUE(CheckExportFormat({"gguf", "", "q8_0"}).ok());
  EXPECT_THAT(CheckExportFormat({"zip", "", ""}).message(),
              HasSubstr("directory, merged, adapter, gguf"));
  EXPECT_THAT(CheckExportFormat({"gguf", "bf16", ""}).message(), HasSubstr("--type"));
  EXPECT_THAT(CheckExportFormat({"directory", "", "f16"}).message(), HasSubstr("--dtype"));
  EXPECT_THAT(CheckExportFormat({"directory", "fp8", ""}).message(), HasSubstr("fp32, bf16 or"));
  EXPECT_THAT(CheckExportFormat({"gguf", "", "q4_0"}).message(), HasSubstr("f16 or q8_0"));
}

}  // namespace
}  // namespace shoal::model
