// BERT (Devlin et al., "BERT: pre-training of deep bidirectional transformers", 2019) and RoBERTa
// (Liu et al., "RoBERTa: a robustly optimized BERT pretraining approach", 2019), with a classifier
// over each row's first token.

#include <cmath>

#include "model/families/families.h"
#include "storage/files/foreign_text.h"

namespace shoal::model {
namespace {

constexpr std::uint32_t kClassesMost = 1U << 16;
constexpr std::uint32_t kClassesOtherwise = 2;  // as in transformers
constexpr std::uint32_t kTypesMost = 1U << 16;

// Names and sizes of what both families have.
class EncoderBuilder {
 public:
  explicit EncoderBuilder(ConfigKeys* keys)
      : layers_(keys->Count("num_hidden_layers", kLayersMost)),
        hidden_(keys->Count("hidden_size", kHiddenMost)),
        inner_(keys->Count("intermediate_size", kInnerMost)),
        heads_(keys->Count("num_attention_heads", kHeadsMost)),
        vocabulary_(keys->Count("vocab_size", kVocabularyMost)),
        positions_(keys->Count("max_position_embeddings", kPositionsMost)),
        types_(keys->Count("type_vocab_size", kTypesMost, 2)),
        epsilon_(keys->Number("layer_norm_eps", 1e-12, 0, 1)),
        deviation_(keys->Number("initializer_range", 0.02, 0, 1e3)),
        activation_(ReadActivation(keys, "hidden_act", "gelu")) {
    if (hidden_ % heads_ == 0) return;
    keys->Fail("hidden_size " + std::to_string(hidden_) +
               " is no multiple of num_attention_heads " + std::to_string(heads_));
  }

  // `first`: the row of the position table that a row's first token takes.
  ModelSpec Build(std::uint32_t first) const {
    ModelSpec spec;
    spec.hidden = static_cast<std::uint32_t>(hidden_);
    spec.vocabulary = vocabulary_;
    spec.positions = positions_ - first;
    EmbeddingSpec& embedding = spec.embedding;
    embedding.tokens = {"embeddings.word_embeddings.weight", vocabulary_, deviation_};
    embedding.positions =
        TableSpec{"embeddings.position_embeddings.weight", positions_, deviation_};
    embedding.position_first = first;
    embedding.types = TableSpec{"embeddings.token_type_embeddings.weight", types_, deviation_};
    embedding.norm = Norm("embeddings.LayerNorm");
    for (std::uint32_t layer = 0; layer < layers_; ++layer) {
      spec.layer_specs.push_back(Layer("encoder.layer." + std::to_string(layer) + "."));
    }
    spec.head.kind = HeadKind::kClassifier;
    return spec;
  }
  LinearSpec Linear(const std::string& name, std::int64_t in, std::int64_t out) const {
    return {name + ".weight", name + ".bias", in, out, /*in_first=*/false, deviation_};
  }

 private:
  NormSpec Norm(const std::string& name) const {
    return {NormKind::kLayerNorm, name + ".weight", name + ".bias", hidden_, epsilon_, false};
  }
  LayerSpec Layer(const std::string& prefix) const {
    LayerSpec layer;
    layer.norm_of_sum = true;
    AttentionSpec& attention = layer.attention;
    for (const char* name : {"query", "key", "value"}) {
      attention.inputs.push_back(Linear(prefix + "attention.self." + name, hidden_, hidden_));
    }
    attention.output = Linear(prefix + "attention.output.dense", hidden_, hidden_);
    attention.heads = attention.key_heads = heads_;
    attention.head_size = hidden_ / heads_;
    attention.causal = false;
    attention.scale = 1 / std::sqrt(static_cast<double>(attention.head_size));
    layer.attention_out_norm = Norm(prefix + "attention.output.LayerNorm");
    layer.feed_forward.inputs = {Linear(prefix + "intermediate.dense", hidden_, inner_)};
    layer.feed_forward.output = Linear(prefix + "output.dense", inner_, hidden_);
    layer.feed_forward.inner = inner_;
    layer.feed_forward.activation = activation_;
    layer.feed_forward_out_norm = Norm(prefix + "output.LayerNorm");
    return layer;
  }

