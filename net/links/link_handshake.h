// LinkHandshake: how a link comes to be open. It has the phase, the attempts of the end that dials,
// the messages of the ends, and the errors where that fails. Pure.

#ifndef SHOAL_NET_LINKS_LINK_HANDSHAKE_H_
#define SHOAL_NET_LINKS_LINK_HANDSHAKE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "common/clock.h"
#include "common/status.h"
#include "net/links/chunk.h"
#include "net/links/link.h"

namespace shoal::net {

enum class LinkPhase { kConnecting, kGreeting, kOpen, kClosed };

// Whether a link in phase `from` may go to `to`.
bool MayFollow(LinkPhase from, LinkPhase to);

// Thread: one at a time.
class LinkHandshake {
 public:
  explicit LinkHandshake(LinkTarget target) : target_(std::move(target)) {}

  LinkPhase phase() const { return phase_; }
  bool open() const { return phase_ == LinkPhase::kOpen; }
  bool closed() const { return phase_ == LinkPhase::kClosed; }
  // The other end's, as dialled or accepted.
  const std::string& address() const { return address_; }

  // The number of a new attempt, by all addresses; nullopt: one goes on, or there is no address.
  std::optional<std::uint64_t> Dial();
  // Attempt `number` goes on, and nothing answers yet.
  bool Unanswered(std::uint64_t number) const;
  // Returns how long to wait before the next one.
  Duration AttemptFailed(const Status& why);

  // The dialled stream is there: Hello goes out.
  void Greet(std::string address) {
    Enter(LinkPhase::kGreeting);
    address_ = std::move(address);
  }
  bulk::v1::LinkHello Hello() const;
  // What an answer to the hello says; an error if the other end refuses.
  static Status CheckAnswer(const bulk::v1::ChunkHeader& answer);
  void Open() { Enter(LinkPhase::kOpen); }
  // By another address than before.
  void Reached(std::string address) { address_ = std::move(address); }
  void Close() { Enter(LinkPhase::kClosed); }

  // Why the link is not open by now. `lower`: this end dialled all the time.
  Status Late(bool lower) const;

 private:
  void Enter(LinkPhase phase);

  const LinkTarget target_;
  LinkPhase phase_ = LinkPhase::kConnecting;
  std::string address_;
  std::uint64_t attempts_ = 0;
  bool attempt_running_ = false;
  Status last_failure_;
};

}  // namespace shoal::net

#endif  // SHOAL_NET_LINKS_LINK_HANDSHAKE_H_
