#include "model/families/gguf_model.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "model/families/family.h"
#include "model/families/gguf_family.h"
#include "storage/files/foreign_text.h"

namespace shoal::model {
namespace {

using storage::GgufTensor;
using storage::GgufType;
using Change = GgufSource::Change;

bool Near(double a, double b) { return std::fabs(a - b) <= 1e-6 * std::fabs(b); }

// What llama.cpp's architecture computes, against what the model asks for.
class GgufCheck {
 public:
  GgufCheck(const ModelSpec& spec, const GgufFamily& family) : spec_(spec), family_(family) {}

  Status Check() const {
    if (family_.shared_head && !spec_.tied_head()) return Refuse("a head of its own");
    if (family_.score_cap != (spec_.head.soft_cap > 0) && family_.score_cap) {
      return Refuse("logits without final_logit_softcapping");
    }
    for (std::uint32_t i = 0; i < spec_.layers(); ++i) {
      const LayerSpec& layer = spec_.layer_specs[i];
      SHOAL_RETURN_IF_ERROR(CheckAttention(layer.attention));
      SHOAL_RETURN_IF_ERROR(CheckWindow(layer.attention, i));
      SHOAL_RETURN_IF_ERROR(CheckFeedForward(layer.feed_forward));
    }
    return CheckRotary();
  }

 private:
  Status Refuse(const std::string& what) const {
    return InvalidArgument("llama.cpp's " + std::string(family_.architecture) + " does not have " +
                           what +
                           ", as this model's config.json asks for; export with --as "
                           "directory");
  }

  Status CheckAttention(const AttentionSpec& attention) const {
    const bool wide = spec_.layers() == family_.wide_scale_layers;
    const double divisor =
        static_cast<double>(wide ? spec_.hidden / attention.heads : attention.head_size);
    if (!Near(attention.scale, 1 / std::sqrt(divisor))) {
      return Refuse("scores that are scaled by " + std::to_string(attention.scale));
    }
    if (family_.score_cap != (attention.soft_cap > 0)) {
      return Refuse(family_.score_cap ? "scores without attn_logit_softcapping"
                                      : "attn_logit_softcapping");
    }
    if (!family_.narrow_heads && attention.heads * attention.head_size != spec_.hidden) {
      return Refuse("heads whose values are not hidden_size together");
    }
    if (!family_.output_bias && !attention.output.bias.empty()) {
      return Refuse("attention_bias on the output");
    }
    return Status::Ok();
  }

  Status CheckWindow(const AttentionSpec& attention, std::uint32_t layer) const {
    if (family_.whole_layer_every == 0) return Status::Ok();
    const bool whole = (layer + 1) % family_.whole_layer_every == 0;
    if (whole == (attention.window == 0)) return Status::Ok();
    return Refuse("this order of layers with and without windows");
  }

  Status CheckFeedForward(const FeedForwardSpec& part) const {
    if (part.activation != family_.activation) return Refuse("this activation function");
    const bool bias = !part.output.bias.empty();
    return bias && !family_.feed_forward_bias ? Refuse("mlp_bias") : Status::Ok();
  }

  Status CheckRotary() const {
    for (const LayerSpec& layer : spec_.layer_specs) {
      const auto& rotary = layer.attention.rotary;
      if (!rotary) continue;
      const bool part =
          2 * rotary->frequencies.size() != static_cast<std::size_t>(layer.attention.head_size);
      if (part && !family_.partial_rotary) return Refuse("partial_rotary_factor");
      const RotarySpec::Scaling& scaling = rotary->scaling;
      if (scaling.kind == "llama3" && !family_.rotary_factors) {
        return Refuse("rope scaling llama3");
      }
      if (family_.plain_window_positions && layer.attention.window > 0 &&
          scaling.kind != "default") {
        return Refuse("rope scaling of layers with windows");
      }
      const bool plain = scaling.factor <= 1
                             ? rotary->factor == 1
                             : Near(rotary->factor, 0.1 * std::log(scaling.factor) + 1);
      if (scaling.kind == "yarn" && (!plain || !scaling.whole)) {
        return Refuse("yarn with truncate, mscale or attention_factor");
      }
    }
    return Status::Ok();
  }

