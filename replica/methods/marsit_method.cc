#include "replica/methods/marsit_method.h"

#include <string>

#include "replica/methods/method_options.h"

namespace shoal::replica {
namespace {

constexpr std::uint32_t kEveryMax = 1000000;

Result<ReplicaMethod> ParseMarsit(const compression::CodecSpec& spec) {
  ReplicaMethod method;
  method.kind = ReplicaKind::kMarsit;
  method.codec = kExactCodec;
  const bool automatic = spec.Option("every").empty() || spec.Option("every") == "auto";
  if (!automatic) {
    SHOAL_ASSIGN_OR_RETURN(method.every, NumberOption(spec, "every", 1, kEveryMax, {}));
  }
  SHOAL_ASSIGN_OR_RETURN(method.scale, FractionOption(spec, "scale", 0.01, 100, method.scale));
  SHOAL_ASSIGN_OR_RETURN(const std::size_t shape,
                         ChoiceOption(spec, "shape", {"auto", "ring", "torus"}));
  constexpr const char* kShapes[] = {"auto", "ring", "torus"};
  method.shape = static_cast<RingShape>(shape);
  SHOAL_ASSIGN_OR_RETURN(method.start, StartOption(spec));
  const std::string every = automatic ? "auto" : std::to_string(method.every);
  method.spec = "marsit:every=" + every + ",scale=" + Decimal(method.scale) +
                ",shape=" + kShapes[shape] + ",start=" + StartText(method.start);
  return method;
}

}  // namespace

const MethodEntry& MarsitEntry() {
  static constexpr std::string_view kKeys[] = {"every", "scale", "shape", "start"};
  static const MethodEntry entry = {.name = "marsit",
                                    .usage = "marsit",
                                    .keys = kKeys,
                                    .parse = ParseMarsit,
                                    .local_steps = false};
  return entry;
}

}  // namespace shoal::replica
