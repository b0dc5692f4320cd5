#include "scheduler/tracking/traffic_meter.h"

#include <utility>

#include <nlohmann/json.hpp>

#include "common/nesting.h"

namespace shoal::scheduler {
namespace {

using Json = nlohmann::json;

constexpr std::array<const char*, 3> kKinds = {"forward", "backward", "replica"};
constexpr double kBitsOfFp32 = 32;
constexpr double kBytesMax = 1e18;  // beyond what anybody sends

// 0 where the peer does not say it.
double NumberIn(const Json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end() || !found->is_number()) return 0;
  const double value = found->get<double>();
  return value > 0 && value < kBytesMax ? value : 0;
}

}  // namespace

std::optional<TrafficMeter::Counters> TrafficMeter::Read(std::string_view status_json) {
  const Json status = ParseJson<Json>(status_json);
  if (!status.is_object()) return std::nullopt;
  const auto traffic = status.find("traffic");
  if (traffic == status.end() || !traffic->is_object()) return std::nullopt;
  Counters counters;
  counters.sent = NumberIn(*traffic, "linkSentWireBytes");
  for (std::size_t i = 0; i < kKinds.size(); ++i) {
    const auto kind = traffic->find(kKinds[i]);
    if (kind == traffic->end() || !kind->is_object()) continue;
    counters.wire[i] = NumberIn(*kind, "wireSentBytes");
    counters.raw[i] = NumberIn(*kind, "rawSentBytes");
  }
  return counters;
}

TrafficFigures TrafficMeter::Look(const std::vector<MemberTraffic>& connected) {
  TrafficFigures figures;
  figures.peers = static_cast<std::uint32_t>(connected.size());
  std::map<PeerId, Counters> now;
  std::array<double, 3> wire{}, raw{};
  for (const MemberTraffic& member : connected) {
    const std::optional<Counters> counters = Read(member.status_json);
    if (!counters) continue;
    now[member.peer] = *counters;
    const auto before = last_.find(member.peer);
    if (before == last_.end() || counters->sent < before->second.sent) continue;
    sent_bytes_ += counters->sent - before->second.sent;
    for (std::size_t i = 0; i < kKinds.size(); ++i) {
      if (counters->wire[i] < before->second.wire[i]) continue;
      if (counters->raw[i] < before->second.raw[i]) continue;
      wire[i] += counters->wire[i] - before->second.wire[i];
      raw[i] += counters->raw[i] - before->second.raw[i];
    }
  }
  last_ = std::move(now);
  figures.sent_bytes = sent_bytes_;
  const auto bits = [&](std::size_t i) -> std::optional<double> {
    if (raw[i] <= 0) return std::nullopt;
    return kBitsOfFp32 * wire[i] / raw[i];
  };
  figures.forward_bits = bits(0);
  figures.backward_bits = bits(1);
  figures.replica_bits = bits(2);
  return figures;
}

}  // namespace shoal::scheduler
