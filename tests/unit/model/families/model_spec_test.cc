// config.json of all families as a ModelSpec: what is read, what is refused, what follows.

#include "model/families/model_spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>

#include "model/families/family.h"
#include "model/families/open_model.h"

namespace shoal::model {
namespace {

using ::testing::HasSubstr;

// A GPT-2 of 2 layers, hidden 4, 2 heads, 6 positions, 7 tokens.
// An object of `text` and `more`; of the same keys, the last one counts.
std::string With(const std::string& text, const std::string& more) {
  return nlohmann::ordered_json::parse(text + more + "}").dump();
}

std::string TinyConfigText(const std::string& more = "") {
  return With(R"({"model_type":"gpt2","architectures":["GPT2LMHeadModel"],"n_layer":2,"n_embd":4,)"
              R"("n_head":2,"n_positions":6,"vocab_size":7,"activation_function":"gelu_new")",
              more);
}

ModelSpec TinySpec(const std::string& more = "") {
  return ParseModelSpec(TinyConfigText(more), "config.json").value();
}

// A Llama of 2 layers, 4 heads of 4 values.
std::string LlamaText(const std::string& more = "") {
  return With(R"({"model_type":"llama","architectures":["LlamaForCausalLM"],"num_hidden_layers":2,)"
              R"("hidden_size":16,"intermediate_size":24,"num_attention_heads":4,"vocab_size":7,)"
              R"("max_position_embeddings":64)",
              more);
}

// A BERT or RoBERTa of 2 layers, 4 heads of 4 values.
void ExpectRefused(const std::string& config, const std::string& cause) {
  const auto spec = ParseModelSpec(config, "config.json");
  ASSERT_FALSE(spec.ok()) << config;
  EXPECT_THAT(spec.status().message(), HasSubstr(cause)) << config;
}

std::string BertText(const std::string& more = "", const std::string& family = "bert") {
  return With(R"({"model_type":")" + family +
                  R"(","num_hidden_layers":2,"hidden_size":16,"intermediate_size":24,)"
                  R"("num_attention_heads":4,"vocab_size":7,"max_position_embeddings":24)",
              more);
}

TEST(ModelSpec, ReadsEveryFieldOfGpt2) {
  const ModelSpec spec =
      TinySpec(R"(,"n_inner":10,"layer_norm_epsilon":0.25,"tie_word_embeddings":false,)"
               R"("initializer_range":0.5)");
  EXPECT_EQ(spec.family, "gpt2");
  EXPECT_EQ(spec.layers(), 2U);
  EXPECT_EQ(spec.hidden, 4U);
  EXPECT_EQ(spec.positions, 6U);
  EXPECT_EQ(spec.vocabulary, 7U);
  EXPECT_FALSE(spec.tied_head());
  const LayerSpec& layer = spec.layer_specs[1];
  EXPECT_EQ(layer.attention.heads, 2);
  EXPECT_EQ(layer.attention.head_size, 2);
  EXPECT_EQ(layer.feed_forward.inner, 10);
  EXPECT_EQ(layer.attention_norm->epsilon, 0.25);
  EXPECT_EQ(spec.embedding.tokens.deviation, 0.5);
  EXPECT_EQ(layer.feed_forward.output.deviation, 0.5 / std::sqrt(4.0));
}

TEST(ModelSpec, Gpt2ScalesScoresByHeadSizeAndByLayer) {
  const auto scales = [](const std::string& more) {
    const ModelSpec spec = TinySpec(more);
    return std::pair(spec.layer_specs[0].attention.scale, spec.layer_specs[1].attention.scale);
  };
  const double size = std::sqrt(0.5);
  EXPECT_EQ(scales(""), std::pair(1 / std::sqrt(2.0), 1 / std::sqrt(2.0)));
  EXPECT_DOUBLE_EQ(scales(R"(,"scale_attn_by_inverse_layer_idx":true)").first, size);
  EXPECT_DOUBLE_EQ(scales(R"(,"scale_attn_by_inverse_layer_idx":true)").second, size / 2);
  EXPECT_EQ(scales(R"(,"scale_attn_weights":false)"), std::pair(1.0, 1.0));
  EXPECT_EQ(scales(R"(,"scale_attn_weights":false,"scale_attn_by_inverse_layer_idx":true)"),
            std::pair(1.0, 0.5));
}

