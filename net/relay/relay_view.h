// What a relay shows of itself: JSON for programs, metrics for Prometheus, a line for people. Pure.

#ifndef SHOAL_NET_RELAY_RELAY_VIEW_H_
#define SHOAL_NET_RELAY_RELAY_VIEW_H_

#include <string>

#include "net/http/http_server.h"
#include "net/relay/relay_server.h"

namespace shoal::net {

std::string RelayStatusJson(const RelayStats& stats, const std::string& version);
std::string RelayMetrics(const RelayStats& stats, const std::string& version);
// /api/v1/status, /status, /metrics, /healthz, and / in words; everything else 404.
HttpResponse ServeRelay(const std::string& path, const RelayStats& stats,
                        const std::string& version);

}  // namespace shoal::net

#endif  // SHOAL_NET_RELAY_RELAY_VIEW_H_
