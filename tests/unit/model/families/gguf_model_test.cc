#include "model/families/gguf_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "common/file.h"
#include "model/families/family.h"

namespace shoal::model {
namespace {

using nlohmann::json;
using storage::GgufTensor;
using storage::GgufType;
using ::testing::HasSubstr;
using Change = GgufSource::Change;

json ConfigOf(const std::string& family) {
  const std::string path =
      std::string(std::getenv("SHOAL_TEST_DATA")) + "/families/" + family + "/config.json";
  return json::parse(ReadFile(path, 1 << 20).value());
}

// A config whose heads, scales and windows llama.cpp has.
json Plain(const std::string& family) {
  json config = ConfigOf(family);
  if (family == "qwen2") config["use_sliding_window"] = false, config.erase("layer_types");
  if (family == "gemma2" || family == "gemma3") {
    config["query_pre_attn_scalar"] = 12;
    if (family == "gemma3") config["num_hidden_layers"] = 6, config.erase("layer_types");
  }
  return config;
}

Result<GgufPlan> PlanOf(const json& config) {
  const auto spec = ParseModelSpec(config.dump(), "config.json");
  if (!spec.ok()) return spec.status();
  return DescribeGguf(*spec);
}

std::string ErrorOf(const json& config) { return PlanOf(config).status().message(); }

// "name source change" of each tensor, and its shape.
std::map<std::string, std::string> TensorsOf(const GgufPlan& plan) {
  constexpr const char* kChanges[] = {"", " transposed", " pairs", " + 1"};
  std::map<std::string, std::string> tensors;
  for (std::size_t i = 0; i < plan.tensors.size(); ++i) {
    const GgufTensor& tensor = plan.tensors[i];
    std::string text = plan.sources[i].tensor +
                       kChanges[static_cast<std::size_t>(plan.sources[i].change)] +
                       (tensor.type == GgufType::kF32 ? " F32" : "");
    for (const std::int64_t size : tensor.shape) text += " " + std::to_string(size);
    EXPECT_TRUE(tensors.emplace(tensor.name, text).second) << tensor.name;
  }
  return tensors;
}

template <typename T>
T Key(const GgufPlan& plan, const std::string& name) {
  for (const auto& [key, value] : plan.metadata) {
    if (key == name && std::holds_alternative<T>(value)) return std::get<T>(value);
  }
  ADD_FAILURE() << name;
  return T();
}

bool HasKey(const GgufPlan& plan, const std::string& name) {
  for (const auto& [key, value] : plan.metadata) {
    if (key == name) return true;
  }
  return false;
}

// Every tensor of the model goes to one place, but the copy of a tied head.
TEST(GgufModel, EveryFamilyGivesAllItsTensors) {
  for (const char* family : {"gpt2", "gpt2_erf", "llama", "llama3", "llama_linear", "llama_yarn",
                             "mistral", "qwen2", "qwen3", "gemma2", "gemma3", "phi3"}) {
    json config = Plain(family);
    if (std::string(family) == "gpt2_erf") config["activation_function"] = "gelu_new";
    const auto spec = ParseModelSpec(config.dump(), family);
    ASSERT_TRUE(spec.ok()) << spec.status().ToString();
    const auto plan = DescribeGguf(*spec);
    ASSERT_TRUE(plan.ok()) << family << ": " << plan.status().ToString();
    ASSERT_EQ(plan->tensors.size(), plan->sources.size());
    std::map<std::string, TensorSpec> wanted;
    for (const std::string& part : spec->PartNames()) wanted.merge(spec->PartTensors(part));
    for (std::size_t i = 0; i < plan->tensors.size(); ++i) {
      const GgufSource& source = plan->sources[i];
      if (source.tensor.empty()) continue;
      const auto found = wanted.find(source.tensor);
      ASSERT_NE(found, wanted.end()) << family << " " << source.tensor;
      std::vector<std::int64_t> shape = found->second.shape;
      if (source.change == Change::kTransposed) std::swap(shape[0], shape[1]);
      EXPECT_EQ(plan->tensors[i].shape, shape) << family << " " << source.tensor;
      wanted.erase(found);
    }
    EXPECT_TRUE(wanted.empty()) << family << " " << wanted.begin()->first;
  }
}

TEST(GgufModel, Gpt2) {
  const auto plan = PlanOf(Plain("gpt2"));
  ASSERT_TRUE(plan.ok()) << plan.status().ToString();
  EXPECT_EQ(Key<std::string>(*plan, "general.architecture"), "gpt2");
  EXPECT_EQ(Key<std::uint32_t>(*plan, "gpt2.context_length"), 24u);
  EXPECT_EQ(Key<std::uint32_t>(*plan, "gpt2.feed_forward_length"), 80u);
  EXPECT_EQ(Key<float>(*plan, "gpt2.attention.layer_norm_epsilon"), 1e-5F);
  EXPECT_FALSE(HasKey(*plan, "gpt2.rope.freq_base"));
  const auto tensors = TensorsOf(*plan);
  EXPECT_EQ(tensors.at("token_embd.weight"), "wte.weight 53 20");
  EXPECT_EQ(tensors.at("position_embd.weight"), "wpe.weight F32 24 20");
  EXPECT_EQ(tensors.at("blk.2.attn_qkv.weight"), "h.2.attn.c_attn.weight transposed 60 20");
  EXPECT_EQ(tensors.at("blk.2.attn_qkv.bias"), "h.2.attn.c_attn.bias F32 60");
  EXPECT_EQ(tensors.at("blk.0.ffn_down.weight"), "h.0.mlp.c_proj.weight transposed 20 80");
  EXPECT_EQ(tensors.at("output_norm.bias"), "ln_f.bias F32 20");
  EXPECT_FALSE(tensors.contains("output.weight"));
}

TEST(GgufModel, LlamaStoresPairsSideBySide) {
  const auto plan = PlanOf(Plain("llama3"));
  ASSERT_TRUE(plan.ok()) << plan.status().ToString();
  EXPECT_EQ(Key<std::uint32_t>(*plan, "llama.attention.head_count_kv"), 1u);
  EXPECT_EQ(Key<std::uint32_t>(*plan, "llama.rope.dimension_count"), 80u);
  EXPECT_EQ(Key<float>(*plan, "llama.rope.freq_base"), 5000);
  EXPECT_FALSE(HasKey(*plan, "llama.rope.scaling.type"));
  const auto tensors = TensorsOf(*plan);
  EXPECT_EQ(tensors.at("blk.1.attn_q.weight"), "layers.1.self_attn.q_proj.weight pairs 400 20");
  EXPECT_EQ(tensors.at("blk.1.attn_k.bias"), "layers.1.self_attn.k_proj.bias pairs F32 80");
  EXPECT_EQ(tensors.at("blk.1.attn_v.weight"), "layers.1.self_attn.v_proj.weight 80 20");
  EXPECT_EQ(tensors.at("rope_freqs.weight"), " F32 40");
  // Between 1 for quick pairs and config.json's factor for slow ones.
  const std::vector<float>& factors = plan->sources[0].values;
  ASSERT_EQ(factors.size(), 40u);
  EXPECT_NEAR(factors.front(), 1, 1e-6);
  EXPECT_NEAR(factors.back(), 8, 1e-5);
}

TEST(GgufModel, RotaryScaling) {
  const auto linear = PlanOf(Plain("llama_linear"));
  ASSERT_TRUE(linear.ok());
  EXPECT_EQ(Key<std::string>(*linear, "llama.rope.scaling.type"), "linear");
  EXPECT_EQ(Key<float>(*linear, "llama.rope.scaling.factor"), 4);
  const auto yarn = PlanOf(Plain("llama_yarn"));
  ASSERT_TRUE(yarn.ok());
  EXPECT_EQ(Key<std::uint32_t>(*yarn, "llama.rope.scaling.original_context_length"), 160u);
  EXPECT_EQ(Key<float>(*yarn, "llama.rope.scaling.yarn_beta_fast"), 32);
  json config = Plain("llama_yarn");
  config["rope_parameters"]["attention_factor"] = 2;
  EXPECT_THAT(ErrorOf(config), HasSubstr("attention_factor"));
}

TEST(GgufModel, Gemma) {
  const auto second = PlanOf(Plain("gemma2"));
  ASSERT_TRUE(second.ok()) << second.status().ToString();
  EXPECT_EQ(Key<float>(*second, "gemma2.attn_logit_softcapping"), 5);
  EXPECT_EQ(Key<float>(*second, "gemma2.final_logit_softcapping"), 3);
  EXPECT_EQ(Key<std::uint32_t>(*second, "gemma2.attention.sliding_window"), 9u);
  const auto tensors = TensorsOf(*second);
  EXPECT_EQ(tensors.at("blk.0.ffn_norm.weight"),
            "layers.0.pre_feedforward_layernorm.weight + 1 F32 20");
  EXPECT_EQ(tensors.at("blk.0.post_ffw_norm.weight"),
            "layers.0.post_feedforward_layernorm.weight + 1 F32 20");
  EXPECT_EQ(tensors.at("blk.0.post_attention_norm.weight"),
            "layers.0.post_attention_layernorm.weight + 1 F32 20");
  const auto third = PlanOf(Plain("gemma3"));
  ASSERT_TRUE(third.ok()) << third.status().ToString();
  EXPECT_EQ(Key<float>(*third, "gemma3.rope.freq_base"), 1e6F);
  EXPECT_EQ(Key<float>(*third, "gemma3.rope.freq_base_swa"), 1e4F);
  EXPECT_EQ(TensorsOf(*third).at("blk.5.attn_q_norm.weight"),
            "layers.5.self_attn.q_norm.weight + 1 F32 12");
}

TEST(GgufModel, PhiKeepsItsFusedProducts) {
  const auto plan = PlanOf(Plain("phi3"));
  ASSERT_TRUE(plan.ok()) << plan.status().ToString();
  const auto tensors = TensorsOf(*plan);
  EXPECT_EQ(tensors.at("blk.0.attn_qkv.weight"), "layers.0.self_attn.qkv_proj.weight 60 20");
  EXPECT_EQ(tensors.at("blk.0.ffn_up.weight"), "layers.0.mlp.gate_up_proj.weight 56 20");
  EXPECT_FALSE(tensors.contains("blk.0.ffn_gate.weight"));
  EXPECT_EQ(tensors.at("output.weight"), "lm_head.weight 53 20");
}

TEST(GgufModel, WindowsThatLlamaCppLacksAreNoted) {
  const auto plan = PlanOf(Plain("mistral"));
  ASSERT_TRUE(plan.ok());
  ASSERT_EQ(plan->notes.size(), 1u);
  EXPECT_THAT(plan->notes[0], HasSubstr("the last 9"));
  json config = Plain("mistral");
  config["sliding_window"] = config["max_position_embeddings"];
  EXPECT_TRUE(PlanOf(config)->notes.empty());
}

TEST(GgufModel, WhatLlamaCppComputesOtherwiseIsRefused) {
  EXPECT_THAT(ErrorOf(ConfigOf("bert")), HasSubstr("'bert' is no language model"));
  EXPECT_THAT(ErrorOf(ConfigOf("roberta")), HasSubstr("'roberta' is no language model"));
  EXPECT_THAT(ErrorOf(ConfigOf("gpt2_erf")), HasSubstr("activation"));
  EXPECT_THAT(ErrorOf(ConfigOf("gpt2_by_layer")), HasSubstr("scores that are scaled"));
  EXPECT_THAT(ErrorOf(ConfigOf("gpt2_unscaled")), HasSubstr("scores that are scaled"));
  const auto changed = [](const char* family, const char* key, const json& value) {
    json config = Plain(family);
    config[key] = value;
    return ErrorOf(config);
  };
  EXPECT_THAT(changed("gemma3", "sliding_window_pattern", 2), HasSubstr("order of layers"));
  EXPECT_THAT(changed("gemma2", "attn_logit_softcapping", nullptr), HasSubstr("scores without"));
  EXPECT_THAT(changed("gemma2", "final_logit_softcapping", nullptr), HasSubstr("logits without"));
  EXPECT_THAT(changed("gemma3", "attn_logit_softcapping", 5), HasSubstr("attn_logit_softcapping"));
  EXPECT_THAT(changed("gemma2", "tie_word_embeddings", false), HasSubstr("a head of its own"));
  EXPECT_THAT(changed("qwen3", "attention_bias", true), HasSubstr("attention_bias"));
  EXPECT_THAT(changed("qwen2", "head_dim", 6), HasSubstr("hidden_size together"));
  json config = Plain("qwen3");
  config["rope_parameters"] = ConfigOf("llama3")["rope_parameters"];
  EXPECT_THAT(ErrorOf(config), HasSubstr("llama3"));
}

}  // namespace
}  // namespace shoal::model
