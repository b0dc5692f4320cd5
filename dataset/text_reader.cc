#include "dataset/text_reader.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "common/nesting.h"
#include "dataset/line_error.h"

namespace shoal::dataset {

Status ParseJsonLine(std::string_view line, std::string* text) {
  auto json = ParseJson<nlohmann::json>(line);
  if (json.is_discarded()) return InvalidArgument("not well-formed JSON (or not UTF-8)");
  if (!json.is_object()) return InvalidArgument("not a JSON object like {\"text\": \"...\"}");
  const auto field = json.find("text");
  if (field == json.end()) return InvalidArgument("no field \"text\"");
  if (!field->is_string()) return InvalidArgument("its field \"text\" is not a string");
  *text = std::move(field->get_ref<std::string&>());
  return Status::Ok();
}

TextReader::TextReader(TextFile file, const Tokenizer& tokenizer)
    : file_(std::move(file.file)), tokenizer_(&tokenizer), bytes_(file.text), kind_(file.kind) {
  records_ = JsonRecords(bytes_, kind_ == TextKind::kJsonArray);
}

Result<TextReader> TextReader::Open(const std::string& path, const Tokenizer& tokenizer) {
  SHOAL_ASSIGN_OR_RETURN(TextFile file, OpenTextFile(path, ReadTables::kNo));
  return TextReader(std::move(file), tokenizer);
}

Status TextReader::Next(std::size_t target, TextBatch* batch, Sha256* hash) {
  *batch = {};
  const std::size_t begin = position_;
  if (kind_ == TextKind::kText) {
    NextText(target, batch);
  } else {
    SHOAL_RETURN_IF_ERROR(NextObjects(target, batch));
  }
  batch->file_bytes = position_ - begin;
  hash->Update(bytes_.substr(begin, batch->file_bytes));
  return Status::Ok();
}

void TextReader::NextText(std::size_t target, TextBatch* batch) {
  if (position_ == bytes_.size()) return;
  const std::size_t from = position_ + std::min(target, bytes_.size() - position_);
  const std::size_t end = tokenizer_->FindBreak(bytes_, from);
  batch->parts.push_back({bytes_.substr(position_, end - position_), position_ == 0});
  position_ = end;
}

Status TextReader::NextObjects(std::size_t target, TextBatch* batch) {
  const std::size_t begin = position_;
  while (position_ - begin < target) {
    std::string_view object;
    const Result<bool> more = records_.Next(&object);
    position_ = records_.position();
    if (!more.ok()) return LineError(file_->path(), records_.line(), more.status());
    if (!*more) break;
    std::string text;
    if (const Status status = ParseJsonLine(object, &text); !status.ok()) {
      return LineError(file_->path(), records_.line(), status);
    }
    if (text.empty()) continue;
    batch->owned.push_back(std::make_unique<const std::string>(std::move(text)));
    batch->parts.push_back({*batch->owned.back(), true});
  }
  return Status::Ok();
}

}  // namespace shoal::dataset
