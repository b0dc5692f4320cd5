// Checkpoint manifests: what is accepted is written and read back the same.

#include <cstdint>
#include <cstdlib>
#include <string>

#include "storage/checkpoints/checkpoint_manifest.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace shoal::storage;
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto parsed = ParseCheckpointManifest(text, "fuzz");
  if (!parsed.ok()) return 0;
  const auto again = ParseCheckpointManifest(FormatCheckpointManifest(*parsed), "fuzz");
  if (!again.ok() || again->run != parsed->run || again->step != parsed->step) abort();
  if (again->files != parsed->files) abort();
  return 0;
}
