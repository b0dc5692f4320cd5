// JSON of what shoal-run prints.

#ifndef SHOAL_MODEL_RUN_JSON_TEXT_INL_H_
#define SHOAL_MODEL_RUN_JSON_TEXT_INL_H_

#include <nlohmann/json.hpp>
#include <string>

namespace shoal::model {

// Generated text may end in the middle of a character, which JSON cannot carry.
inline std::string JsonText(const nlohmann::ordered_json& json) {
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace shoal::model

#endif  // SHOAL_MODEL_RUN_JSON_TEXT_INL_H_
