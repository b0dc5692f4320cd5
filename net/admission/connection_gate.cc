#include "net/admission/connection_gate.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "common/log.h"
#include "common/trace.h"
#include "net/base/host_port.h"

namespace shoal::net {
namespace {

constexpr int kBacklog = 512;
constexpr int kAcceptsInARow = 64;  // then the others that wait are looked at
constexpr Duration kSweepInterval = std::chrono::seconds(1);
// Where the book is full, those who left are looked for sooner, but not for each newcomer.
constexpr Duration kSweepIntervalFull = std::chrono::milliseconds(50);
constexpr int kSweepMs = 1000;
constexpr int kNoDescriptorMs = 100;
// What was sent and nobody acknowledges ends the connection, as gRPC's keepalive does.
constexpr int kUserTimeoutMs = 20'000;

// The number of the socket behind a descriptor; a descriptor that was closed, and is used for
// another socket since, has another one.
std::optional<std::uint64_t> InodeOf(int fd) {
  struct stat info {};
  if (::fstat(fd, &info) != 0) return std::nullopt;
  return info.st_ino;
}

template <typename Value>
bool Set(int fd, int level, int option, Value value) {
  return ::setsockopt(fd, level, option, &value, sizeof(value)) == 0;
}

// gRPC relies on O_NONBLOCK without setting it: else its threads wait for this one connection.
void SetUpForGrpc(int fd) {
  const int flags = ::fcntl(fd, F_GETFL);
  if (flags >= 0) (void)::fcntl(fd, F_SETFL, flags | O_NONBLOCK);
  Set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  Set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, kUserTimeoutMs);
}

// Nullopt with errno set: not possible.
std::optional<int> ListenerFor(const sockaddr* address, socklen_t size, bool both) {
  const int fd = ::socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return std::nullopt;
  bool good = Set(fd, SOL_SOCKET, SO_REUSEADDR, 1);
  if (address->sa_family == AF_INET6)
    good = good && Set(fd, IPPROTO_IPV6, IPV6_V6ONLY, both ? 0 : 1);
  if (good && ::bind(fd, address, size) == 0 && ::listen(fd, kBacklog) == 0) return fd;
  const int error = errno;
  ::close(fd);
  errno = error;
  return std::nullopt;
}

std::uint16_t PortOf(int fd) {
  sockaddr_storage storage{};
  socklen_t size = sizeof(storage);
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&storage), &size) != 0) return 0;
  return ntohs(storage.ss_family == AF_INET
                   ? reinterpret_cast<const sockaddr_in&>(storage).sin_port
                   : reinterpret_cast<const sockaddr_in6&>(storage).sin6_port);
}

std::optional<int> ListenOnAll(std::uint16_t port) {
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  v6.sin6_port = htons(port);
  if (const auto fd = ListenerFor(reinterpret_cast<sockaddr*>(&v6), sizeof(v6), true)) return fd;
  if (errno == EADDRINUSE) return std::nullopt;
  sockaddr_in v4{};  // a machine without IPv6
  v4.sin_family = AF_INET;
  v4.sin_port = htons(port);
  return ListenerFor(reinterpret_cast<sockaddr*>(&v4), sizeof(v4), false);
}

std::string WhyNot(int error) {
  if (error == EADDRINUSE) {
    return "the port is in use; choose another host:port, or stop the program that holds it";
  }
  if (error == EADDRNOTAVAIL) return "the address is not of this machine; choose another host:port";
  if (error == EACCES) return "this user may not use the port; choose another host:port";
  return std::string(std::strerror(error)) + "; choose another host:port";
}

}  // namespace

Result<std::shared_ptr<ConnectionGate>> ConnectionGate::Listen(const std::string& listen,
                                                               const ConnectionLimits& limits) {
  std::shared_ptr<ConnectionGate> gate(new ConnectionGate(limits));
  SHOAL_RETURN_IF_ERROR(gate->Bind(listen));
  gate->wake_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (gate->wake_ < 0) return FromErrno(errno, "listen on " + listen);
  return gate;
}