TEST(ModelSpec, DefaultsOfGpt2) {
  const ModelSpec spec = TinySpec(R"(,"n_inner":null)");
  EXPECT_EQ(spec.layer_specs[0].feed_forward.inner, 16);
  EXPECT_TRUE(spec.tied_head());
  EXPECT_EQ(spec.layer_specs[0].attention_norm->epsilon, 1e-5);
  EXPECT_EQ(spec.json, TinyConfigText(R"(,"n_inner":null)"));
  const auto n_ctx =
      ParseModelSpec(R"({"architectures":["GPT2Model"],"n_layer":1,"n_embd":4,"n_head":1,)"
                     R"("n_ctx":9,"vocab_size":3})",
                     "config.json");
  ASSERT_TRUE(n_ctx.ok()) << n_ctx.status().ToString();
  EXPECT_EQ(n_ctx->positions, 9U);
}

TEST(ModelSpec, RefusesWithTheCause) {
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
      {R"({"model_type":"gpt2","n_layer":2,"n_layer":3})", "has the key 'n_layer' twice"},
      {R"({"model_type":"gpt2","n_layer":4096,"n_embd":1048576,"n_head":65536,)"
       R"("vocab_size":268435456,"n_positions":268435456,"n_inner":4194304})",
       "the limit is 1000000000000"},
      {TinyConfigText(R"(,"n_layer":0)"), "n_layer must be a whole number from 1"},
      {TinyConfigText(R"(,"n_layer":-1)"), "n_layer must be a whole number"},
      {TinyConfigText(R"(,"n_layer":1.5)"), "n_layer must be a whole number"},
      {TinyConfigText(R"(,"n_embd":99999999999999999999)"), "n_embd must be a whole number"},
      {TinyConfigText(R"(,"n_head":3)"), "n_embd 4 is no multiple of n_head 3"},
      {TinyConfigText(R"(,"activation_function":"mish")"), "'mish' is not supported"},
      {TinyConfigText(R"(,"layer_norm_epsilon":"x")"), "layer_norm_epsilon must be a number"},
      {TinyConfigText(R"(,"tie_word_embeddings":1)"), "must be true or false"},
      {TinyConfigText(R"(,"scale_attn_weights":1)"), "must be true or false"},
      {TinyConfigText(R"(,"add_cross_attention":true)"), "is not supported"},
      {TinyConfigText(R"(,"new_switch":true)"), "key 'new_switch' is not known"},
      {R"({"model_type":)" + std::string(50000, '[') + std::string(50000, ']') + "}", "nests"},
  };
  for (const auto& [text, cause] : cases) {
    const auto config = ParseModelSpec(text, "dir/config.json");
    ASSERT_FALSE(config.ok()) << text.substr(0, 200);
    EXPECT_THAT(config.status().message(), HasSubstr(cause));
    EXPECT_THAT(config.status().message(), HasSubstr("dir/config.json"));
    EXPECT_EQ(config.status().message().find('\n'), std::string::npos);
  }
}

TEST(ModelSpec, RandomAndTruncatedTextNeverCrashes) {
  const std::string whole = TinyConfigText(R"(,"n_inner":10,"layer_norm_epsilon":0.25)");
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_FALSE(ParseModelSpec(whole.substr(0, size), "c").ok());
  }
  std::mt19937_64 random(3);
  int refused = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string text = whole;
    text[random() % text.size()] = static_cast<char>(random());
    const auto config = ParseModelSpec(text, "c");
    if (!config.ok()) {
      ++refused;
      continue;
    }
    EXPECT_EQ(config->hidden % config->layer_specs.front().attention.heads, 0);
  }
  EXPECT_GT(refused, 1000);
}

