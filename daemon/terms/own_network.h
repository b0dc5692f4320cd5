// OwnNetwork: by which addresses others reach this machine, what of them the scheduler was told,
// and when the machine gets into another network.

#ifndef SHOAL_DAEMON_TERMS_OWN_NETWORK_H_
#define SHOAL_DAEMON_TERMS_OWN_NETWORK_H_

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace shoal::daemon {

// Thread: one at a time.
class OwnNetwork {
 public:
  // net::FindLocalAddresses; nullopt: the system does not tell.
  using Find = std::function<std::optional<std::vector<std::string>>()>;

  // `advertised`: what the owner says of the addresses; empty: those that are found. `find` null:
  // there are none, and the network never changes.
  OwnNetwork(std::vector<std::string> advertised, Find find)
      : advertised_(std::move(advertised)), find_(std::move(find)) {}

  // For a hello: at most 16, those of relays last, of which none is left out.
  const std::vector<std::string>& Tell(const std::vector<std::string>& relays);
  // For a heartbeat: the same, if others were told before; else null.
  const std::vector<std::string>* TellNew(const std::vector<std::string>& relays);

  struct Change {
    std::vector<std::string> lost;  // addresses that the machine has no more
  };
  // Nullopt: the addresses are those of the call before.
  std::optional<Change> Look();

 private:
  const std::vector<std::string> advertised_;
  const Find find_;
  std::vector<std::string> told_;
  std::vector<std::string> seen_;
};

}  // namespace shoal::daemon

#endif  // SHOAL_DAEMON_TERMS_OWN_NETWORK_H_
