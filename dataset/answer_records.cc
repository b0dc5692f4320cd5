#include "dataset/answer_records.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "common/nesting.h"
#include "dataset/json_records.h"
#include "dataset/line_error.h"
#include "dataset/text_kind.h"

namespace shoal::dataset {
namespace {

using Json = nlohmann::json;

constexpr char kExample[] = R"({"prompt": "...", "answer": "..."})";

Result<std::string> TextField(Json* object, const char* name) {
  const auto field = object->find(name);
  const std::string quoted = "\"" + std::string(name) + "\"";
  if (field == object->end()) return InvalidArgument("no field " + quoted);
  if (!field->is_string()) return InvalidArgument("its field " + quoted + " is not a string");
  std::string text = std::move(field->get_ref<std::string&>());
  if (text.find_first_not_of(" \t\r\n") == std::string::npos) {
    return InvalidArgument("its field " + quoted + " is blank");
  }
  return text;
}

}  // namespace

Result<AnswerRecord> ParseAnswerRecord(std::string_view json) {
  auto object = ParseJson<Json>(json);
  if (object.is_discarded()) return InvalidArgument("not well-formed JSON (or not UTF-8)");
  if (!object.is_object()) {
    return InvalidArgument(std::string("not a JSON object like ") + kExample);
  }
  AnswerRecord record;
  SHOAL_ASSIGN_OR_RETURN(record.prompt, TextField(&object, "prompt"));
  SHOAL_ASSIGN_OR_RETURN(record.answer, TextField(&object, "answer"));
  return record;
}

Result<std::vector<AnswerRecord>> ReadAnswerRecords(const std::string& path) {
  SHOAL_ASSIGN_OR_RETURN(const TextFile file, OpenTextFile(path, ReadTables::kNo));
  if (file.kind != TextKind::kJsonLines && file.kind != TextKind::kJsonArray) {
    return InvalidArgument(path + " holds no JSON lines; each must be like " + kExample);
  }
  JsonRecords objects(file.text, file.kind == TextKind::kJsonArray);
  std::vector<AnswerRecord> records;
  for (std::string_view object;;) {
    const Result<bool> more = objects.Next(&object);
    if (!more.ok()) return LineError(path, objects.line(), more.status());
    if (!*more) break;
    Result<AnswerRecord> record = ParseAnswerRecord(object);
    if (!record.ok()) return LineError(path, objects.line(), record.status());
    record->line = objects.line();
    records.push_back(*std::move(record));
  }
  if (records.empty()) {
    return InvalidArgument(path + " has no answers; give it lines like " + kExample);
  }
  return records;
}

}  // namespace shoal::dataset