TEST(ModelSpec, PartsAndParameters) {
  const ModelSpec tied = TinySpec();
  EXPECT_EQ(tied.PartNames(),
            (std::vector<std::string>{"embedding", "layer.0", "layer.1", "head"}));
  EXPECT_EQ(tied.PartTensors("head").at("wte.weight").shape, (std::vector<std::int64_t>{7, 4}));
  EXPECT_EQ(tied.PartTensors("layer.1").size(), 12u);
  EXPECT_EQ(tied.PartTensors("layer.1").at("h.1.mlp.c_proj.weight").shape,
            (std::vector<std::int64_t>{16, 4}));
  for (const char* unknown :
       {"layer.2", "layer.01", "layer.", "layer.x", "", "layer.99999999999"}) {
    EXPECT_TRUE(tied.PartTensors(unknown).empty()) << unknown;
  }
  const std::uint64_t layer = 4 * 4 + 4 * 12 + 12 + 4 * 4 + 4 + 4 * 16 + 16 + 16 * 4 + 4;
  EXPECT_EQ(tied.ParametersOf(0, 1, false, false), layer);
  EXPECT_EQ(tied.ParametersOf(1, 1, true, false), 7u * 4 + 6 * 4);
  EXPECT_EQ(tied.ParametersOf(0, 2, false, true), 2 * layer + 8 + 28);
  EXPECT_EQ(tied.ParametersOf(0, 2, true, true), 2 * layer + 52 + 8);
  const ModelSpec untied = TinySpec(R"(,"tie_word_embeddings":false)");
  EXPECT_EQ(untied.PartTensors("head").count("lm_head.weight"), 1u);
  EXPECT_EQ(untied.ParametersOf(0, 2, true, true), 2 * layer + 52 + 8 + 28);
}

// Published sizes, from published shapes.
TEST(ModelSpec, CountsTheParametersOfKnownModels) {
  const auto count = [](const std::string& text) {
    const ModelSpec spec = ParseModelSpec(text, "c").value();
    return spec.ParametersOf(0, spec.layers(), true, true);
  };
  const auto gpt2 = [&](int layers, int hidden, int heads) {
    return count(R"({"model_type":"gpt2","n_positions":1024,"vocab_size":50257,"n_layer":)" +
                 std::to_string(layers) + R"(,"n_embd":)" + std::to_string(hidden) +
                 R"(,"n_head":)" + std::to_string(heads) + "}");
  };
  EXPECT_EQ(gpt2(12, 768, 12), 124439808U);
  EXPECT_EQ(gpt2(48, 1600, 25), 1557611200U);
  EXPECT_EQ(count(R"({"model_type":"llama","num_hidden_layers":16,"hidden_size":2048,)"
                  R"("intermediate_size":8192,"num_attention_heads":32,"num_key_value_heads":8,)"
                  R"("vocab_size":128256,"max_position_embeddings":131072,)"
                  R"("tie_word_embeddings":true})"),
            1235814400U);  // Llama 3.2 1B
  EXPECT_EQ(count(R"({"model_type":"qwen2","num_hidden_layers":24,"hidden_size":896,)"
                  R"("intermediate_size":4864,"num_attention_heads":14,"num_key_value_heads":2,)"
                  R"("vocab_size":151936,"max_position_embeddings":32768,)"
                  R"("tie_word_embeddings":true})"),
            494032768U);  // Qwen2.5 0.5B
  const auto bert = [&](const std::string& family, int vocabulary, int positions, int types) {
    return count(R"({"num_hidden_layers":12,"hidden_size":768,"intermediate_size":3072,)"
                 R"("num_attention_heads":12,"model_type":")" +
                 family + R"(","vocab_size":)" + std::to_string(vocabulary) +
                 R"(,"max_position_embeddings":)" + std::to_string(positions) +
                 R"(,"type_vocab_size":)" + std::to_string(types) + "}");
  };
  EXPECT_EQ(bert("bert", 30522, 512, 2), 109483778U);     // BERT base with two classes
  EXPECT_EQ(bert("roberta", 50265, 514, 1), 124647170U);  // RoBERTa base with two classes
  EXPECT_EQ(count(R"({"model_type":"deberta-v2","hidden_size":768,"intermediate_size":3072,)"
                  R"("max_position_embeddings":512,"relative_attention":true,)"
                  R"("position_buckets":256,"norm_rel_ebd":"layer_norm","share_att_key":true,)"
                  R"("pos_att_type":"p2c|c2p","max_relative_positions":-1,)"
                  R"("position_biased_input":false,"num_attention_heads":12,)"
                  R"("num_hidden_layers":12,"type_vocab_size":0,"vocab_size":128100})"),
            184423682U);  // DeBERTa-v3 base with two classes
}

