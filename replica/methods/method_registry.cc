#include "replica/methods/method_registry.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "common/command_line/spelling.h"
#include "compression/api/codec_spec.h"
#include "replica/methods/average_method.h"
#include "replica/methods/marsit_method.h"
#include "replica/methods/method_options.h"
#include "replica/methods/momentum_method.h"
#include "replica/methods/power_sgd_method.h"
#include "replica/methods/qsdp_method.h"

namespace shoal::replica {
namespace {

// Registration: a method is known by its line here, in the order in which errors list them.
using Entry = const MethodEntry& (*)();
constexpr Entry kEntries[] = {
    AverageEntry,   //
    CocktailEntry,  //
    PowerSgdEntry,  //
    QAdamEntry,     //
    OneBitEntry,    //
    MarsitEntry,    //
    QsdpEntry,      //
};

constexpr std::uint32_t kLocalStepsMax = 10000;
// Unbiased, 3.4 bits a value; what all gradients lose by it is in docs/quality, "2 pipelines".
constexpr char kEndsCodec[] = "dithered:step=0.3";
constexpr std::string_view kLocalKeys[] = {"local_steps", "outer_rate", "outer_momentum", "ends"};

// "a, b and c".
std::string Listed(const std::vector<std::string_view>& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i > 0) text += i + 1 == names.size() ? " and " : ", ";
    text += names[i];
  }
  return text;
}

// Of the methods that go with local steps, or of those that do not.
std::vector<std::string_view> Names(bool local_steps) {
  std::vector<std::string_view> names;
  for (const Entry of : kEntries) {
    if (of().local_steps == local_steps) names.push_back(of().name);
  }
  return names;
}

std::vector<std::string> MethodNames() {
  std::vector<std::string> names;
  for (const Entry of : kEntries) names.emplace_back(of().name);
  return names;
}

std::string KnownMethods() {
  std::vector<std::string_view> usages;
  for (const Entry of : kEntries) usages.push_back(of().usage);
  return "there are " + Listed(usages) + ", all but " + Listed(Names(false)) +
         " also with local_steps=N";
}

Result<LocalSteps> ParseLocal(const compression::CodecSpec& spec, const MethodEntry* entry) {
  LocalSteps local;
  if (spec.Option("local_steps").empty()) {
    for (const std::string_view key : kLocalKeys) {
      if (spec.Option(key).empty()) continue;
      return SpecError(spec, std::string(key) + " needs local_steps=N beside it");
    }
    return local;
  }
  SHOAL_ASSIGN_OR_RETURN(local.steps, NumberOption(spec, "local_steps", 1, kLocalStepsMax, {}));
  SHOAL_ASSIGN_OR_RETURN(local.outer_rate,
                         FractionOption(spec, "outer_rate", 0.01, 2, local.outer_rate));
  SHOAL_ASSIGN_OR_RETURN(local.outer_momentum,
                         FractionOption(spec, "outer_momentum", 0, 0.99, local.outer_momentum));
  if (const std::string_view ends = spec.Option("ends"); ends == "exact") {
    local.exact_ends = true;
  } else if (!ends.empty() && ends != "auto") {
    return SpecError(spec, "ends=" + std::string(ends) + "; allowed are ends=auto and ends=exact");
  }
  if (entry != nullptr && !entry->local_steps) {
    return SpecError(spec, std::string(spec.name) +
                               " makes a step of all pipelines in one; local_steps goes with " +
                               Listed(Names(true)));
  }
  for (const std::string_view key : {"start", "refresh"}) {
    if (spec.Option(key).empty() || (entry != nullptr && entry->start_with_local_steps)) continue;
    return SpecError(spec,
                     "with local_steps every pipeline has moments of its own, so there "
                     "is no warm-up; leave " +
                         std::string(key) + " out");
  }
  return local;
}

Status CheckOptions(const MethodEntry& entry, const compression::CodecSpec& spec) {
  SHOAL_RETURN_IF_ERROR(CheckNoEntropyCoder(spec));
  const Status keys = CheckKeys(spec, entry.keys);
  const bool nests = std::ranges::find(entry.keys, "codec") != entry.keys.end();
  if (keys.ok() || !nests || spec.Option("codec").empty()) return keys;
  return InvalidArgument(keys.message() + "; inside codec=... '/' stands for ','");
}

