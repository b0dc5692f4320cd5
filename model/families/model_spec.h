// ModelSpec: a model as a description: of which blocks it is made, how their tensors are called
// and shaped, and how fresh weights are drawn. What config.json says is in it and nothing else.
//
// A family (families/<name>.cc) turns config.json into a ModelSpec; the network, stages, files,
// cuts and exports work on that alone. Plain values without LibTorch. Thread: any.

#ifndef SHOAL_MODEL_FAMILIES_MODEL_SPEC_H_
#define SHOAL_MODEL_FAMILIES_MODEL_SPEC_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace shoal::model {

// scale * dropout(x) A B, beside a product whose own weights stay as they are (Hu et al., "LoRA",
// 2022). Dropout is of its own, not the run's.
struct LoraSpec {
  std::string a, b;  // [rank, in] and [out, rank]
  std::int64_t rank = 0;
  double scale = 1;
  double dropout = 0;
  std::uint32_t layer = 0, place = 0;  // of the product, among those of its layer: for its masks
};

// y = x W + b. Names are canonical, without the prefix that files may have.
struct LinearSpec {
  std::string weight;
  std::string bias;  // empty: none
  std::int64_t in = 0, out = 0;
  bool in_first = false;  // the weight is [in, out]; else [out, in]
  double deviation = 0;   // of fresh weights
  std::optional<LoraSpec> lora = {};
};

enum class NormKind : std::uint8_t { kLayerNorm, kRmsNorm };

struct NormSpec {
  NormKind kind = NormKind::kLayerNorm;
  std::string weight;
  std::string bias;  // empty: none
  std::int64_t size = 0;
  double epsilon = 1e-5;
  bool around_one = false;  // the factor is 1 + weight
};

// Rotary positions of Su et al., "RoFormer" (2021): pair i of a head's values, i and i + pairs, is
// turned by position * frequencies[i]. Scaled kinds differ in these numbers only.
struct RotarySpec {
  std::vector<double> frequencies;  // radians a token
  double factor = 1;                // of the turned values (yarn)
  // What these come from, for files that say it so.
  struct Scaling {
    std::string kind = "default";    // or linear, llama3, yarn
    double factor = 1, trained = 0;  // `trained`: positions before scaling (llama3, yarn)
    double fast = 32, slow = 1;      // of yarn
    bool whole = true;               // yarn rounds its limits
  };
  double theta = 1e4;
  Scaling scaling;
};

// Scores by content and distance (He et al., "DeBERTa: decoding-enhanced BERT with disentangled
// attention", 2021, section 3.1): query and key, query and distance, key and distance. Products
// that make keys and queries of the distances' rows: of their own, or, without a name, the
// content's.
struct DisentangledSpec {
  std::optional<LinearSpec> position_key, position_query;  // nothing: no such score
};

struct AttentionSpec {
  std::vector<LinearSpec> inputs;  // query, key, value: one product for all, or three
  LinearSpec output;
  std::int64_t heads = 0, key_heads = 0, head_size = 0;
  bool causal = true;
  std::int64_t window = 0;  // tokens that one sees, itself among them; 0: all
  double scale = 1;         // of scores
  double soft_cap = 0;      // scores s become cap * tanh(s / cap); 0: they stay
  std::optional<NormSpec> query_norm, key_norm;  // over a head
  std::optional<RotarySpec> rotary;
  std::optional<DisentangledSpec> disentangled;  // of a model with RelativeSpec
};

enum class Activation : std::uint8_t { kGelu, kGeluTanh, kSilu, kRelu, kTanh };

struct FeedForwardSpec {
  // One product, or gate and value: one product for both, or two. The gate goes through the
  // activation and multiplies the value.
  std::vector<LinearSpec> inputs;
  LinearSpec output;
  std::int64_t inner = 0;
  bool gated = false;
  Activation activation = Activation::kGeluTanh;
};

// x + n2(f(n1(x))), for attention and then for the feed-forward part. With `norm_of_sum`, as in
// BERT, n2(x + f(x)).
struct LayerSpec {
  std::optional<NormSpec> attention_norm, attention_out_norm;
  std::optional<NormSpec> feed_forward_norm, feed_forward_out_norm;
  bool norm_of_sum = false;
  AttentionSpec attention;
  FeedForwardSpec feed_forward;
};

struct TableSpec {
  std::string weight;
  std::int64_t rows = 0;
  double deviation = 0;
};

struct EmbeddingSpec {
  TableSpec tokens;
  double scale = 1;                    // of what the token's row gives
  std::optional<TableSpec> positions;  // learned; token t of a segment takes row position_first + t
  std::int64_t position_first = 0;
  std::optional<TableSpec> types;  // of token types; all tokens have 0 unless the data says it
  // Of the sum, to the model's hidden size, where rows have another one.
  std::optional<LinearSpec> projection;
  std::optional<NormSpec> norm;

  std::int64_t width(std::int64_t hidden) const { return projection ? projection->in : hidden; }
};

// A table of distances between tokens that all layers use: row span + d is for a query d tokens
// behind its key, d from -span to span - 1 (He et al., 2021). Distances beyond take the nearest
// row.
struct RelativeSpec {
  TableSpec table;
  std::optional<NormSpec> norm;  // of its rows, before layers use them
  std::int64_t span = 0;
  // Distances from half of it on share rows, by their logarithm up to `farthest`; 0: none does.
  std::int64_t buckets = 0;
  std::int64_t farthest = 0;
};

