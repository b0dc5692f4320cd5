// ConnectionGate: a listening port of shoal, in front of gRPC's TLS.
//
// gRPC 1.51 accepts without bound, and stops accepting for good where descriptors run out. So shoal
// accepts itself, on one thread. It keeps the book of who may stay (connection_book.h) and hands
// those sockets to gRPC. gRPC does not tell when it closes a socket. So each descriptor is looked
// at once a second; it is gone if it is no longer the same socket.

#ifndef SHOAL_NET_ADMISSION_CONNECTION_GATE_H_
#define SHOAL_NET_ADMISSION_CONNECTION_GATE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "common/ids.h"
#include "common/mutex.h"
#include "common/status.h"
#include "net/admission/connection_book.h"

namespace shoal::net {

class ConnectionGate {
 public:
  // Binds host:port, port 0: any free one; every address of a name, and IPv4 and IPv6 for
  // 0.0.0.0 or [::]. Nobody is accepted before Open.
  static Result<std::shared_ptr<ConnectionGate>> Listen(const std::string& listen,
                                                        const ConnectionLimits& limits);
  ~ConnectionGate();

  // `take` owns each descriptor it gets; called on the gate's thread.
  void Open(std::function<void(int fd)> take);
  // No `take` any more; the port is closed.
  void Close();

  std::uint16_t port() const { return port_; }
  // A connection that was made from here, to a relay, on which somebody else calls. Owns `fd`. How
  // many there are the relay bounds; here they are at most kRelayedMax. Thread: any; not while
  // Close runs, or after it.
  void TakeRelayed(int fd);
  static constexpr std::size_t kRelayedMax = 1024;
  // Whether `other_end` is that of such a connection: a relay. Thread: any.
  bool IsRelayed(const std::string& other_end) const;
  // A connection that the other end and this one made to each other, on which the other calls. Owns
  // `fd`. What holds for accepted ones holds for it. Thread: as TakeRelayed.
  void TakePunched(int fd);
  // Whether `other_end` is that of such a connection. Thread: any.
  bool IsPunched(const std::string& other_end) const;

  // A stream with an admitted key came from `other_end` ("127.0.0.1:80"). False: it has too many
  // connections, and this one ends. Thread: any.
  bool Prove(const std::string& other_end, const PeerId& key);

  struct Count {
    std::size_t all = 0;
    std::size_t strangers = 0;
  };
  Count count() const;  // Thread: any.

 private:
  struct Socket {
    int fd = -1;
    std::uint64_t inode = 0;
    bool ending = false;
    std::optional<TcpEndpoint> punched_to{};  // nullopt: it was accepted
  };

  explicit ConnectionGate(const ConnectionLimits& limits) : book_(limits) {}
  Status Bind(const std::string& listen);
  void Wake() const;
  void Loop();
  // False: no descriptor is free.
  bool AcceptFrom(int listener);
  void Admit(int fd, bool punched);
  void Sweep(TimePoint now) SHOAL_REQUIRES(mutex_);
  void SweepRelayed() SHOAL_REQUIRES(mutex_);
  void End(ConnectionNumber number) SHOAL_REQUIRES(mutex_);

  std::vector<int> listeners_;
  std::uint16_t port_ = 0;
  int wake_ = -1;  // the loop looks whether it is over, and at connections that came otherwise
  std::function<void(int)> take_;
  std::thread thread_;
  TimePoint swept_at_{};  // the gate's thread only

  mutable Mutex mutex_;
  ConnectionBook book_ SHOAL_GUARDED_BY(mutex_);
  std::map<ConnectionNumber, Socket> sockets_ SHOAL_GUARDED_BY(mutex_);
  struct Relayed {
    TcpEndpoint relay;
    Socket socket;
  };
  // Not in the book: they share one other end, by which gRPC names them, so that nobody can tell
  // which of them proved a key.
  std::vector<Relayed> relayed_ SHOAL_GUARDED_BY(mutex_);
  bool open_ SHOAL_GUARDED_BY(mutex_) = false;
};

}  // namespace shoal::net

#endif  // SHOAL_NET_ADMISSION_CONNECTION_GATE_H_