TEST(ModelSpec, RefusesByNameWhatOtherFamiliesDoNotHave) {
  const std::pair<std::string, std::string> cases[] = {
      {R"(,"rope_scaling":{"type":"dynamic","factor":2.0})", "rope scaling 'dynamic'"},
      {R"(,"rope_scaling":{"rope_type":"longrope","short_factor":[1.0]})", "'longrope'"},
      {R"(,"rope_scaling":{"rope_type":"linear","factor":2.0,"twist":1})", "'rope_scaling.twist'"},
      {R"(,"rope_scaling":7)", "rope_scaling must be an object"},
      {R"(,"rope_theta":1.0)", "rope_theta must be a number from 2.0"},
      {R"(,"rope_scaling":{"rope_type":"yarn","factor":4.0,"beta_fast":1,"beta_slow":32})",
       "beta_fast must not be below beta_slow"},
      {R"(,"hidden_act":"mish")", "hidden_act 'mish'"},
      {R"(,"num_key_value_heads":3)", "no multiple of num_key_value_heads 3"},
      {R"(,"head_dim":4096)", "head_dim must be a whole number from 1 to 1024"},
      {R"(,"head_dim":3)", "even number"},
      {R"(,"sliding_window":128)", "'sliding_window' is not known"},
      {R"(,"quantization_config":{"bits":4})", "'quantization_config'"},
      {R"(,"layer_types":["full_attention"])", "'layer_types'"},
  };
  for (const auto& [more, cause] : cases) {
    const auto spec = ParseModelSpec(LlamaText(more), "config.json");
    ASSERT_FALSE(spec.ok()) << more;
    EXPECT_THAT(spec.status().message(), HasSubstr(cause)) << more;
  }
  EXPECT_TRUE(
      ParseModelSpec(LlamaText(R"(,"quantization_config":null,"pretraining_tp":1)"), "c").ok());
}

TEST(ModelSpec, ReadsBert) {
  const ModelSpec spec =
      ParseModelSpec(BertText(R"(,"id2label":{"0":"a","1":"b","2":"c"})"), "c").value();
  EXPECT_EQ(spec.family, "bert");
  EXPECT_EQ(spec.classes(), 3U);
  EXPECT_EQ(spec.positions, 24U);
  EXPECT_EQ(spec.embedding.position_first, 0);
  EXPECT_FALSE(spec.tied_head());
  EXPECT_FALSE(spec.layer_specs[1].attention.causal);
  EXPECT_TRUE(spec.layer_specs[1].norm_of_sum);
  EXPECT_EQ(spec.layer_specs[1].feed_forward.activation, Activation::kGelu);
  EXPECT_EQ(spec.layer_specs[1].attention_out_norm->epsilon, 1e-12);
  EXPECT_EQ(spec.PartTensors("head").size(), 4U);
  EXPECT_EQ(spec.PartTensors("head").at("classifier.weight").shape,
            (std::vector<std::int64_t>{3, 16}));
  EXPECT_EQ(ParseModelSpec(BertText(), "c")->classes(), 2U);
  EXPECT_EQ(ParseModelSpec(BertText(R"(,"num_labels":5)"), "c")->classes(), 5U);
}

