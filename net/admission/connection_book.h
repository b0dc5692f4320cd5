// ConnectionBook: which accepted connections may stay, before anybody has said a word on them.
//
// Whoever connects is a stranger until a stream with an admitted key came over the connection
// (Prove). Strangers are limited in all and per line (tcp_endpoint.h), in number and in handshakes
// per second; lines that somebody was admitted from do not suffer from those of others.
// The stranger that waits longest makes room for a new one, so silent connections hold nobody up.

#ifndef SHOAL_NET_ADMISSION_CONNECTION_BOOK_H_
#define SHOAL_NET_ADMISSION_CONNECTION_BOOK_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "common/clock.h"
#include "common/ids.h"
#include "net/base/tcp_endpoint.h"

namespace shoal::net {

struct ConnectionLimits {
  std::size_t all = 0;        // 0: half of the descriptors that the process may have
  std::size_t strangers = 0;  // 0: a quarter of `all`, at most kStrangersMax
  std::size_t strangers_per_line = 64;
  // Handshakes that led to nothing: so many at once, and then so many per second, per line.
  double handshakes = 128;
  double handshakes_per_second = 16;
  // The same of all lines together from which nobody was admitted yet: a wrong ticket costs the
  // check of a signature, and strangers may have many addresses.
  double handshakes_of_all = 1024;
  double handshakes_of_all_per_second = 128;
  // From accept to the first stream.
  Duration proof_time = std::chrono::seconds(20);
  std::size_t per_key = 64;  // proven connections of one key: links, control, artefacts

  static constexpr std::size_t kStrangersMax = 512;
  static constexpr std::size_t kLinesMax = 4096;  // that are remembered
};

using ConnectionNumber = std::uint64_t;

// Thread: one at a time.
class ConnectionBook {
 public:
  explicit ConnectionBook(const ConnectionLimits& limits);

  struct Arrival {
    std::optional<ConnectionNumber> number;  // null: refused, close it
    std::optional<ConnectionNumber> ended;   // make this one end: it gives way
  };
  Arrival Arrive(const TcpEndpoint& other_end, TimePoint now);

  // A stream with an admitted key came over the connection from `other_end`. False: this key has
  // too many connections, or there is no such connection.
  bool Prove(const TcpEndpoint& other_end, const PeerId& key);
  // Connections that proved nothing in time: make them end.
  std::vector<ConnectionNumber> TakeOverdue(TimePoint now);
  // The connection's descriptor is closed.
  void Gone(ConnectionNumber number);

  std::size_t size() const { return connections_.size(); }
  std::size_t strangers() const { return strangers_.size(); }
  bool full() const { return size() >= limits_.all; }

 private:
  using Line = std::array<std::uint8_t, 16>;
  struct Connection {
    TcpEndpoint other_end;
    TimePoint since;
    std::optional<PeerId> key;
  };
  struct LineState {
    double handshakes = 0;  // that the line may still begin now
    TimePoint counted_at;
    std::size_t strangers = 0;
    std::size_t proven = 0;  // connections with an admitted key
    bool known = false;      // somebody was admitted from it
  };

  // Null: the line is new, and those that are not known may begin nothing now.
  LineState* StateOf(const Line& line, TimePoint now);
  // Whether a line, known or not, may begin one more handshake; takes it.
  bool TakeHandshake(LineState* state);
  void ForgetLines(TimePoint now);
  // The oldest stranger of `line`, or of the lines that have most of them; of lines from which
  // somebody was admitted only where there are no others.
  std::optional<ConnectionNumber> OldestStranger(const Line* line) const;
  void LeaveStrangers(ConnectionNumber number, const Connection& connection);

  const ConnectionLimits limits_;
  ConnectionNumber last_ = 0;
  double handshakes_of_all_ = 0;  // that lines which are not known may still begin
  TimePoint counted_at_{};
  std::map<ConnectionNumber, Connection> connections_;
  // Not proven and not told to end, oldest first.
  std::map<ConnectionNumber, Line> strangers_;
  std::map<TcpEndpoint, ConnectionNumber> by_end_;
  std::map<Line, LineState> lines_;
  std::map<PeerId, std::size_t> proven_;
};

}  // namespace shoal::net

#endif  // SHOAL_NET_ADMISSION_CONNECTION_BOOK_H_
