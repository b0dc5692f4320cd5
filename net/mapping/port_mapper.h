// PortMapper: asks the home's router to lead a port from outside here (NAT-PMP, RFC 6886; else
// UPnP IGD), renews that, and takes it back at the end. Where no router answers, it asks again
// later: routers come and go.

#ifndef SHOAL_NET_MAPPING_PORT_MAPPER_H_
#define SHOAL_NET_MAPPING_PORT_MAPPER_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

namespace shoal::net {

struct PortMapping {
  std::string address;  // host:port from outside; empty: none
  std::string how;      // "NAT-PMP" or "UPnP"
  std::string trouble;  // why there is none; empty: not asked yet, or there is one
};

class PortMapper {
 public:
  static constexpr std::chrono::seconds kLease{3600};
  static constexpr std::chrono::seconds kRenewAfter{1800};
  static constexpr std::chrono::seconds kAskAgain{300};        // where there was none
  static constexpr std::chrono::seconds kAskChanged{10};       // at least, between two requests
  static constexpr std::chrono::milliseconds kPatience{1500};  // of each way to ask

  virtual ~PortMapper() = default;          // takes the mapping back; up to some seconds
  virtual PortMapping mapping() const = 0;  // Thread: any.
  // There may be another router: asks soon. Thread: any.
  virtual void NetworkChanged() = 0;
};

// For TCP `port` of this machine. Asks on a thread of its own, which may block.
std::unique_ptr<PortMapper> NewPortMapper(std::uint16_t port);

}  // namespace shoal::net

#endif  // SHOAL_NET_MAPPING_PORT_MAPPER_H_
