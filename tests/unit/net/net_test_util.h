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
#include "net/grpc_link_hub.h"
#include "net/identity.h"
#include "tests/support/temporary_folder.h"

namespace shoal::net {

using test_support::TemporaryFolder;

inline std::shared_ptr<const Identity> MakeIdentity() {
  const TemporaryFolder folder;
  return LoadOrCreateIdentity(folder.path()).value();
}

// Runs `task` on the executor and returns what it returns.
template <typename Task>
auto RunOn(Executor* executor, Task task) {
  using Value = decltype(task());
  std::packaged_task<Value()> packaged(std::move(task));
  auto future = packaged.get_future();
  executor->Post("test", [&packaged] { packaged(); });
  return future.get();
}

// Asks on the executor until it holds; false after a time that no healthy machine needs.
inline bool WaitUntil(Executor* executor, const std::function<bool()>& holds) {
  for (int i = 0; i < 12000; ++i) {
    if (RunOn(executor, holds)) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return false;
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
