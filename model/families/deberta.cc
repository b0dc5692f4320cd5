// DeBERTa of version 2 and 3 (He et al., "DeBERTa: decoding-enhanced BERT with disentangled
// attention", 2021; "DeBERTaV3", 2023), with a classifier over each row's first token.
//
// As transformers computes it. Dropout falls on activations, as in all families, not on the rows of
// the table of distances.

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "model/families/families.h"
#include "storage/files/foreign_text.h"

namespace shoal::model {
namespace {

constexpr std::uint32_t kTypesMost = 1U << 16, kBucketsLeast = 4;

// Words of a text with '|' between them, without case and blanks.
std::vector<std::string> Words(const std::string& text) {
  std::vector<std::string> words(1);
  for (const char letter : text) {
    if (letter == '|') {
      words.emplace_back();
    } else if (letter != ' ') {
      words.back() +=
          static_cast<char>(letter >= 'A' && letter <= 'Z' ? letter - 'A' + 'a' : letter);
    }
  }
  return words;
}

class DebertaBuilder {
 public:
  explicit DebertaBuilder(ConfigKeys* keys)
      : layers_(keys->Count("num_hidden_layers", kLayersMost)),
        hidden_(keys->Count("hidden_size", kHiddenMost)),
        inner_(keys->Count("intermediate_size", kInnerMost)),
        heads_(keys->Count("num_attention_heads", kHeadsMost)),
        vocabulary_(keys->Count("vocab_size", kVocabularyMost)),
        positions_(keys->Count("max_position_embeddings", kPositionsMost)),
        width_(keys->Count("embedding_size", kHiddenMost, static_cast<std::uint32_t>(hidden_))),
        types_(Whole(keys, "type_vocab_size", 0, kTypesMost)),
        positions_added_(keys->Flag("position_biased_input", true)),
        share_products_(keys->Flag("share_att_key", false)),
        epsilon_(keys->Number("layer_norm_eps", 1e-7, 0, 1)),
        deviation_(keys->Number("initializer_range", 0.02, 0, 1e3)),
        activation_(ReadActivation(keys, "hidden_act", "gelu")),
        pooler_activation_(ReadActivation(keys, "pooler_hidden_act", "gelu")),
        pooler_dropout_(keys->Number("pooler_dropout", 0, 0, 1) > 0) {
    if (hidden_ % heads_ != 0) {
      keys->Fail("hidden_size " + std::to_string(hidden_) +
                 " is no multiple of num_attention_heads " + std::to_string(heads_));
      return;
    }
    ReadScores(keys);
    ReadDistances(keys);
    CheckSizes(keys);
  }

  ModelSpec Build(std::uint32_t classes) const {
    ModelSpec spec;
    spec.hidden = static_cast<std::uint32_t>(hidden_);
    spec.vocabulary = vocabulary_;
    spec.positions = positions_;
    EmbeddingSpec& embedding = spec.embedding;
    embedding.tokens = {"embeddings.word_embeddings.weight", vocabulary_, deviation_};
    if (positions_added_) {
      embedding.positions =
          TableSpec{"embeddings.position_embeddings.weight", positions_, deviation_};
    }
    if (types_ > 0) {
      embedding.types = TableSpec{"embeddings.token_type_embeddings.weight", types_, deviation_};
    }
    if (width_ != hidden_) {
      embedding.projection =
          LinearSpec{"embeddings.embed_proj.weight", "", width_, hidden_, false, deviation_};
    }
    embedding.norm = Norm("embeddings.LayerNorm");
    RelativeSpec& relative = spec.relative.emplace();
    relative.table = {"encoder.rel_embeddings.weight", 2 * span_, deviation_};
    if (norm_table_) relative.norm = Norm("encoder.LayerNorm");
    relative.span = span_;
    relative.buckets = buckets_;
    relative.farthest = farthest_;
    for (std::uint32_t layer = 0; layer < layers_; ++layer) {
      spec.layer_specs.push_back(Layer("encoder.layer." + std::to_string(layer) + "."));
    }
    spec.head.kind = HeadKind::kClassifier;
    spec.head.pooler = Linear("pooler.dense", hidden_, hidden_);
    spec.head.pooler_activation = pooler_activation_;
    spec.head.dropout_before_pooler = pooler_dropout_;
    spec.head.output = Linear("classifier", hidden_, classes);
    return spec;
  }

 private:
  static std::int64_t Whole(ConfigKeys* keys, const char* key, std::int64_t least,
                            std::uint32_t most) {
    const double value = keys->Number(key, static_cast<double>(least), static_cast<double>(least),
                                      static_cast<double>(most));
    if (value != std::floor(value)) keys->Fail(std::string(key) + " must be a whole number");
    return static_cast<std::int64_t>(value);
  }

  // Which scores there are beside those of query and key.
  void ReadScores(ConfigKeys* keys) {
    if (!keys->Flag("relative_attention", false)) {
      return keys->Fail("relative_attention must be true; other models are not supported");
    }
    const std::vector<std::string> kinds = keys->IsText("pos_att_type")
                                               ? Words(keys->Text("pos_att_type", ""))
                                               : keys->Texts("pos_att_type");
    for (const std::string& kind : kinds) {
      if (kind == "c2p") position_key_ = true;
      if (kind == "p2c") position_query_ = true;
      if (kind != "c2p" && kind != "p2c") {
        return keys->Fail("pos_att_type " + storage::Quoted(kind) +
                          " is not supported; supported are c2p and p2c");
      }
    }
    if (kinds.empty()) keys->Fail("pos_att_type must name c2p, p2c or both");
  }