  const ModelSpec& spec_;
  const GgufFamily& family_;
};

// Collects keys and tensors.
class GgufBuilder {
 public:
  GgufBuilder(const ModelSpec& spec, const GgufFamily& family) : spec_(spec), family_(family) {}

  GgufPlan Build() {
    AddKeys();
    AddRotaryKeys();
    AddEnds();
    for (std::uint32_t i = 0; i < spec_.layers(); ++i) AddLayer(i);
    return std::move(plan_);
  }

 private:
  const AttentionSpec& attention() const { return spec_.layer_specs.front().attention; }
  // The layer without a window, if there is one: Gemma 3 has other positions there.
  const AttentionSpec& whole_attention() const {
    const std::size_t every = family_.whole_layer_every;
    return spec_.layer_specs[every > 0 && every <= spec_.layer_specs.size() ? every - 1 : 0]
        .attention;
  }

  void Key(const std::string& name, storage::GgufValue value) {
    plan_.metadata.emplace_back(std::string(family_.architecture) + "." + name, std::move(value));
  }
  void Count(const std::string& name, std::int64_t value) {
    Key(name, static_cast<std::uint32_t>(value));
  }
  void Number(const std::string& name, double value) { Key(name, static_cast<float>(value)); }

  void AddKeys() {
    plan_.metadata.emplace_back("general.architecture", std::string(family_.architecture));
    Count("context_length", spec_.positions);
    Count("vocab_size", spec_.vocabulary);
    Count("embedding_length", spec_.hidden);
    Count("block_count", spec_.layers());
    Count("feed_forward_length", spec_.layer_specs.front().feed_forward.inner);
    Count("attention.head_count", attention().heads);
    Count("attention.head_count_kv", attention().key_heads);
    Count("attention.key_length", attention().head_size);
    Count("attention.value_length", attention().head_size);
    const NormSpec& norm = *spec_.head.norm;
    Number(norm.kind == NormKind::kRmsNorm ? "attention.layer_norm_rms_epsilon"
                                           : "attention.layer_norm_epsilon",
           norm.epsilon);
    if (attention().soft_cap > 0) Number("attn_logit_softcapping", attention().soft_cap);
    if (spec_.head.soft_cap > 0) Number("final_logit_softcapping", spec_.head.soft_cap);
    AddWindow();
  }

  void AddWindow() {
    std::int64_t window = 0;
    for (const LayerSpec& layer : spec_.layer_specs) {
      window = std::max(window, layer.attention.window);
    }
    if (window == 0) return;
    if (family_.whole_layer_every > 0) return Count("attention.sliding_window", window);
    if (window >= spec_.positions) return;
    plan_.notes.push_back("llama.cpp sees all tokens of a text where the model sees the last " +
                          std::to_string(window) + ": longer texts come out otherwise");
  }

  void AddRotaryKeys() {
    const AttentionSpec& whole = whole_attention();
    if (!whole.rotary) return;
    const RotarySpec& rotary = *whole.rotary;
    Count("rope.dimension_count", 2 * static_cast<std::int64_t>(rotary.frequencies.size()));
    Number("rope.freq_base", rotary.theta);
    if (attention().window > 0 && attention().rotary->theta != rotary.theta) {
      Number("rope.freq_base_swa", attention().rotary->theta);
    }
    const RotarySpec::Scaling& scaling = rotary.scaling;
    if (scaling.kind == "llama3") return AddRotaryFactors(rotary);
    if (scaling.kind == "default") return;
    Key("rope.scaling.type", scaling.kind);
    Number("rope.scaling.factor", scaling.factor);
    if (scaling.kind != "yarn") return;
    Count("rope.scaling.original_context_length", static_cast<std::int64_t>(scaling.trained));
    Number("rope.scaling.yarn_beta_fast", scaling.fast);
    Number("rope.scaling.yarn_beta_slow", scaling.slow);
  }

