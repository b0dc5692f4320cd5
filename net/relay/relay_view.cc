#include "net/relay/relay_view.h"

#include <nlohmann/json.hpp>

#include "common/units.h"
#include "net/http/metric_families.h"

namespace shoal::net {
namespace {

constexpr char kPlain[] = "text/plain; charset=utf-8";

std::string Words(const RelayStats& stats) {
  const BitsPerSecond rate{static_cast<std::uint64_t>(stats.rate_bps)};
  std::string text = "shoal-relay: " + std::to_string(stats.peers.size()) + " peers, " +
                     std::to_string(stats.calls) + " connections, " +
                     (rate.value == 0 ? "0 bit/s" : FormatRate(rate)) + ", " +
                     FormatBytes(stats.bytes_total) + " so far\n";
  for (const RelayPeerStats& peer : stats.peers) {
    text += peer.key.ToShort() + "  " + peer.address + "  " + std::to_string(peer.calls) +
            " connections, " + FormatBytes(peer.bytes) + "\n";
  }
  return text + "see /api/v1/status (JSON) and /metrics (Prometheus)\n";
}

}  // namespace

std::string RelayStatusJson(const RelayStats& stats, const std::string& version) {
  nlohmann::ordered_json json = {{"schemaVersion", 1},
                                 {"program", "shoal-relay"},
                                 {"version", version},
                                 {"connections", stats.connections},
                                 {"waiting", stats.waiting},
                                 {"calls", stats.calls},
                                 {"callsTotal", stats.calls_total},
                                 {"refusedTotal", stats.refused_total},
                                 {"punchesTotal", stats.punches_total},
                                 {"bytesTotal", stats.bytes_total},
                                 {"rateBps", stats.rate_bps},
                                 {"peers", nlohmann::ordered_json::array()}};
  for (const RelayPeerStats& peer : stats.peers) {
    json["peers"].push_back({{"peer", peer.key.ToHex()},
                             {"address", peer.address},
                             {"calls", peer.calls},
                             {"bytes", peer.bytes}});
  }
  return json.dump() + "\n";
}

std::string RelayMetrics(const RelayStats& stats, const std::string& version) {
  const auto number = [](auto value) { return static_cast<double>(value); };
  MetricFamilies families;
  families.Gauge("shoal_build_info", "Version of the program.", 1, {{"version", version}});
  families.Gauge("shoal_relay_peers", "Peers that are registered.", number(stats.peers.size()));
  families.Gauge("shoal_relay_calls", "Connections that are passed on.", number(stats.calls));
  families.Gauge("shoal_relay_waiting", "Callers whose peer has not come yet.",
                 number(stats.waiting));
  families.Counter("shoal_relay_calls_total", "Connections that were passed on.",
                   number(stats.calls_total));
  families.Counter("shoal_relay_refused_total", "Calls and registrations that were refused.",
                   number(stats.refused_total));
  families.Counter("shoal_relay_punches_total",
                   "Pairs of peers that were told how to connect to each other.",
                   number(stats.punches_total));
  families.Counter("shoal_relay_bytes_total", "Bytes that were passed on, both ways.",
                   number(stats.bytes_total));
  return families.Text();
}

HttpResponse ServeRelay(const std::string& path, const RelayStats& stats,
                        const std::string& version) {
  if (path == "/") return {200, kPlain, Words(stats)};
  if (path == "/healthz") return {200, kPlain, "ok\n"};
  if (path == "/metrics") {
    return {200, "text/plain; version=0.0.4; charset=utf-8", RelayMetrics(stats, version)};
  }
  if (path == "/status" || path == "/api/v1/status") {
    return {200, "application/json", RelayStatusJson(stats, version)};
  }
  return {404, kPlain, "there is /, /api/v1/status, /metrics and /healthz\n"};
}

}  // namespace shoal::net
