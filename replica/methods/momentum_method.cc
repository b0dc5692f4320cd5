#include "replica/methods/momentum_method.h"

#include <string>

#include "replica/methods/method_options.h"

namespace shoal::replica {
namespace {

// `qadam` and `onebit`. One bit of a momentum is its sign: midrise levels of one bit would take a
// bucket's largest value for all.
Result<ReplicaMethod> ParseMomentum(const compression::CodecSpec& spec) {
  const bool qadam = spec.name == "qadam";
  ReplicaMethod method;
  method.kind = ReplicaKind::kMomentum;
  std::uint32_t bits = 1, bucket = kReplicaRow;
  if (qadam) {
    SHOAL_ASSIGN_OR_RETURN(bits, NumberOption(spec, "bits", 1, 32, 4));
    if (bits > 8 && bits < 32) return SpecError(spec, "bits must be 1 to 8, or 32");
  }
  SHOAL_ASSIGN_OR_RETURN(bucket, NumberOption(spec, "bucket", 16, kReplicaRow, qadam ? 512 : 1024));
  if (kReplicaRow % bucket != 0) {
    return SpecError(spec, "bucket must divide " + std::to_string(kReplicaRow));
  }
  const std::string size = std::to_string(bucket);
  method.codec = "direct:bits=" + std::to_string(bits) + ",bucket=" + size;
  if (bits == 1) method.codec = "onebit:bucket=" + size;
  if (bits == 32) method.codec = kExactCodec;
  method.feedback = bits < 32;
  SHOAL_ASSIGN_OR_RETURN(method.start, StartOption(spec));
  SHOAL_ASSIGN_OR_RETURN(const std::size_t refresh, ChoiceOption(spec, "refresh", {"off", "on"}));
  method.refresh = refresh == 1;
  method.spec = std::string(spec.name) + ":" + (qadam ? "bits=" + std::to_string(bits) + "," : "") +
                "bucket=" + size + ",start=" + StartText(method.start) +
                ",refresh=" + (method.refresh ? "on" : "off");
  return method;
}

}  // namespace

const MethodEntry& QAdamEntry() {
  static constexpr std::string_view kKeys[] = {"bits", "bucket", "start", "refresh"};
  static const MethodEntry entry = {
      .name = "qadam", .usage = "qadam:bits=4", .keys = kKeys, .parse = ParseMomentum};
  return entry;
}

const MethodEntry& OneBitEntry() {
  static constexpr std::string_view kKeys[] = {"bucket", "start", "refresh"};
  static const MethodEntry entry = {
      .name = "onebit", .usage = "onebit", .keys = kKeys, .parse = ParseMomentum};
  return entry;
}

}  // namespace shoal::replica
