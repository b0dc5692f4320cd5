// [replica] method, as a plan from the scheduler has it. Whatever is accepted must read back as
// itself, and what it says of codecs, stages, LANs and steps must be fit for use.

#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "compression/api/codec.h"
#include "replica/methods/qsdp_method.h"
#include "replica/methods/replica_method.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using shoal::replica::ParseReplicaMethod;
  const auto method = ParseReplicaMethod({reinterpret_cast<const char*>(data), size});
  if (!method.ok()) return 0;
  const auto again = ParseReplicaMethod(method->spec);
  if (!again.ok() || again->spec != method->spec || again->codec != method->codec ||
      again->feedback != method->feedback) {
    abort();
  }
  const bool named = method->codec.starts_with("onebit");  // the exchange's own
  if (!named && !shoal::compression::MakeCodec(method->codec, 1024).ok()) abort();
  static_cast<void>(method->CheckRun(4, 6));
  if (const auto lans = method->LanOf(6); lans.ok() && lans->size() != 6) abort();
  if (!ParseReplicaMethod(method->SpecOfRun(100, 10)).ok()) abort();
  if (!method->traits.shards_moments) return 0;
  for (const std::uint64_t step : shoal::replica::QsdpOptionsOf(*method).LearnSteps(100)) {
    if (step == 0) abort();
  }
  return 0;
}
