// Manifests of copies of runs: what is accepted stays in its folder and reads back the same.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "common/status.h"
#include "scheduler/mirror/stored_run.h"
#include "storage/files/content_store.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace shoal;
  using namespace shoal::scheduler;
  const std::string text(reinterpret_cast<const char*>(data), size);
  (void)ParseStoredRun(text, "m");
  (void)ParseManifestKey(text);
  (void)ParseBlobKey(text);
  // No input finds a hash by chance: the rest of the parser is reached with the right one.
  const std::string sealed =
      storage::HashOf(std::as_bytes(std::span(text))).ToHex() + "\n" + text + "\n";
  const auto run = ParseStoredRun(sealed, "m");
  if (!run.ok()) return 0;
  for (const storage::ArtefactRef& file : run->origin) {
    SHOAL_CHECK(file.name.find("..") != 0 && file.name.front() != '/');
  }
  const auto again = ParseStoredRun(FormatStoredRun(*run), "m");
  SHOAL_CHECK(again.ok() && again->Blobs() == run->Blobs());
  return 0;
}