  std::uint32_t layers_;
  std::int64_t hidden_, inner_, heads_;
  std::uint32_t vocabulary_, positions_, types_;
  double epsilon_, deviation_;
  Activation activation_;
};

void CheckSwitches(ConfigKeys* keys) {
  RequireOneClassARow(keys);
  const std::string positions = keys->Text("position_embedding_type", "absolute");
  if (positions != "absolute") {
    keys->Fail("position_embedding_type " + storage::Quoted(positions) +
               " is not supported; supported is absolute");
  }
  keys->Require("is_decoder", false);
  keys->Require("add_cross_attention", false);
  // Of the head for words, of other libraries, or how the same is computed in pieces.
  keys->Ignore({"tie_word_embeddings", "directionality", "pooler_fc_size",
                "pooler_num_attention_heads", "pooler_num_fc_layers", "pooler_size_per_head",
                "pooler_type", "chunk_size_feed_forward"});
}

}  // namespace

std::uint32_t ReadClasses(ConfigKeys* keys) {
  const std::uint32_t named = keys->Entries("id2label", kClassesMost);
  const std::uint32_t otherwise = named > 0 ? named : kClassesOtherwise;
  const std::uint32_t classes = keys->Count("num_labels", kClassesMost, otherwise);
  if (named > 0 && named != classes) {
    keys->Fail("num_labels is " + std::to_string(classes) + ", but id2label has " +
               std::to_string(named) + " classes");
  }
  if (classes < 2)
    keys->Fail("a classifier needs at least 2 classes, num_labels or id2label has 1");
  return classes;
}

void RequireOneClassARow(ConfigKeys* keys) {
  const std::string problem = keys->Text("problem_type", "single_label_classification");
  if (problem == "single_label_classification") return;
  keys->Fail("problem_type " + storage::Quoted(problem) +
             " is not supported; supported is single_label_classification");
}

ModelSpec DescribeBert(ConfigKeys* keys) {
  const EncoderBuilder encoder(keys);
  const std::uint32_t classes = ReadClasses(keys);
  CheckSwitches(keys);
  if (!keys->status().ok()) return {};
  ModelSpec spec = encoder.Build(0);
  const std::int64_t hidden = spec.hidden;
  spec.head.pooler = encoder.Linear("pooler.dense", hidden, hidden);
  spec.head.output = encoder.Linear("classifier", hidden, classes);
  FileNames& files = spec.files;
  files.prefix = "bert.";
  files.without_prefix = {"classifier.weight", "classifier.bias"};
  files.buffer_ends = {"embeddings.position_ids", "embeddings.token_type_ids"};
  files.architecture = "BertForSequenceClassification";
  files.unused_begins = {"cls."};
  files.old_ends = {{".gamma", ".weight"}, {".beta", ".bias"}};
  // Models for masked words have no pooler.
  files.fresh_groups = {{"pooler.dense.weight", "pooler.dense.bias"},
                        {"classifier.weight", "classifier.bias"}};
  return spec;
}

ModelSpec DescribeRoberta(ConfigKeys* keys) {
  const EncoderBuilder encoder(keys);
  const std::uint32_t classes = ReadClasses(keys);
  CheckSwitches(keys);
  // Positions begin behind the padding token's.
  const std::uint32_t positions = keys->Count("max_position_embeddings", kPositionsMost);
  const double padding = keys->Number("pad_token_id", 1, 0, kVocabularyMost);
  if (padding != std::floor(padding) || padding + 1 >= positions) {
    keys->Fail("pad_token_id must be a whole number, and max_position_embeddings 2 more at least");
  }
  if (!keys->status().ok()) return {};
  ModelSpec spec = encoder.Build(static_cast<std::uint32_t>(padding) + 1);
  const std::int64_t hidden = spec.hidden;
  spec.head.pooler = encoder.Linear("classifier.dense", hidden, hidden);
  spec.head.dropout_before_pooler = true;
  spec.head.output = encoder.Linear("classifier.out_proj", hidden, classes);
  FileNames& files = spec.files;
  files.prefix = "roberta.";
  files.without_prefix = {"classifier.dense.weight", "classifier.dense.bias",
                          "classifier.out_proj.weight", "classifier.out_proj.bias"};
  files.buffer_ends = {"embeddings.position_ids", "embeddings.token_type_ids"};
  files.architecture = "RobertaForSequenceClassification";
  files.unused_begins = {"lm_head.", "pooler."};
  files.old_ends = {{".gamma", ".weight"}, {".beta", ".bias"}};
  files.fresh_groups = {files.without_prefix};
  return spec;
}

}  // namespace shoal::model
