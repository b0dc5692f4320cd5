// SimNetwork: net::LinkHubs whose links deliver through a SimWorld, with latency, bandwidth, loss,
// forgery and death chosen by the test.

#ifndef SHOAL_TESTS_SUPPORT_SIM_LINKS_H_
#define SHOAL_TESTS_SUPPORT_SIM_LINKS_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "net/links/link.h"
#include "tests/support/sim_executor.h"

namespace shoal::test_support {

class SimNetwork {
 public:
  struct Options {
    std::function<Duration()> latency;  // per frame; order per direction is kept
    double bytes_per_second = 0;        // per direction of a link; 0: no limit
    // Instead, where it is not null: of what a peer sends over a link; 0: no limit.
    std::function<double(const PeerId& from)> rate = nullptr;
  };
  // Sees every frame before it travels, and may change it; returns how often it arrives.
  using Tap = std::function<int(const PeerId& from, const PeerId& to, net::Frame* frame)>;

  SimNetwork(SimWorld* world, Options options) : world_(world), options_(std::move(options)) {}

  std::unique_ptr<net::LinkHub> NewHub(const PeerId& self, Executor* executor);
  // Every link of `peer` breaks.
  void Kill(const PeerId& peer);
  Tap tap;

  struct End;
  using Key = std::tuple<std::uint64_t, std::uint64_t, std::string, PeerId, PeerId>;
  // For the links.
  std::unique_ptr<net::Link> Connect(const PeerId& self, Executor* executor,
                                     const net::LinkTarget& target, net::LinkHandlers handlers);
  Status Send(End* from, net::Frame frame);
  void Leave(const std::shared_ptr<End>& end);

 private:
  void Deliver(const std::shared_ptr<End>& to, TimePoint when, net::Frame frame);

  SimWorld* const world_;
  const Options options_;
  std::map<Key, std::shared_ptr<End>> waiting_;
  std::vector<std::weak_ptr<End>> ends_;
};

}  // namespace shoal::test_support

#endif  // SHOAL_TESTS_SUPPORT_SIM_LINKS_H_
