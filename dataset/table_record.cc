#include "dataset/table_record.h"

#include <cstddef>
#include <utility>

namespace shoal::dataset {
namespace {

// A quoted field from behind its first quote; *at ends behind the last one.
Result<std::string> TakeQuoted(std::string_view text, std::size_t* at) {
  std::string field;
  for (std::size_t i = *at; i < text.size(); ++i) {
    if (text[i] != '"') {
      field += text[i];
    } else if (i + 1 < text.size() && text[i + 1] == '"') {
      field += text[i++];
    } else {
      *at = i + 1;
      return field;
    }
  }
  return InvalidArgument("a field in quotes has no end");
}

}  // namespace

Result<std::vector<std::string>> TakeTableRecord(TableForm form, std::string_view* text) {
  const char separator = form == TableForm::kCsv ? ',' : '\t';
  const std::string_view ends = form == TableForm::kCsv ? ",\r\n" : "\t\r\n";
  std::vector<std::string> fields;
  std::size_t at = 0;
  for (;;) {
    if (form == TableForm::kCsv && at < text->size() && (*text)[at] == '"') {
      ++at;
      SHOAL_ASSIGN_OR_RETURN(std::string field, TakeQuoted(*text, &at));
      if (at < text->size() && ends.find((*text)[at]) == std::string_view::npos) {
        return InvalidArgument("a field in quotes goes on behind its end");
      }
      fields.push_back(std::move(field));
    } else {
      std::size_t end = at;
      // A carriage return ends a record only before a line feed.
      while (end < text->size() && (*text)[end] != separator && (*text)[end] != '\n' &&
             text->substr(end, 2) != "\r\n") {
        ++end;
      }
      fields.emplace_back(text->substr(at, end - at));
      at = end;
    }
    if (at < text->size() && (*text)[at] == separator) {
      ++at;
      continue;
    }
    if (at < text->size() && (*text)[at] == '\r') ++at;
    if (at < text->size() && (*text)[at] == '\n') ++at;
    text->remove_prefix(at);
    return fields;
  }
}

}  // namespace shoal::dataset
