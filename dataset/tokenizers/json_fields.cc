#include "dataset/tokenizers/json_fields.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace shoal::dataset {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kQuotedBytes = 60;

}  // namespace

std::string Quoted(std::string_view text) {
  return Json(std::string(text.substr(0, kQuotedBytes)))
      .dump(-1, ' ', true, Json::error_handler_t::replace);
}

std::string TypeOf(const Json& object) {
  if (!object.is_object()) return "?";
  const auto type = object.find("type");
  return type != object.end() && type->is_string() ? type->get<std::string>() : "?";
}

Result<bool> FlagOf(const Json& object, const char* name, bool otherwise) {
  const auto found = object.find(name);
  if (found == object.end() || found->is_null()) return otherwise;
  if (!found->is_boolean()) {
    return InvalidArgument(std::string("\"") + name + "\" is neither true nor false");
  }
  return found->get<bool>();
}

Result<std::string> TextOf(const Json& object, const char* name, const std::string& otherwise) {
  const auto found = object.find(name);
  if (found == object.end() || found->is_null()) return otherwise;
  if (!found->is_string()) return InvalidArgument(std::string("\"") + name + "\" is no text");
  return found->get<std::string>();
}

Status OnlyFields(const Json& object, const std::string& what,
                  std::initializer_list<std::string_view> known) {
  for (const auto& [name, value] : object.items()) {
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      return InvalidArgument(what + " has a field " + Quoted(name) + " that shoal does not know");
    }
  }
  return Status::Ok();
}

}  // namespace shoal::dataset
