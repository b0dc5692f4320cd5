// config.json: what is accepted describes a model whose parts can be named and counted.

#include <cstdint>
#include <cstdlib>
#include <string>

#include "storage/models/model_directory.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto config = shoal::storage::ParseModelConfig(text, "fuzz");
  if (!config.ok()) return 0;
  if (config->heads == 0 || config->hidden % config->heads != 0 || config->inner == 0) abort();
  if (shoal::storage::PartNames(*config).size() != config->layers + 2u) abort();
  if (config->ParametersOf(0, config->layers, true, true) == 0) abort();
  return 0;
}
