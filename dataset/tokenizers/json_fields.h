// Fields of a tokenizer's JSON, checked. Internal to dataset/tokenizers.

#ifndef SHOAL_DATASET_TOKENIZERS_JSON_FIELDS_H_
#define SHOAL_DATASET_TOKENIZERS_JSON_FIELDS_H_

#include <initializer_list>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "common/status.h"

namespace shoal::dataset {

// A name from a foreign file, as one short line in quotes.
std::string Quoted(std::string_view text);

// "type" of an object; "?" if it has none that is a text.
std::string TypeOf(const nlohmann::json& object);

// A field that may lack or be null gives `otherwise`; another type is an error that names it.
Result<bool> FlagOf(const nlohmann::json& object, const char* name, bool otherwise);
Result<std::string> TextOf(const nlohmann::json& object, const char* name,
                           const std::string& otherwise);

// Refuses fields that are not among `known`.
Status OnlyFields(const nlohmann::json& object, const std::string& what,
                  std::initializer_list<std::string_view> known);

}  // namespace shoal::dataset

#endif  // SHOAL_DATASET_TOKENIZERS_JSON_FIELDS_H_
