// What the tests of net/ share: identities in a temporary folder, work on an executor, waiting.

#ifndef SHOAL_TESTS_UNIT_NET_NET_TEST_UTIL_H_
#define SHOAL_TESTS_UNIT_NET_NET_TEST_UTIL_H_

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

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

inline constexpr RunId kLinkRun{0x1234};

// One end of a link, and what it was told.
struct LinkEnd {
  std::unique_ptr<Link> link;
  bool open = false;
  std::optional<Status> closed;
  int closed_calls = 0;
  std::vector<Frame> frames;
  std::vector<FrameKind> sent;

  LinkHandlers Handlers() {
    LinkHandlers handlers;
    handlers.on_open = [this] { open = true; };
    handlers.on_frame = [this](Frame frame) { frames.push_back(std::move(frame)); };
    handlers.on_closed = [this](Status status) {
      closed = std::move(status);
      ++closed_calls;
    };
    handlers.on_sent = [this](FrameKind kind, MicroBatchId, double elapsed_ms) {
      EXPECT_GE(elapsed_ms, 0);
      sent.push_back(kind);
    };
    return handlers;
  }
};

inline Frame PatternFrame(std::size_t bytes, std::uint32_t index) {
  Frame frame;
  frame.kind = FrameKind::kActivation;
  frame.run = kLinkRun;
  frame.generation = 1;
  frame.micro_batch = {5, index};
  frame.payload = Buffer(bytes);
  for (std::size_t i = 0; i < bytes; ++i) {
    frame.payload.data()[i] = static_cast<std::byte>((i * 31 + index) >> 3);
  }
  return frame;
}

inline LinkTarget TargetOfHub(const HubPeer& peer, std::vector<std::string> addresses) {
  LinkTarget target;
  target.peer = peer.identity->id;
  target.addresses = std::move(addresses);
  target.run = kLinkRun;
  target.generation = 1;
  target.channel = "boundary/0/1";
  return target;
}

}  // namespace shoal::net

#endif  // SHOAL_TESTS_UNIT_NET_NET_TEST_UTIL_H_