TEST(ModelSpec, RobertaCountsPositionsFromBehindThePadding) {
  const ModelSpec spec = ParseModelSpec(BertText("", "roberta"), "c").value();
  EXPECT_EQ(spec.embedding.position_first, 2);
  EXPECT_EQ(spec.positions, 22U);
  EXPECT_TRUE(spec.head.dropout_before_pooler);
  const auto other = ParseModelSpec(BertText(R"(,"pad_token_id":0)", "roberta"), "c");
  EXPECT_EQ(other->embedding.position_first, 1);
  const auto none = ParseModelSpec(BertText(R"(,"pad_token_id":23)", "roberta"), "c");
  EXPECT_THAT(none.status().message(), HasSubstr("max_position_embeddings"));
}

TEST(ModelSpec, RefusesOfBertWhatItDoesNotCompute) {
  const std::pair<std::string, std::string> cases[] = {
      {R"(,"position_embedding_type":"relative_key")", "'relative_key'"},
      {R"(,"is_decoder":true)", "is_decoder = true"},
      {R"(,"add_cross_attention":true)", "add_cross_attention = true"},
      {R"(,"problem_type":"regression")", "'regression'"},
      {R"(,"num_labels":1)", "at least 2 classes"},
      {R"(,"num_labels":3,"id2label":{"0":"a","1":"b"})", "id2label has 2"},
      {R"(,"id2label":["a","b"])", "id2label must be an object"},
      {R"(,"hidden_act":"mish")", "hidden_act 'mish'"},
      {R"(,"num_attention_heads":3)", "no multiple"},
      {R"(,"embedding_size":8)", "'embedding_size' is not known"},
  };
  for (const auto& [more, cause] : cases) ExpectRefused(BertText(more), cause);
}

// With the keys of `more`, as ,"key":value each, in place of those it has.
std::string DebertaText(const std::string& more = "") {
  auto config = nlohmann::json::parse(
      R"({"model_type":"deberta-v2","hidden_size":16,"intermediate_size":24,"vocab_size":50,)"
      R"("num_hidden_layers":2,"num_attention_heads":4,"max_position_embeddings":32,)"
      R"("relative_attention":true,"pos_att_type":["c2p","p2c"]})");
  if (!more.empty()) config.update(nlohmann::json::parse("{" + more.substr(1) + "}"));
  return config.dump();
}

TEST(ModelSpec, ReadsDeberta) {
  const ModelSpec spec = ParseModelSpec(DebertaText(R"(,"position_buckets":8)"), "c").value();
  EXPECT_EQ(spec.PartNames(),
            (std::vector<std::string>{"shared", "embedding", "layer.0", "layer.1", "head"}));
  EXPECT_EQ(spec.PartTensors("shared").at("encoder.rel_embeddings.weight").shape,
            (std::vector<std::int64_t>{16, 16}));
  EXPECT_EQ(spec.SharedTensors(), std::set<std::string>{"encoder.rel_embeddings.weight"});
  EXPECT_EQ(SharingStages(spec.shared_by(), 3), (std::vector<std::uint32_t>{0, 1, 2}));
  EXPECT_TRUE(SharingStages(spec.shared_by(), 1).empty());
  EXPECT_EQ(spec.PartTensors("layer.1").size(), 20U) << "with products of positions";
  EXPECT_EQ(spec.layer_specs[0].attention.scale, 1 / std::sqrt(12.0));
  const ModelSpec shared = ParseModelSpec(DebertaText(R"(,"share_att_key":true,)"
                                                      R"("norm_rel_ebd":"layer_norm")"),
                                          "c")
                               .value();
  EXPECT_EQ(shared.PartTensors("layer.1").size(), 16U);
  EXPECT_EQ(shared.SharedTensors().size(), 3U);
  EXPECT_EQ(shared.relative->span, 32) << "one row a distance";
  const ModelSpec narrow = ParseModelSpec(DebertaText(R"(,"embedding_size":6)"), "c").value();
  EXPECT_EQ(narrow.PartTensors("embedding").at("embeddings.word_embeddings.weight").shape,
            (std::vector<std::int64_t>{50, 6}));
  EXPECT_EQ(narrow.PartTensors("embedding").at("embeddings.embed_proj.weight").shape,
            (std::vector<std::int64_t>{16, 6}));
}