  void ReadDistances(ConfigKeys* keys) {
    const std::int64_t farthest = Whole(keys, "max_relative_positions", -1, kPositionsMost);
    const std::int64_t buckets = Whole(keys, "position_buckets", -1, kPositionsMost);
    farthest_ = farthest < 1 ? positions_ : farthest;
    buckets_ = std::max<std::int64_t>(buckets, 0);
    span_ = buckets_ > 0 ? buckets_ : farthest_;
    // Where the logarithms of the buckets begin and end.
    if (buckets_ > 0 && (buckets_ < kBucketsLeast || farthest_ - 1 <= buckets_ / 2)) {
      keys->Fail("position_buckets must be " + std::to_string(kBucketsLeast) +
                 " or more, and half of it less than the farthest distance, " +
                 std::to_string(farthest_ - 1));
    }
    for (const std::string& word : Words(keys->Text("norm_rel_ebd", "none"))) {
      if (word == "layer_norm") norm_table_ = true;
      if (word != "layer_norm" && word != "none") {
        keys->Fail("norm_rel_ebd " + storage::Quoted(word) +
                   " is not supported; supported are layer_norm and none");
      }
    }
  }

  void CheckSizes(ConfigKeys* keys) const {
    const auto equal = [&](const char* key, std::int64_t wanted, const char* what) {
      const std::int64_t value = keys->Count(key, kHiddenMost, static_cast<std::uint32_t>(wanted));
      if (value == wanted) return;
      keys->Fail(std::string(key) + " " + std::to_string(value) + " is not supported; it must be " +
                 what + ", " + std::to_string(wanted));
    };
    equal("pooler_hidden_size", hidden_, "hidden_size");
    equal("attention_head_size", hidden_ / heads_, "hidden_size / num_attention_heads");
    if (keys->Number("conv_kernel_size", 0, 0, 1e9) > 0) {
      keys->Fail("conv_kernel_size above 0 is not supported: a convolution behind the first layer");
    }
  }

  LinearSpec Linear(const std::string& name, std::int64_t in, std::int64_t out) const {
    return {name + ".weight", name + ".bias", in, out, /*in_first=*/false, deviation_};
  }
  NormSpec Norm(const std::string& name) const {
    return {NormKind::kLayerNorm, name + ".weight", name + ".bias", hidden_, epsilon_, false};
  }
  // Of the rows of the table; without a name it is the content's.
  std::optional<LinearSpec> PositionProduct(bool there, const std::string& name) const {
    if (!there) return std::nullopt;
    return share_products_ ? LinearSpec() : Linear(name, hidden_, hidden_);
  }
  LayerSpec Layer(const std::string& prefix) const {
    LayerSpec layer;
    layer.norm_of_sum = true;
    AttentionSpec& attention = layer.attention;
    const std::string self = prefix + "attention.self.";
    for (const char* name : {"query_proj", "key_proj", "value_proj"}) {
      attention.inputs.push_back(Linear(self + name, hidden_, hidden_));
    }
    attention.disentangled =
        DisentangledSpec{PositionProduct(position_key_, self + "pos_key_proj"),
                         PositionProduct(position_query_, self + "pos_query_proj")};
    attention.output = Linear(prefix + "attention.output.dense", hidden_, hidden_);
    attention.heads = attention.key_heads = heads_;
    attention.head_size = hidden_ / heads_;
    attention.causal = false;
    const int terms = 1 + (position_key_ ? 1 : 0) + (position_query_ ? 1 : 0);
    attention.scale = 1 / std::sqrt(static_cast<double>(attention.head_size * terms));
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
  std::uint32_t vocabulary_, positions_;
  std::int64_t width_, types_;
  bool positions_added_, share_products_;
  double epsilon_, deviation_;
  Activation activation_, pooler_activation_;
  bool pooler_dropout_;
  bool position_key_ = false, position_query_ = false, norm_table_ = false;
  std::int64_t span_ = 1, buckets_ = 0, farthest_ = 1;
};

}  // namespace

ModelSpec DescribeDeberta(ConfigKeys* keys) {
  const DebertaBuilder builder(keys);
  const std::uint32_t classes = ReadClasses(keys);
  RequireOneClassARow(keys);
  // Of the head for words, of dropout, or of a convolution that is not there.
  keys->Ignore({"tie_word_embeddings", "legacy", "cls_dropout", "conv_act", "conv_groups"});
  if (!keys->status().ok()) return {};
  ModelSpec spec = builder.Build(classes);
  FileNames& files = spec.files;
  files.prefix = "deberta.";
  files.without_prefix = {"pooler.dense.weight", "pooler.dense.bias", "classifier.weight",
                          "classifier.bias"};
  files.buffer_ends = {"embeddings.position_ids"};
  files.architecture = "DebertaV2ForSequenceClassification";
  // Heads for other tasks; and positions that such models were trained with and do not add.
  files.unused_begins = {"cls.", "lm_predictions.", "mask_predictions."};
  if (!spec.embedding.positions) files.unused_begins.push_back("embeddings.position_embeddings.");
  files.old_ends = {{".gamma", ".weight"}, {".beta", ".bias"}};
  files.fresh_groups = {{"pooler.dense.weight", "pooler.dense.bias"},
                        {"classifier.weight", "classifier.bias"}};
  return spec;
}

}  // namespace shoal::model
