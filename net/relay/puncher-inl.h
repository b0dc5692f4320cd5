// Puncher: one end of a punch (punch_rules.h). It connects to the relay, learns the other end's
// address there, and connects to that from the same local port, while it also listens there: of two
// ends that dial each other, either one's dialling may be what gets through. Two ports have one
// connection at most, so both ends have the same. Thread: the relay door's.

#ifndef SHOAL_NET_RELAY_PUNCHER_INL_H_
#define SHOAL_NET_RELAY_PUNCHER_INL_H_

#include <utility>  // Asio 1.74 forgets it in C++20 mode; must come first.

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <memory>
#include <string>

#include "common/status.h"
#include "net/relay/relay_message.h"

namespace shoal::net {

class Puncher : public std::enable_shared_from_this<Puncher> {
 public:
  using Tcp = boost::asio::ip::tcp;
  // Once, unless cancelled: the connection to the other end, or why there is none.
  using Done = std::function<void(Result<Tcp::socket>)>;

  Puncher(boost::asio::io_context* context, const Tcp::endpoint& relay, const RelaySession& session,
          Done done);

  void Start();
  void Cancel();

 private:
  using Error = boost::system::error_code;

  void Join();
  void ReadTarget();
  void TakeTarget(const std::string& address);
  void Listen();
  void Accept();
  void Connect();
  void Finish(Result<Tcp::socket> result);

  const Tcp::endpoint relay_end_;
  Done done_;
  std::string request_;
  std::string in_;
  std::array<char, 1024> chunk_{};
  Tcp::socket relay_;   // stays open, so that routers keep the port
  Tcp::socket socket_;  // the try under way
  Tcp::acceptor acceptor_;
  boost::asio::steady_timer deadline_;
  boost::asio::steady_timer next_;
  Tcp::endpoint target_;
  int tries_ = 0;
};

}  // namespace shoal::net

#endif  // SHOAL_NET_RELAY_PUNCHER_INL_H_
