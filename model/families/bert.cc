// BERT (Devlin et al., "BERT: pre-training of deep bidirectional transformers", 2019) and RoBERTa
// (Liu et al., "RoBERTa: a robustly optimized BERT pretraining approach", 2019), with a classifier
// over each row's first token.

#include <cmath>

#include "model/families/encoder.h"
#include "model/families/families.h"
#include "storage/files/foreign_text.h"

namespace shoal::model {
namespace {

// `first`: the row of the position table that a row's first token takes.
ModelSpec Build(const Encoder& encoder, std::int64_t types, std::uint32_t first) {
  ModelSpec spec;
  spec.hidden = static_cast<std::uint32_t>(encoder.hidden);
  spec.vocabulary = encoder.vocabulary;
  spec.positions = encoder.positions - first;
  const double deviation = encoder.deviation;
  EmbeddingSpec& embedding = spec.embedding;
  embedding.tokens = {"embeddings.word_embeddings.weight", encoder.vocabulary, deviation};
  embedding.positions =
      TableSpec{"embeddings.position_embeddings.weight", encoder.positions, deviation};
  embedding.position_first = first;
  embedding.types = TableSpec{"embeddings.token_type_embeddings.weight", types, deviation};
  embedding.norm = encoder.Norm("embeddings.LayerNorm");
  for (std::uint32_t layer = 0; layer < encoder.layers; ++layer) {
    spec.layer_specs.push_back(encoder.Layer(layer, {"query", "key", "value"}));
  }
  spec.head.kind = HeadKind::kClassifier;
  return spec;
}

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

ModelSpec DescribeBert(ConfigKeys* keys) {
  const Encoder encoder = Encoder::Read(keys, 1e-12);
  const std::uint32_t types = keys->Count("type_vocab_size", kTokenTypesMost, 2);
  const std::uint32_t classes = ReadClasses(keys);
  CheckSwitches(keys);
  if (!keys->status().ok()) return {};
  ModelSpec spec = Build(encoder, types, 0);
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
  const Encoder encoder = Encoder::Read(keys, 1e-12);
  const std::uint32_t types = keys->Count("type_vocab_size", kTokenTypesMost, 2);
  const std::uint32_t classes = ReadClasses(keys);
  CheckSwitches(keys);
  // Positions begin behind the padding token's.
  const double padding = keys->Number("pad_token_id", 1, 0, kVocabularyMost);
  if (padding != std::floor(padding) || padding + 1 >= encoder.positions) {
    keys->Fail("pad_token_id must be a whole number, and max_position_embeddings 2 more at least");
  }
  if (!keys->status().ok()) return {};
  ModelSpec spec = Build(encoder, types, static_cast<std::uint32_t>(padding) + 1);
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