Result<ReplicaMethod> ParseExchange(const compression::CodecSpec& spec, bool local) {
  if (const MethodEntry* const entry = FindMethod(spec.name); entry != nullptr) {
    SHOAL_RETURN_IF_ERROR(CheckOptions(*entry, spec));
    SHOAL_ASSIGN_OR_RETURN(ReplicaMethod method, entry->parse(spec, local));
    method.entry = entry;
    return method;
  }
  if (const std::size_t comma = spec.text.find(','); comma < spec.name.size()) {
    std::string meant(spec.text);
    meant[comma] = ':';
    return SpecError(spec, "options stand behind ':'; write " + meant);
  }
  return InvalidArgument("replica method '" + std::string(spec.text) + "' is not known" +
                         DidYouMean(spec.name, MethodNames()) + "; " + KnownMethods());
}

std::string LocalSpec(const LocalSteps& local, const std::string& exchange) {
  const std::string options = "local_steps=" + std::to_string(local.steps) +
                              ",outer_rate=" + Decimal(local.outer_rate) +
                              ",outer_momentum=" + Decimal(local.outer_momentum) +
                              ",ends=" + (local.exact_ends ? "exact" : "auto");
  return compression::WithOptions(exchange, options);
}

}  // namespace

std::vector<const MethodEntry*> Methods() {
  std::vector<const MethodEntry*> methods;
  for (const Entry of : kEntries) methods.push_back(&of());
  return methods;
}

const MethodEntry* FindMethod(std::string_view name) {
  for (const Entry of : kEntries) {
    if (of().name == name) return &of();
  }
  return nullptr;
}

std::string ReplicaMethod::SpecOfRun(std::uint64_t run_steps, std::uint64_t rate_warm_up) const {
  return entry->spec_of_run == nullptr ? spec : entry->spec_of_run(*this, run_steps, rate_warm_up);
}

Status ReplicaMethod::CheckRun(std::uint32_t stages, std::uint32_t pipelines) const {
  return entry->check_run == nullptr ? Status::Ok() : entry->check_run(*this, stages, pipelines);
}

Status ReplicaMethod::CheckSharing(std::size_t sharing, std::uint32_t pipelines) const {
  // A single pipeline adds up exactly, whatever the method.
  const std::size_t most = pipelines > 1 ? entry->group_members_max : kGroupMembersMax;
  if (sharing * pipelines <= most) return Status::Ok();
  return InvalidArgument(
      "replica method " + std::string(entry->name) + " takes up to " + std::to_string(most) +
      " peers that share tensors, and the model has some in " + std::to_string(sharing) +
      " stages of " + std::to_string(pipelines) + " pipelines; take fewer of either");
}

Result<std::vector<std::size_t>> ReplicaMethod::LanOf(std::uint32_t pipelines) const {
  if (entry->lan_of != nullptr) return entry->lan_of(*this, pipelines);
  std::vector<std::size_t> own(pipelines);
  std::iota(own.begin(), own.end(), std::size_t{0});
  return own;
}

std::optional<std::uint64_t> ReplicaMethod::StageChoiceStart() const {
  return entry->stage_choice_start == nullptr ? std::nullopt : entry->stage_choice_start(*this);
}

std::uint64_t ReplicaMethod::StateBytes(std::uint64_t values, std::uint32_t pipelines, bool bf16,
                                        std::uint64_t largest_unit) const {
  if (entry->state_bytes != nullptr && pipelines > 1) {
    return entry->state_bytes(*this, values, pipelines, bf16, largest_unit);
  }
  return values * (4 * sizeof(float) + (bf16 ? 2 : 0));
}

Result<ReplicaMethod> ParseReplicaMethod(std::string_view text) {
  SHOAL_ASSIGN_OR_RETURN(const compression::CodecSpec whole,
                         compression::ParseCodecSpec(text, ',', compression::kReplicaMethodSpec));
  SHOAL_ASSIGN_OR_RETURN(const LocalSteps local, ParseLocal(whole, FindMethod(whole.name)));
  const std::string exchange = whole.Text(kLocalKeys);  // they belong to no method in particular
  SHOAL_ASSIGN_OR_RETURN(
      const compression::CodecSpec spec,
      compression::ParseCodecSpec(exchange, ',', compression::kReplicaMethodSpec));
  SHOAL_ASSIGN_OR_RETURN(ReplicaMethod method, ParseExchange(spec, local.steps > 0));
  method.local = local;
  if (local.steps > 0) {
    method.traits.clips_locally = true;
    method.traits.prepares_checkpoints = true;
    method.traits.follows_steps = false;
    method.traits.pipelines_differ = true;
    method.alone.clear();
    method.local.ends_codec =
        local.exact_ends || method.traits.lossless ? compression::kLosslessCodec : kEndsCodec;
    method.spec = LocalSpec(local, method.spec);
  }
  if (method.spec.size() <= compression::kSpecBytesMax) return method;
  return SpecError(whole, "longer than " + std::to_string(compression::kSpecBytesMax) +
                              " bytes with all of its options; name fewer stages, LANs or steps");
}

}  // namespace shoal::replica