ConnectionGate::~ConnectionGate() {
  Close();
  if (wake_ >= 0) ::close(wake_);
}

Status ConnectionGate::Bind(const std::string& listen) {
  const auto failed = [&listen](const std::string& why) {
    return Unavailable("cannot listen on " + listen + ": " + why);
  };
  SHOAL_ASSIGN_OR_RETURN(const HostPort wanted, ParseHostPort(listen));
  port_ = wanted.port;
  if (wanted.host == "0.0.0.0" || wanted.host == "::") {
    const auto fd = ListenOnAll(port_);
    if (!fd) return failed(WhyNot(errno));
    listeners_.push_back(*fd);
    port_ = PortOf(*fd);
    return Status::Ok();
  }
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  if (const int error = ::getaddrinfo(wanted.host.c_str(), nullptr, &hints, &found); error != 0) {
    return failed(std::string(::gai_strerror(error)) + "; choose another host:port");
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, &::freeaddrinfo);
  int error = EADDRNOTAVAIL;
  for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
    if (each->ai_family == AF_INET) {
      reinterpret_cast<sockaddr_in*>(each->ai_addr)->sin_port = htons(port_);
    } else if (each->ai_family == AF_INET6) {
      reinterpret_cast<sockaddr_in6*>(each->ai_addr)->sin6_port = htons(port_);
    }
    if (const auto fd = ListenerFor(each->ai_addr, each->ai_addrlen, false)) {
      listeners_.push_back(*fd);
      port_ = PortOf(*fd);
    } else {
      error = errno;
    }
  }
  return listeners_.empty() ? failed(WhyNot(error)) : Status::Ok();
}

void ConnectionGate::Open(std::function<void(int fd)> take) {
  SHOAL_CHECK(!thread_.joinable());
  take_ = std::move(take);
  {
    MutexLock lock(mutex_);
    open_ = true;
  }
  thread_ = std::thread([this] {
    SetThreadName("gate");
    Loop();
  });
}

void ConnectionGate::Close() {
  {
    MutexLock lock(mutex_);
    open_ = false;
  }
  if (thread_.joinable()) {
    Wake();
    thread_.join();
  }
  for (const int fd : std::exchange(listeners_, {})) ::close(fd);
}

void ConnectionGate::Wake() const {
  const std::uint64_t one = 1;
  (void)!::write(wake_, &one, sizeof(one));
}

void ConnectionGate::Loop() {
  bool descriptors = true;
  for (;;) {
    std::vector<pollfd> polled = {{wake_, POLLIN, 0}};
    if (descriptors) {
      for (const int fd : listeners_) polled.push_back({fd, POLLIN, 0});
    }
    const bool idle = count().all == 0;
    const int wait = !descriptors ? kNoDescriptorMs : (idle ? -1 : kSweepMs);
    (void)::poll(polled.data(), polled.size(), wait);
    if (polled[0].revents != 0) {
      std::uint64_t times = 0;
      (void)!::read(wake_, &times, sizeof(times));
      MutexLock lock(mutex_);
      if (!open_) return;
    }
    descriptors = true;
    for (std::size_t i = 1; i < polled.size(); ++i) {
      if (polled[i].revents != 0) descriptors = AcceptFrom(polled[i].fd) && descriptors;
    }
    const TimePoint now = SystemClock().Now();
    MutexLock lock(mutex_);
    if (now - swept_at_ >= kSweepInterval) Sweep(now);
  }
}

bool ConnectionGate::AcceptFrom(int listener) {
  for (int i = 0; i < kAcceptsInARow; ++i) {
    const int fd = ::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0) {
      Admit(fd, false);
    } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
      SHOAL_LOG(kWarning, "net", "gate.no_descriptor", {"error", std::strerror(errno)});
      return false;
    } else if (errno != ECONNABORTED && errno != EINTR) {
      return true;  // nobody waits any more
    }
  }
  return true;
}

void ConnectionGate::TakePunched(int fd) {
  Admit(fd, true);
  Wake();
}

