// What the tests of net/ share: identities in a temporary folder, work on an executor, waiting.

#ifndef SHOAL_TESTS_UNIT_NET_NET_TEST_UTIL_H_
#define SHOAL_TESTS_UNIT_NET_NET_TEST_UTIL_H_

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>

#include "common/executor.h"
#include "net/identity/identity.h"
#include "net/identity/join_ticket.h"
#include "net/identity/tls.h"
#include "net/links/grpc_link_hub.h"
#include "tests/support/on_executor.h"
#include "tests/support/temporary_folder.h"

namespace shoal::net {

using test_support::RunOn;
using test_support::TemporaryFolder;
using test_support::WaitUntil;

inline std::shared_ptr<const Identity> MakeIdentity() {
  const TemporaryFolder folder;
  return LoadOrCreateIdentity(folder.path()).value();
}

inline constexpr char kJoinSecret[] = "00112233445566778899aabbccddeeff";

// Who has a ticket of kJoinSecret.
inline Admission InvitedTo(const PeerId& scheduler) {
  return [scheduler](const PeerId& key, std::string_view pem) {
    return CheckTicket(pem, key, *InviteKeyOf(kJoinSecret), scheduler);
  };
}

struct HubPeer {
  std::shared_ptr<const Identity> identity = MakeIdentity();
  std::shared_ptr<RateLimiter> upload = std::make_shared<RateLimiter>(&SystemClock());
  std::shared_ptr<RateLimiter> download = std::make_shared<RateLimiter>(&SystemClock());
  std::unique_ptr<LinkHub> hub;

  explicit HubPeer(Executor* executor, LinkLimits limits = {}) {
    LinkHubOptions options;
    options.listen = "127.0.0.1:0";
    options.identity = identity;
    options.limits = limits;
    options.upload = upload;
    options.download = download;
    hub = NewGrpcLinkHub(options, executor).value();
  }
  std::string address() const { return "127.0.0.1:" + std::to_string(hub->port()); }
};

}  // namespace shoal::net

#endif  // SHOAL_TESTS_UNIT_NET_NET_TEST_UTIL_H_
