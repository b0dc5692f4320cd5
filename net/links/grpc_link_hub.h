// The LinkHub on gRPC.

#ifndef SHOAL_NET_LINKS_GRPC_LINK_HUB_H_
#define SHOAL_NET_LINKS_GRPC_LINK_HUB_H_

#include <memory>
#include <string>

#include "common/executor.h"
#include "common/status.h"
#include "net/admission/connection_book.h"
#include "net/identity/identity.h"
#include "net/identity/membership_check.h"
#include "net/links/link.h"
#include "net/pacing/rate_limiter.h"

namespace shoal::net {

struct LinkHubOptions {
  std::string listen = "0.0.0.0:0";  // host:port, port 0: any free one
  std::shared_ptr<const Identity> identity;
  LinkLimits limits;
  std::shared_ptr<RateLimiter> upload;  // never null
  std::shared_ptr<RateLimiter> download;
  bool pacing = true;     // find out what the line takes, and fill no queue with more
  bool low_water = true;  // read what comes by many packets at once, not by each
  // Ask the home's router to lead a port here, where `listen` is any address.
  bool map_port = false;
  ConnectionLimits connections{};
  std::shared_ptr<MembershipCheck> members;  // null: whoever the plan names may link
};

// Handlers run on `executor`, which must outlive the hub.
Result<std::unique_ptr<LinkHub>> NewGrpcLinkHub(const LinkHubOptions& options, Executor* executor);

}  // namespace shoal::net

#endif  // SHOAL_NET_LINKS_GRPC_LINK_HUB_H_