void ConnectionGate::Admit(int fd, bool punched) {
  const auto other_end = OtherEndOf(fd);
  const auto inode = InodeOf(fd);
  bool admitted = false;
  if (other_end && inode) {
    const TimePoint now = SystemClock().Now();
    MutexLock lock(mutex_);
    const bool open = !punched || open_;
    if (book_.full() && now - swept_at_ >= kSweepIntervalFull) Sweep(now);
    const ConnectionBook::Arrival arrival =
        open ? book_.Arrive(*other_end, now) : ConnectionBook::Arrival();
    if (arrival.ended) End(*arrival.ended);
    if (arrival.number) {
      sockets_[*arrival.number] = {fd, *inode, false,
                                   punched ? other_end : std::optional<TcpEndpoint>()};
      admitted = true;
    }
  }
  if (!admitted) {
    ::close(fd);
    return;
  }
  SetUpForGrpc(fd);
  take_(fd);
}

void ConnectionGate::TakeRelayed(int fd) {
  const auto relay = OtherEndOf(fd);
  const auto inode = InodeOf(fd);
  bool taken = false;
  {
    MutexLock lock(mutex_);
    SweepRelayed();
    taken = open_ && relay && inode && relayed_.size() < kRelayedMax;
    if (taken) relayed_.push_back({*relay, {fd, *inode, false}});
  }
  if (!taken) {
    ::close(fd);
    return;
  }
  SetUpForGrpc(fd);
  take_(fd);
}

void ConnectionGate::SweepRelayed() {
  std::erase_if(relayed_,
                [](const Relayed& each) { return InodeOf(each.socket.fd) != each.socket.inode; });
}

bool ConnectionGate::IsRelayed(const std::string& other_end) const {
  const auto endpoint = ParseTcpEndpoint(other_end);
  MutexLock lock(mutex_);
  return std::any_of(relayed_.begin(), relayed_.end(),
                     [&endpoint](const Relayed& each) { return each.relay == endpoint; });
}

bool ConnectionGate::IsPunched(const std::string& other_end) const {
  const auto endpoint = ParseTcpEndpoint(other_end);
  MutexLock lock(mutex_);
  return endpoint && std::any_of(sockets_.begin(), sockets_.end(), [&endpoint](const auto& each) {
           return each.second.punched_to == endpoint;
         });
}

void ConnectionGate::Sweep(TimePoint now) {
  swept_at_ = now;
  SweepRelayed();
  for (auto each = sockets_.begin(); each != sockets_.end();) {
    if (InodeOf(each->second.fd) == each->second.inode) {
      ++each;
    } else {
      book_.Gone(each->first);
      each = sockets_.erase(each);
    }
  }
  for (const ConnectionNumber number : book_.TakeOverdue(now)) sockets_.at(number).ending = true;
  for (const auto& [number, socket] : sockets_) {
    if (socket.ending) End(number);
  }
}

// The descriptor is gRPC's, which may close it at any moment. So a copy is shut down, and only if
// it is still the same socket. gRPC then finds the connection ended. Done again until it has.
void ConnectionGate::End(ConnectionNumber number) {
  Socket& socket = sockets_.at(number);
  socket.ending = true;
  const int copy = ::fcntl(socket.fd, F_DUPFD_CLOEXEC, 0);
  if (copy < 0) return;
  if (InodeOf(copy) == socket.inode) ::shutdown(copy, SHUT_RDWR);
  ::close(copy);
}

bool ConnectionGate::Prove(const std::string& other_end, const PeerId& key) {
  const auto endpoint = ParseTcpEndpoint(other_end);
  if (!endpoint) return false;
  // The relay bounds them per key.
  if (IsRelayed(other_end)) return true;
  MutexLock lock(mutex_);
  return book_.Prove(*endpoint, key);
}

ConnectionGate::Count ConnectionGate::count() const {
  MutexLock lock(mutex_);
  return {book_.size(), book_.strangers()};
}

}  // namespace shoal::net