enum class HeadKind : std::uint8_t { kLanguageModel, kClassifier };

// Of a language model: norm, output, soft cap. Of a classifier: pooler with its activation over a
// row's first token, output.
struct HeadSpec {
  HeadKind kind = HeadKind::kLanguageModel;
  std::optional<NormSpec> norm;
  LinearSpec pooler;  // [hidden, hidden]
  Activation pooler_activation = Activation::kTanh;
  bool dropout_before_pooler = false;  // and behind it, as always
  LinearSpec output;                   // weight [vocabulary or classes, hidden]
  double soft_cap = 0;                 // of logits
};

// How tensors are called in files.
struct FileNames {
  std::string prefix;                       // before canonical names, as in "model."; may lack
  std::vector<std::string> without_prefix;  // names that never have it, as "lm_head.weight"
  std::vector<std::string> buffer_ends;     // ends of names of what is no weight
  std::string tied_copy;                    // what files call a copy of a tied head's matrix
  std::string architecture;                 // of an export, for config.json
  // Beginnings of canonical names of what the task does not need, as another task's head.
  std::vector<std::string> unused_begins = {};
  // Ends of names in older files, and what they are today.
  std::vector<std::pair<std::string, std::string>> old_ends = {};
  // Tensors of the head that files may lack, each group as a whole: then they are drawn.
  std::vector<std::vector<std::string>> fresh_groups = {};
};

struct TensorSpec {
  std::vector<std::int64_t> shape;
  double deviation = 0;  // of fresh values around `mean`
  float mean = 0;
  double reach = 0;  // above 0: fresh values are uniform in [-reach, reach] instead
};
using TensorSpecs = std::map<std::string, TensorSpec>;

// Which stages of a pipeline hold the same trained tensors. What they learn of them adds up, so
// that all copies move alike.
enum class SharedBy : std::uint8_t { kNone, kEnds, kAll };
// Stages that do, in order; nothing if none or only one does.
std::vector<std::uint32_t> SharingStages(SharedBy by, std::uint32_t stages);

struct ModelSpec {
  std::string family;
  std::uint32_t hidden = 0;
  std::uint32_t vocabulary = 0;
  std::uint32_t positions = 0;  // most tokens of a row
  EmbeddingSpec embedding;
  std::optional<RelativeSpec> relative;
  std::vector<LayerSpec> layer_specs;
  HeadSpec head;
  FileNames files;
  std::string json;  // config.json's own text, kept for export
  // With adapters (adapter_config.h) all but these and the adapters stay as they are.
  bool adapted = false;
  std::set<std::string> trained;

  // 0 for a language model.
  std::uint32_t classes() const {
    return head.kind == HeadKind::kClassifier ? static_cast<std::uint32_t>(head.output.out) : 0;
  }
  // How many token types it knows; 0 where it has no table of them and they do not matter.
  std::uint32_t token_types() const {
    return embedding.types ? static_cast<std::uint32_t>(embedding.types->rows) : 0;
  }
  std::uint32_t layers() const { return static_cast<std::uint32_t>(layer_specs.size()); }
  // Whether the head's matrix is the token embedding's.
  bool tied_head() const {
    return !head.output.weight.empty() && head.output.weight == embedding.tokens.weight;
  }
  bool trains_tied_head() const { return tied_head() && Trains(embedding.tokens.weight); }
  // Trained tensors that several stages hold, and which stages these are: a tied head's matrix the
  // first and the last, what is of the part "shared" all. A model has one kind of the two.
  std::set<std::string> SharedTensors() const;
  SharedBy shared_by() const;
  // A tensor of the model's files.
  bool Trains(const std::string& name) const { return !adapted || trained.contains(name); }

  // The parts that stages load: "shared" (all stages) where layers have a table in common,
  // "embedding", "layer.0" .. "layer.N-1", "head".
  std::vector<std::string> PartNames() const;
  // A part's tensors by canonical name, as files have them; empty for a part that the model does
  // not have.
  TensorSpecs PartTensors(const std::string& part) const;
  // Those that training changes, adapters among them, and those that it does not.
  TensorSpecs TrainedTensors(const std::string& part) const;
  TensorSpecs FrozenTensors(const std::string& part) const;
  // Products that a part has: of a layer all, of a classifier's head its two.
  std::vector<LinearSpec> PartProducts(const std::string& part) const;
  // Values in files, of layers [first, last), of the ends, and of what all stages share; a matrix
  // that both ends share counts once. And how many of them training changes, with those of
  // adapters.
  std::uint64_t ParametersOf(std::uint32_t first_layer, std::uint32_t last_layer,
                             bool with_embedding, bool with_head) const;
  std::uint64_t TrainedParametersOf(std::uint32_t first_layer, std::uint32_t last_layer,
                                    bool with_embedding, bool with_head) const;
};

// Values of a tensor of that shape.
std::uint64_t ValuesOf(const TensorSpec& tensor);

}  // namespace shoal::model

#endif  // SHOAL_MODEL_FAMILIES_MODEL_SPEC_H_
