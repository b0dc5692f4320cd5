#include <algorithm>
#include <optional>

#include "model/families/families.h"
#include "model/families/family.h"
#include "storage/files/foreign_text.h"

namespace shoal::model {
namespace {

constexpr std::uint64_t kParametersMost = 1'000'000'000'000;

std::string Supported() {
  std::string text = "supported are ";
  for (const Family& family : Families()) {
    for (const std::string_view name : family.architectures) {
      if (!text.ends_with("are ")) text += ", ";
      text += name;
    }
  }
  return text;
}

// By the architecture that the file names, else by its model_type.
const Family* FamilyOf(ConfigKeys* keys) {
  const std::string type = keys->Text("model_type", "");
  const std::vector<std::string> architectures = keys->Texts("architectures");
  if (!keys->status().ok()) return nullptr;
  for (const Family& family : Families()) {
    const bool named = std::ranges::any_of(architectures, [&](const std::string& name) {
      return std::ranges::find(family.architectures, name) != family.architectures.end();
    });
    if (architectures.empty() ? family.model_type == type
                              : named && (type.empty() || family.model_type == type)) {
      return &family;
    }
  }
  if (type.empty() && architectures.empty()) {
    keys->Fail("it names neither model_type nor architectures; " + Supported());
    return nullptr;
  }
  keys->Fail("architecture " + storage::Quoted(architectures.empty() ? "" : architectures.back()) +
             " (model_type " + storage::Quoted(type) + ") is not supported; " + Supported());
  return nullptr;
}

}  // namespace

const std::vector<Family>& Families() {
  static const std::vector<Family> families = {
      {"gpt2", {"GPT2LMHeadModel", "GPT2Model"}, DescribeGpt2, &kGpt2Gguf},
      {"llama", {"LlamaForCausalLM", "LlamaModel"}, DescribeLlama, &kLlamaGguf},
      {"mistral", {"MistralForCausalLM", "MistralModel"}, DescribeMistral, &kMistralGguf},
      {"qwen2", {"Qwen2ForCausalLM", "Qwen2Model"}, DescribeQwen2, &kQwen2Gguf},
      {"qwen3", {"Qwen3ForCausalLM", "Qwen3Model"}, DescribeQwen3, &kQwen3Gguf},
      {"gemma2", {"Gemma2ForCausalLM", "Gemma2Model"}, DescribeGemma2, &kGemma2Gguf},
      {"gemma3_text", {"Gemma3ForCausalLM", "Gemma3TextModel"}, DescribeGemma3, &kGemma3Gguf},
      {"phi3", {"Phi3ForCausalLM", "Phi3Model"}, DescribePhi3, &kPhi3Gguf},
      {"bert",
       {"BertForSequenceClassification", "BertModel", "BertForMaskedLM", "BertForPreTraining"},
       DescribeBert,
       nullptr},
      {"roberta",
       {"RobertaForSequenceClassification", "RobertaModel", "RobertaForMaskedLM"},
       DescribeRoberta,
       nullptr},
      {"deberta-v2",
       {"DebertaV2ForSequenceClassification", "DebertaV2Model", "DebertaV2ForMaskedLM"},
       DescribeDeberta,
       nullptr},
  };
  return families;
}

Result<ModelSpec> ParseModelSpec(const std::string& json, const std::string& name) {
  SHOAL_ASSIGN_OR_RETURN(ConfigKeys keys, ConfigKeys::Parse(json, name));
  const Family* const family = FamilyOf(&keys);
  if (family == nullptr) return keys.status();
  ModelSpec spec = family->describe(&keys);
  SHOAL_RETURN_IF_ERROR(keys.Finish());
  // Each number alone is possible; all at their largest are 2^60 parameters.
  const std::uint64_t parameters = spec.ParametersOf(0, spec.layers(), true, true);
  if (parameters > kParametersMost) {
    return InvalidArgument(name + " describes a model of " + std::to_string(parameters) +
                           " parameters, the limit is " + std::to_string(kParametersMost));
  }
  spec.family = family->model_type;
  spec.json = json;
  return spec;
}

}  // namespace shoal::model
