#include "replica/methods/qsdp_method.h"

#include <set>
#include <utility>

#include "replica/methods/method_options.h"

namespace shoal::replica {
namespace {

Result<ReplicaMethod> ParseSharded(const compression::CodecSpec& spec, bool /*local*/) {
  ReplicaMethod method;
  SHOAL_ASSIGN_OR_RETURN(QsdpOptions options, ParseQsdp(spec.text));
  method.traits.shards_moments = true;
  method.traits.prepares_checkpoints = true;
  method.traits.shards_parameters = options.shard_parameters;
  method.traits.uses_lans = !options.lan.empty();
  method.traits.measures_lans = options.lan_auto();
  method.codec = options.GradientCodec();
  method.feedback = options.learns_gradients();
  method.spec = options.Spec();
  method.options = std::move(options);
  return method;
}

Result<std::vector<std::size_t>> LanOf(const ReplicaMethod& method, std::uint32_t pipelines) {
  return QsdpOptionsOf(method).LanOf(pipelines);
}

Status CheckRun(const ReplicaMethod& method, std::uint32_t /*stages*/, std::uint32_t pipelines) {
  return LanOf(method, pipelines).status();
}

std::uint64_t StateBytes(const ReplicaMethod& method, std::uint64_t values, std::uint32_t pipelines,
                         bool bf16, std::uint64_t largest_unit) {
  constexpr std::uint64_t kValue = sizeof(float), kSum = 8;
  const QsdpOptions& options = QsdpOptionsOf(method);
  const std::uint64_t weight = kValue + (bf16 ? 2 : 0);
  std::uint64_t owners = pipelines;
  if (const auto lans = options.LanOf(pipelines); lans.ok()) {
    owners = std::set<std::size_t>(lans->begin(), lans->end()).size();
  }
  if (options.lan_auto()) owners = 1;  // all may turn out to share one LAN
  const std::uint64_t shard = (values + owners - 1) / owners;
  // The weights of two parts, the gradients of one; sums of gradients with the owners.
  if (options.shard_parameters) {
    return shard * (3 * kValue + kSum) + largest_unit * (2 * weight + kValue);
  }
  return values * (weight + kValue) + shard * (options.delta ? 4 : 3) * kValue;
}

}  // namespace

const QsdpOptions& QsdpOptionsOf(const ReplicaMethod& method) {
  return OptionsOf<QsdpOptions>(method);
}

const MethodEntry& QsdpEntry() {
  static constexpr MethodOffer kOffers[] = {
      {"qsdp:weights=8,gradients=8", 8 + 24.0 / 1024, 0.0003},
      {"qsdp:shard_parameters=true", 0, 0, OfferedFor::kSmallMemory},
  };
  static const MethodEntry entry = {.name = "qsdp",
                                    .usage = "qsdp:weights=8",
                                    .keys = kQsdpKeys,
                                    .offers = kOffers,
                                    .parse = ParseSharded,
                                    .local_steps = false,
                                    .check_run = CheckRun,
                                    .lan_of = LanOf,
                                    .state_bytes = StateBytes};
  return entry;
}

}  // namespace shoal::replica
