// TrafficMeter: what members' heartbeats say of their traffic, as figures of the whole run: how
// many bytes went over the wire, and how many bits a value took since the last look.
// Thread: one at a time.

#ifndef SHOAL_SCHEDULER_TRACKING_TRAFFIC_METER_H_
#define SHOAL_SCHEDULER_TRACKING_TRAFFIC_METER_H_

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/ids.h"

namespace shoal::scheduler {

struct TrafficFigures {
  std::uint32_t peers = 0;  // connected
  double sent_bytes = 0;    // on links, headers included, since the meter began
  // Bits that a value took on the wire since the last look (fp32: 32); nothing: none was sent.
  std::optional<double> forward_bits, backward_bits, replica_bits;
};

struct MemberTraffic {
  PeerId peer;
  std::string status_json;  // its last heartbeat's; may be no JSON
};

class TrafficMeter {
 public:
  // Of a peer that was not there at the last look, or whose counters began anew, only later growth
  // counts.
  TrafficFigures Look(const std::vector<MemberTraffic>& connected);

 private:
  // Of one peer, as it says.
  struct Counters {
    double sent = 0;
    std::array<double, 3> wire{}, raw{};  // forward, backward, replica; payloads, and as fp32
  };
  static std::optional<Counters> Read(std::string_view status_json);

  std::map<PeerId, Counters> last_;
  double sent_bytes_ = 0;
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_TRACKING_TRAFFIC_METER_H_