  // A pair's frequency is divided by its factor.
  void AddRotaryFactors(const RotarySpec& rotary) {
    GgufSource source;
    const auto size = static_cast<double>(2 * rotary.frequencies.size());
    for (std::size_t i = 0; i < rotary.frequencies.size(); ++i) {
      const double plain = std::pow(rotary.theta, -2.0 * static_cast<double>(i) / size);
      source.values.push_back(static_cast<float>(plain / rotary.frequencies[i]));
    }
    plan_.tensors.push_back(
        {"rope_freqs.weight", GgufType::kF32, {static_cast<std::int64_t>(source.values.size())}});
    plan_.sources.push_back(std::move(source));
  }

  void Add(const std::string& name, const std::string& tensor, std::vector<std::int64_t> shape,
           bool exact, Change change = Change::kNone) {
    plan_.tensors.push_back(
        {name, exact || shape.size() == 1 ? GgufType::kF32 : GgufType::kF16, std::move(shape)});
    plan_.sources.push_back(
        {tensor, change, change == Change::kAdjacentPairs ? attention().head_size : 0, {}});
  }

  void Add(const std::string& name, const std::optional<NormSpec>& norm) {
    if (!norm) return;
    Add(name + ".weight", norm->weight, {norm->size}, true,
        norm->around_one ? Change::kAddOne : Change::kNone);
    if (!norm->bias.empty()) Add(name + ".bias", norm->bias, {norm->size}, true);
  }

  void Add(const std::string& name, const LinearSpec& linear, bool pairs = false) {
    const Change change = pairs ? Change::kAdjacentPairs : Change::kNone;
    Add(name + ".weight", linear.weight, {linear.out, linear.in}, false,
        linear.in_first ? Change::kTransposed : change);
    if (!linear.bias.empty()) Add(name + ".bias", linear.bias, {linear.out}, true, change);
  }

  void AddEnds() {
    const EmbeddingSpec& embedding = spec_.embedding;
    Add("token_embd.weight", embedding.tokens.weight, {embedding.tokens.rows, spec_.hidden}, false);
    if (embedding.positions) {
      Add("position_embd.weight", embedding.positions->weight,
          {embedding.positions->rows, spec_.hidden}, true);
    }
    Add("output_norm", spec_.head.norm);
    if (!spec_.tied_head()) Add("output", spec_.head.output);
  }

  void AddLayer(std::uint32_t index) {
    const LayerSpec& layer = spec_.layer_specs[index];
    const std::string blk = "blk." + std::to_string(index) + ".";
    Add(blk + "attn_norm", layer.attention_norm);
    if (layer.attention.inputs.size() == 1) {
      Add(blk + "attn_qkv", layer.attention.inputs[0]);
    } else {
      Add(blk + "attn_q", layer.attention.inputs[0], family_.adjacent_pairs);
      Add(blk + "attn_k", layer.attention.inputs[1], family_.adjacent_pairs);
      Add(blk + "attn_v", layer.attention.inputs[2]);
    }
    Add(blk + "attn_q_norm", layer.attention.query_norm);
    Add(blk + "attn_k_norm", layer.attention.key_norm);
    Add(blk + "attn_output", layer.attention.output);
    Add(blk + "post_attention_norm", layer.attention_out_norm);
    Add(blk + "ffn_norm", layer.feed_forward_norm);
    const FeedForwardSpec& part = layer.feed_forward;
    if (part.inputs.size() == 2) Add(blk + "ffn_gate", part.inputs[0]);
    Add(blk + "ffn_up", part.inputs.back());
    Add(blk + "ffn_down", part.output);
    Add(blk + "post_ffw_norm", layer.feed_forward_out_norm);
  }

  const ModelSpec& spec_;
  const GgufFamily& family_;
  GgufPlan plan_;
};

}  // namespace

Result<GgufPlan> DescribeGguf(const ModelSpec& spec) {
  const auto family = std::ranges::find(Families(), spec.family, &Family::model_type);
  SHOAL_CHECK(family != Families().end());
  if (family->gguf == nullptr || spec.classes() > 0) {
    return InvalidArgument("model_type " + storage::Quoted(spec.family) +
                           " is no language model that llama.cpp continues texts with; export it "
                           "with --as directory");
  }
  SHOAL_RETURN_IF_ERROR(GgufCheck(spec, *family->gguf).Check());
  return GgufBuilder(spec, *family->gguf).Build();
}

}  // namespace shoal::model
