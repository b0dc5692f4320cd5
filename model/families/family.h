// The registry of model families: each turns a config.json of its own into a ModelSpec.
//
// A family is one file of this folder and a line in family_registry.cc. Thread: any.

#ifndef SHOAL_MODEL_FAMILIES_FAMILY_H_
#define SHOAL_MODEL_FAMILIES_FAMILY_H_

#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"
#include "model/families/config_keys.h"
#include "model/families/gguf_family.h"
#include "model/families/model_spec.h"

namespace shoal::model {

struct Family {
  std::string_view model_type;                  // of config.json
  std::vector<std::string_view> architectures;  // that it describes
  // Reads all keys that it implements; failures stay in `keys`.
  ModelSpec (*describe)(ConfigKeys* keys);
  const GgufFamily* gguf;  // null: llama.cpp does not have it
};

const std::vector<Family>& Families();

// Parses and checks config.json text. A family, key or value that is not known is an error
// that names it and what is supported.
Result<ModelSpec> ParseModelSpec(const std::string& json, const std::string& name);

}  // namespace shoal::model

#endif  // SHOAL_MODEL_FAMILIES_FAMILY_H_
