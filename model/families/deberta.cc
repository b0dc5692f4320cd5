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

#include "model/families/encoder.h"
#include "model/families/families.h"
#include "storage/files/foreign_text.h"

namespace shoal::model {
namespace {

constexpr std::uint32_t kBucketsLeast = 4;

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
      : encoder_(Encoder::Read(keys, 1e-7)),
        width_(keys->Count("embedding_size", kHiddenMost,
                           static_cast<std::uint32_t>(encoder_.hidden))),
        types_(Whole(keys, "type_vocab_size", 0, kTokenTypesMost)),
        positions_added_(keys->Flag("position_biased_input", true)),
        share_products_(keys->Flag("share_att_key", false)),
        pooler_activation_(ReadActivation(keys, "pooler_hidden_act", "gelu")),
        pooler_dropout_(keys->Number("pooler_dropout", 0, 0, 1) > 0) {
    if (!keys->status().ok()) return;
    ReadScores(keys);
    ReadDistances(keys);
    CheckSizes(keys);
  }

  ModelSpec Build(std::uint32_t classes) const {
    ModelSpec spec;
    spec.hidden = static_cast<std::uint32_t>(encoder_.hidden);
    spec.vocabulary = encoder_.vocabulary;
    spec.positions = encoder_.positions;
    EmbeddingSpec& embedding = spec.embedding;
    embedding.tokens = {"embeddings.word_embeddings.weight", encoder_.vocabulary,
                        encoder_.deviation};
    if (positions_added_) {
      embedding.positions = TableSpec{"embeddings.position_embeddings.weight", encoder_.positions,
                                      encoder_.deviation};
    }
    if (types_ > 0) {
      embedding.types =
          TableSpec{"embeddings.token_type_embeddings.weight", types_, encoder_.deviation};
    }
    if (width_ != encoder_.hidden) {
      embedding.projection = LinearSpec{
          "embeddings.embed_proj.weight", "", width_, encoder_.hidden, false, encoder_.deviation};
    }
    embedding.norm = encoder_.Norm("embeddings.LayerNorm");
    RelativeSpec& relative = spec.relative.emplace();
    relative.table = {"encoder.rel_embeddings.weight", 2 * span_, encoder_.deviation};
    if (norm_table_) relative.norm = encoder_.Norm("encoder.LayerNorm");
    relative.span = span_;
    relative.buckets = buckets_;
    relative.farthest = farthest_;
    for (std::uint32_t layer = 0; layer < encoder_.layers; ++layer) {
      spec.layer_specs.push_back(Layer(layer));
    }
    spec.head.kind = HeadKind::kClassifier;
    spec.head.pooler = encoder_.Linear("pooler.dense", encoder_.hidden, encoder_.hidden);
    spec.head.pooler_activation = pooler_activation_;
    spec.head.dropout_before_pooler = pooler_dropout_;
    spec.head.output = encoder_.Linear("classifier", encoder_.hidden, classes);
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
    farthest_ = farthest < 1 ? encoder_.positions : farthest;
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
    equal("pooler_hidden_size", encoder_.hidden, "hidden_size");
    equal("attention_head_size", encoder_.hidden / encoder_.heads,
          "hidden_size / num_attention_heads");
    if (keys->Number("conv_kernel_size", 0, 0, 1e9) > 0) {
      keys->Fail("conv_kernel_size above 0 is not supported: a convolution behind the first layer");
    }
  }

  // Of the rows of the table; without a name it is the content's.
  std::optional<LinearSpec> PositionProduct(bool there, const std::string& name) const {
    if (!there) return std::nullopt;
    return share_products_ ? LinearSpec() : encoder_.Linear(name, encoder_.hidden, encoder_.hidden);
  }
  LayerSpec Layer(std::uint32_t number) const {
    LayerSpec layer = encoder_.Layer(number, {"query_proj", "key_proj", "value_proj"});
    const std::string self = Encoder::LayerPrefix(number) + "attention.self.";
    AttentionSpec& attention = layer.attention;
    attention.disentangled =
        DisentangledSpec{PositionProduct(position_key_, self + "pos_key_proj"),
                         PositionProduct(position_query_, self + "pos_query_proj")};
    const int terms = 1 + (position_key_ ? 1 : 0) + (position_query_ ? 1 : 0);
    attention.scale = 1 / std::sqrt(static_cast<double>(attention.head_size * terms));
    return layer;
  }

  const Encoder encoder_;
  std::int64_t width_, types_;
  bool positions_added_, share_products_;
  Activation pooler_activation_;
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
