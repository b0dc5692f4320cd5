#include "model/exports/gguf_export.h"

#include <algorithm>
#include <utility>

#include "common/file.h"
#include "dataset/tokenizer_content.h"
#include "model/exports/gguf_rows.h"
#include "model/exports/modelfile.h"
#include "model/families/gguf_model.h"
#include "storage/files/atomic_folder.h"
#include "storage/files/foreign_text.h"

namespace shoal::model {
namespace {

using dataset::TokenizerContent;
using dataset::TokenKind;
using storage::GgufFile;
using storage::GgufTensor;
using storage::GgufType;

// Of a tensor, in memory at a time.
constexpr std::size_t kValuesAtOnce = std::size_t{1} << 18;
constexpr float kPaddingScore = -1000;
// "general.file_type", by llama.cpp's numbers.
constexpr std::uint32_t kMostlyF16 = 1, kMostlyQ8 = 7;

// Rows of the embedding that have no token get names of their own.
Status Pad(std::uint32_t vocabulary, TokenizerContent* content) {
  if (content->tokens.size() > vocabulary) {
    return InvalidArgument("the tokenizer has " + std::to_string(content->tokens.size()) +
                           " tokens, the model only " + std::to_string(vocabulary));
  }
  while (content->tokens.size() < vocabulary) {
    content->tokens.push_back("[PAD" + std::to_string(content->tokens.size()) + "]");
    content->kinds.push_back(TokenKind::kUnused);
    if (!content->scores.empty()) content->scores.push_back(kPaddingScore);
  }
  return Status::Ok();
}

void AddTokenizer(const TokenizerContent& content, storage::GgufMetadata* metadata) {
  const auto add = [&](const std::string& key, storage::GgufValue value) {
    metadata->emplace_back("tokenizer." + key, std::move(value));
  };
  add("ggml.model", content.model);
  add("ggml.pre", content.words);
  add("ggml.tokens", content.tokens);
  if (!content.scores.empty()) add("ggml.scores", content.scores);
  std::vector<std::int32_t> kinds;
  for (const TokenKind kind : content.kinds) kinds.push_back(static_cast<std::int32_t>(kind));
  add("ggml.token_type", std::move(kinds));
  if (!content.merges.empty()) add("ggml.merges", content.merges);
  for (const auto& [name, id] :
       {std::pair("bos", content.begin), std::pair("eos", content.end),
        std::pair("unknown", content.unknown), std::pair("padding", content.padding)}) {
    if (!id) continue;
    add(std::string("ggml.") + name + "_token_id", static_cast<std::uint32_t>(*id));
  }
  add("ggml.add_bos_token", content.add_begin);
  add("ggml.add_eos_token", content.add_end);
  if (content.model == "llama") add("ggml.add_space_prefix", content.prefix_space);
  if (!content.chat_template.empty()) add("chat_template", content.chat_template);
}

// Where F16 stands the type that is asked for, if rows are whole blocks of it.
void SetTypes(GgufType type, std::vector<GgufTensor>* tensors, std::vector<std::string>* notes) {
  std::size_t narrow = 0;
  for (GgufTensor& tensor : *tensors) {
    if (tensor.type != GgufType::kF16 || type == GgufType::kF16) continue;
    if (tensor.shape.back() % static_cast<std::int64_t>(storage::kGgufBlockValues) == 0) {
      tensor.type = type;
    } else {
      ++narrow;
    }
  }
  if (narrow == 0) return;
  notes->push_back(std::to_string(narrow) +
                   " tensors are F16: their rows are no multiple of 32 values, as q8_0 needs");
}

Status AppendTensor(const GgufTensor& tensor, const GgufSource& from,
                    const storage::ModelTensors& tensors, GgufFile* file) {
  if (from.tensor.empty()) return file->Append(from.values);
  const storage::TensorView* const view = tensors.Find(from.tensor);
  SHOAL_CHECK(view != nullptr);
  const auto rows = static_cast<std::size_t>(tensor.shape.front());
  const std::size_t width = RowValues(tensor);
  const std::size_t at_once = std::clamp<std::size_t>(kValuesAtOnce / width, 1, rows);
  std::vector<float> values(at_once * width);
  for (std::size_t row = 0; row < rows; row += at_once) {
    const auto some = std::span(values).first(std::min(at_once, rows - row) * width);
    ReadGgufRows(tensor, from, *view, row, some);
    SHOAL_RETURN_IF_ERROR(file->Append(some));
  }
  return Status::Ok();
}

}  // namespace

std::optional<GgufType> GgufTypeOf(std::string_view name) {
  if (name == "f16") return GgufType::kF16;
  if (name == "q8_0") return GgufType::kQ8_0;
  return std::nullopt;
}

Result<std::vector<std::string>> ExportGguf(const ExportSource& source, const ExportFormat& format,
                                            const std::string& path) {
  const GgufType type = format.type.empty() ? GgufType::kF16 : *GgufTypeOf(format.type);
  SHOAL_ASSIGN_OR_RETURN(GgufPlan plan, DescribeGguf(source.spec));
  SHOAL_ASSIGN_OR_RETURN(TokenizerContent content, dataset::LoadTokenizerContent(source.folder));
  if (const Status padded = Pad(source.spec.vocabulary, &content); !padded.ok()) {
    return padded.WithContext(source.folder);
  }
  SetTypes(type, &plan.tensors, &plan.notes);
  const std::uint32_t file_type = type == GgufType::kF16 ? kMostlyF16 : kMostlyQ8;
  plan.metadata.emplace_back("general.file_type", file_type);
  plan.metadata.emplace_back("general.quantization_version", std::uint32_t{2});
  AddTokenizer(content, &plan.metadata);
  SHOAL_ASSIGN_OR_RETURN(const auto folder, storage::AtomicFolder::Create(path));
  SHOAL_ASSIGN_OR_RETURN(const auto file, GgufFile::Create(folder->path() + "/model.gguf",
                                                           plan.metadata, plan.tensors));
  for (std::size_t i = 0; i < plan.tensors.size(); ++i) {
    SHOAL_RETURN_IF_ERROR(
        AppendTensor(plan.tensors[i], plan.sources[i], source.tensors, file.get()));
  }
  SHOAL_RETURN_IF_ERROR(file->Commit());
  const Modelfile modelfile = MakeModelfile(content, source.folder);
  plan.notes.insert(plan.notes.end(), modelfile.notes.begin(), modelfile.notes.end());
  SHOAL_RETURN_IF_ERROR(WriteFileAtomic(folder->path() + "/Modelfile", modelfile.text));
  if (!source.model_card.empty()) {
    SHOAL_RETURN_IF_ERROR(WriteFileAtomic(folder->path() + "/MODEL_CARD.md", source.model_card));
  }
  SHOAL_RETURN_IF_ERROR(folder->Commit());
  return std::move(plan.notes);
}

}  // namespace shoal::model