TEST(ModelSpec, RefusesOfDebertaWhatItDoesNotCompute) {
  const std::pair<std::string, std::string> cases[] = {
      {R"(,"relative_attention":false)", "relative_attention must be true"},
      {R"(,"pos_att_type":"p2p")", "pos_att_type 'p2p'"},
      {R"(,"pos_att_type":[])", "pos_att_type must name"},
      {R"(,"pos_att_type":7)", "pos_att_type must be a list"},
      {R"(,"conv_kernel_size":3)", "conv_kernel_size"},
      {R"(,"norm_rel_ebd":"batch")", "norm_rel_ebd 'batch'"},
      {R"(,"position_buckets":3)", "position_buckets"},
      {R"(,"position_buckets":62)", "position_buckets"},
      {R"(,"position_buckets":8.5)", "whole number"},
      {R"(,"pooler_hidden_size":8)", "pooler_hidden_size 8"},
      {R"(,"attention_head_size":8)", "attention_head_size 8"},
      {R"(,"num_attention_heads":3)", "no multiple"},
      {R"(,"pooler_hidden_act":"mish")", "pooler_hidden_act 'mish'"},
      {R"(,"num_labels":1)", "at least 2 classes"},
      {R"(,"twist":1)", "'twist'"},
  };
  for (const auto& [more, cause] : cases) ExpectRefused(DebertaText(more), cause);
}

// transformers 4 and 5 write rotary positions in two ways.
TEST(ModelSpec, RotaryPositionsOfOldAndNewFilesAreTheSame) {
  const auto frequencies = [](const std::string& more) {
    const auto spec = ParseModelSpec(LlamaText(more), "c");
    EXPECT_TRUE(spec.ok()) << spec.status().ToString();
    return spec->layer_specs[0].attention.rotary->frequencies;
  };
  const auto old_file =
      frequencies(R"(,"rope_theta":500.0,"rope_scaling":{"type":"linear","factor":2.0})");
  EXPECT_EQ(old_file, frequencies(R"(,"rope_parameters":{"rope_type":"linear","factor":2.0,)"
                                  R"("rope_theta":500.0})"));
  EXPECT_DOUBLE_EQ(old_file[0], 0.5);
  EXPECT_DOUBLE_EQ(old_file[1], std::pow(500.0, -0.5) / 2);
}

class SharedModels : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = std::string(std::getenv("SHOAL_SHARED_DATA")) + "/hf-tiny/";
    if (!std::filesystem::exists(root_)) GTEST_SKIP() << "no shared data";
  }
  std::string root_;
};

TEST_F(SharedModels, DirectoriesOpen) {
  for (const char* name : {"tiny_gpt2", "fake_gpt2", "gpt2_mini_random", "llama_mini_random"}) {
    const auto opened = OpenModel(root_ + name);
    ASSERT_TRUE(opened.ok()) << opened.status().ToString();
    for (const std::string& part : opened->spec.PartNames()) {
      EXPECT_TRUE(opened->directory->Part(part).ok());
    }
  }
  const auto tiny = OpenModel(root_ + "tiny_gpt2");
  EXPECT_EQ(tiny->spec.vocabulary, 21u);
  EXPECT_EQ(tiny->spec.layer_specs[0].feed_forward.inner, 8);
  EXPECT_EQ(tiny->directory->TokenizerFiles().size(), 4u);
}

TEST_F(SharedModels, OtherArchitecturesAreNamed) {
  const auto bert = OpenModel(root_ + "bert_tiniest");
  ASSERT_FALSE(bert.ok());
  EXPECT_THAT(bert.status().message(), HasSubstr("'BertLMHeadModel'"));
}

}  // namespace
}  // namespace shoal::model
