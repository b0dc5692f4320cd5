// The paths of a status's fields as its table writes them: "links[].rttMs".

#ifndef SHOAL_TESTS_SUPPORT_STATUS_PATHS_H_
#define SHOAL_TESTS_SUPPORT_STATUS_PATHS_H_

#include <nlohmann/json.hpp>

#include <set>
#include <span>
#include <string>

#include "net/http/status_fields.h"

namespace shoal::test_support {

inline void CollectPaths(const nlohmann::json& value, const std::string& path,
                         const std::set<std::string>& foreign, std::set<std::string>* paths) {
  if (value.is_array() && !foreign.contains(path)) {
    for (const auto& item : value) CollectPaths(item, path + "[]", foreign, paths);
    return;
  }
  if (!path.empty()) paths->insert(path);
  if (!value.is_object() || foreign.contains(path)) return;
  for (const auto& [name, field] : value.items()) {
    CollectPaths(field, path.empty() ? name : path + "." + name, foreign, paths);
  }
}

// Of all that a status has. Empty lists have none.
inline std::set<std::string> StatusPaths(const std::string& json,
                                         std::span<const net::StatusField> fields) {
  std::set<std::string> foreign, paths;
  for (const net::StatusField& field : fields) {
    if (field.kind == net::FieldKind::kForeign) foreign.emplace(field.path);
  }
  CollectPaths(nlohmann::json::parse(json), "", foreign, &paths);
  return paths;
}

inline std::set<std::string> TablePaths(std::span<const net::StatusField> fields) {
  std::set<std::string> paths;
  for (const net::StatusField& field : fields) paths.emplace(field.path);
  return paths;
}

}  // namespace shoal::test_support

#endif  // SHOAL_TESTS_SUPPORT_STATUS_PATHS_H_
