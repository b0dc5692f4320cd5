// RelayVisitor: a connection to a relay, from its first byte until it is spliced, refused or gone.
// It parses what comes, and knows no other visitor. Thread: the relay's.

#ifndef SHOAL_NET_RELAY_RELAY_VISITOR_INL_H_
#define SHOAL_NET_RELAY_RELAY_VISITOR_INL_H_

#include <utility>  // Asio 1.74 forgets it in C++20 mode; must come first.

#include <array>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>

#include "common/clock.h"
#include "common/ids.h"
#include "net/relay/relay_message.h"

namespace shoal::net {

class RelayVisitor : public std::enable_shared_from_this<RelayVisitor> {
 public:
  using Socket = boost::asio::ip::tcp::socket;
  // Until the first whole request, and of a registered peer between two messages.
  static constexpr std::chrono::seconds kPatience{20};
  static constexpr std::chrono::seconds kPeerSilence{60};

  // What the relay does. All calls may destroy the visitor's last other reference.
  class Owner {
   public:
    virtual ~Owner() = default;
    virtual void OnCall(const std::shared_ptr<RelayVisitor>& caller, const RelayCall& call) = 0;
    virtual void OnRegister(const std::shared_ptr<RelayVisitor>& peer, const PeerId& key) = 0;
    virtual void OnProof(const std::shared_ptr<RelayVisitor>& peer, const RelayProof& proof) = 0;
    virtual void OnJoin(const std::shared_ptr<RelayVisitor>& peer, const RelayJoin& join) = 0;
    virtual void OnDialBack(const std::shared_ptr<RelayVisitor>& peer, std::uint16_t port) = 0;
    virtual void OnPunch(const std::shared_ptr<RelayVisitor>& peer, const PeerId& other) = 0;
    virtual void OnPunchJoin(const std::shared_ptr<RelayVisitor>& peer,
                             const RelaySession& session) = 0;
    virtual void OnGone(RelayVisitor* visitor) = 0;
  };

  RelayVisitor(Socket socket, std::string address, Owner* owner);

  void Start();
  void Send(const RelayMessage& message);
  // The answer of HTTP that refuses a call, then the end.
  void RefuseCall(const Status& status);
  // A message that refuses, then the end.
  void Refuse(const Status& status);
  void Close();
  // The socket, for a splice, and what came on it behind the request. Nothing else happens with
  // the visitor afterwards.
  std::pair<Socket, std::string> TakeOver();

  // Its own words have been checked: from now on it may be silent as long as a peer may.
  void Settle();

  const std::string& address() const { return address_; }
  // Whether it speaks a version that has punches.
  bool punches() const { return punches_; }
  // Whom the connection is for, as the owner keeps it.
  PeerId key;
  RelayChallenge challenge;
  TimePoint dialled_back_at{};

 private:
  enum class Role { kFresh, kCaller, kPeer };

  void Read();
  void Look();
  // False: nothing more is to be done with what came.
  bool LookAtCall();
  bool LookAtMessage();
  void Handle(const RelayMessage& message);
  // False: it is none, or not to be said now.
  bool HandlePunch(const RelayMessage& message);
  void Write(std::string bytes);
  void WriteNext();
  void Watch(std::chrono::seconds patience);

  Socket socket_;
  const std::string address_;
  Owner* const owner_;
  boost::asio::steady_timer timer_;
  std::array<char, 2048> chunk_{};
  std::string in_;
  std::deque<std::string> out_;
  Role role_ = Role::kFresh;
  bool punches_ = false;
  bool settled_ = false;
  bool ending_ = false;  // after what is to be written
  bool taken_ = false;   // spliced or closed
};

}  // namespace shoal::net

#endif  // SHOAL_NET_RELAY_RELAY_VISITOR_INL_H_
