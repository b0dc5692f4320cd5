#include "replica/methods/momentum_method.h"

#include <string>

#include "replica/methods/method_options.h"

namespace shoal::replica {
namespace {

constexpr std::uint32_t kBitsBucket = 512, kSignsBucket = 1024;  // values

const char* Word(bool refresh) { return refresh ? "on" : "off"; }

// Momenta in so many bits. One bit of a momentum is its sign: midrise levels of one bit would take
// a bucket's largest value for all. `own_options`: those that the other method has not, as they
// stand in the spec.
Result<ReplicaMethod> ParseMomentum(const compression::CodecSpec& spec, bool local,
                                    std::uint32_t bits, std::uint32_t bucket_default,
                                    const std::string& own_options) {
  ReplicaMethod method;
  method.traits.clips_locally = true;
  method.traits.follows_steps = true;
  SHOAL_ASSIGN_OR_RETURN(const std::uint32_t bucket,
                         NumberOption(spec, "bucket", 16, kReplicaRow, bucket_default));
  if (kReplicaRow % bucket != 0) {
    return SpecError(spec, "bucket must divide " + std::to_string(kReplicaRow));
  }
  const std::string size = std::to_string(bucket);
  method.codec = "direct:bits=" + std::to_string(bits) + ",bucket=" + size;
  if (bits == 1) method.codec = "onebit:bucket=" + size;
  if (bits == 32) method.codec = compression::kLosslessCodec;
  method.feedback = bits < 32;
  MomentumOptions options;
  SHOAL_ASSIGN_OR_RETURN(options.warm_up, ParseWarmUp(spec));
  SHOAL_ASSIGN_OR_RETURN(const std::size_t refresh, ChoiceOption(spec, "refresh", {"off", "on"}));
  options.refresh = refresh == 1;
  options.exchange = std::string(spec.name) + ":" + own_options + "bucket=" + size;
  // With local steps every pipeline has moments of its own, and no warm-up.
  method.spec = local ? options.exchange : options.Spec();
  method.alone = "qadam:bits=32," + options.warm_up.Option() + ",refresh=" + Word(options.refresh);
  method.options = options;
  return method;
}

Result<ReplicaMethod> ParseQAdam(const compression::CodecSpec& spec, bool local) {
  SHOAL_ASSIGN_OR_RETURN(const std::uint32_t bits, NumberOption(spec, "bits", 1, 32, 4));
  if (bits > 8 && bits < 32) return SpecError(spec, "bits must be 1 to 8, or 32");
  return ParseMomentum(spec, local, bits, kBitsBucket, "bits=" + std::to_string(bits) + ",");
}

Result<ReplicaMethod> ParseOneBit(const compression::CodecSpec& spec, bool local) {
  return ParseMomentum(spec, local, 1, kSignsBucket, "");
}

std::string SpecOfRun(const ReplicaMethod& method, std::uint64_t run_steps,
                      std::uint64_t rate_warm_up) {
  if (method.local.steps > 0) return method.spec;
  MomentumOptions options = MomentumOptionsOf(method);
  options.warm_up = options.warm_up.OfRun(run_steps, rate_warm_up);
  return options.Spec();
}

}  // namespace

std::string MomentumOptions::Spec() const {
  return exchange + "," + warm_up.Option() + ",refresh=" + Word(refresh);
}

const MomentumOptions& MomentumOptionsOf(const ReplicaMethod& method) {
  return OptionsOf<MomentumOptions>(method);
}

const MethodEntry& QAdamEntry() {
  static constexpr std::string_view kKeys[] = {"bits", "bucket", "start", "refresh"};
  static constexpr MethodOffer kOffers[] = {{"qadam:bits=4", 4 + 16.0 / kBitsBucket, 0.0006}};
  static const MethodEntry entry = {.name = "qadam",
                                    .usage = "qadam:bits=4",
                                    .keys = kKeys,
                                    .offers = kOffers,
                                    .parse = ParseQAdam,
                                    .spec_of_run = SpecOfRun};
  return entry;
}

const MethodEntry& OneBitEntry() {
  static constexpr std::string_view kKeys[] = {"bucket", "start", "refresh"};
  static constexpr MethodOffer kOffers[] = {{"onebit", 1 + 32.0 / kSignsBucket, 0.0012}};
  static const MethodEntry entry = {.name = "onebit",
                                    .usage = "onebit",
                                    .keys = kKeys,
                                    .offers = kOffers,
                                    .parse = ParseOneBit,
                                    .spec_of_run = SpecOfRun};
  return entry;
}

}  // namespace shoal::replica
