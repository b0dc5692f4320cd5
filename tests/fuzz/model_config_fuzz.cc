// config.json: what is accepted describes a model whose parts can be named and counted.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "model/families/family.h"
#include "model/families/open_model.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto spec = shoal::model::ParseModelSpec(text, "fuzz");
  if (!spec.ok()) return 0;
  // Embedding, head, and what all layers share.
  const std::size_t others = spec->relative ? 3 : 2;
  if (shoal::model::LayoutOf(*spec).parts.size() != spec->layers() + others) abort();
  if (spec->ParametersOf(0, spec->layers(), true, true) == 0) abort();
  for (const shoal::model::LayerSpec& layer : spec->layer_specs) {
    if (layer.attention.heads % layer.attention.key_heads != 0) abort();
  }
  return 0;
}
