#include "bench/packet_switch.h"

#include <arpa/inet.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <thread>
#include <utility>

#include "bench/delay_switch.h"
#include "common/units.h"

namespace shoal::bench {
namespace {

// struct virtio_net_hdr, as PACKET_VNET_HDR has it (linux/virtio_net.h is not C++).
constexpr std::size_t kVirtioHeaderBytes = 10;
constexpr std::size_t kFrameBytesMax = kVirtioHeaderBytes + ETH_HLEN + (64 << 10);
constexpr int kReceiveBufferBytes = 64 << 20;
constexpr int kSendBufferBytes = 256 << 20;
// Before what is due is looked at again.
constexpr int kFramesAtOnce = 64;

class Socket {
 public:
  explicit Socket(int fd) : fd_(fd) {}
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&&) = delete;
  ~Socket() {
    if (fd_ >= 0) ::close(fd_);
  }
  int fd() const { return fd_; }

 private:
  int fd_;
};

Status SetOption(int fd, int level, int option, int value, const char* name) {
  if (::setsockopt(fd, level, option, &value, sizeof(value)) == 0) return Status::Ok();
  return FromErrno(errno, std::string("set ") + name + " of a packet socket");
}

// A socket for all that arrives at a device, and by which frames leave it.
Result<Socket> OpenDevice(const std::string& name) {
  Socket socket(::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int fd = socket.fd();
  if (fd < 0) return FromErrno(errno, "open a packet socket (it takes root)");
  const std::array<std::pair<std::pair<int, int>, const char*>, 2> packet{
      {{{PACKET_VNET_HDR, 1}, "PACKET_VNET_HDR"},
       {{PACKET_IGNORE_OUTGOING, 1}, "PACKET_IGNORE_OUTGOING"}}};
  for (const auto& [option, label] : packet) {
    SHOAL_RETURN_IF_ERROR(SetOption(fd, SOL_PACKET, option.first, option.second, label));
  }
  SHOAL_RETURN_IF_ERROR(
      SetOption(fd, SOL_SOCKET, SO_RCVBUFFORCE, kReceiveBufferBytes, "SO_RCVBUFFORCE"));
  SHOAL_RETURN_IF_ERROR(
      SetOption(fd, SOL_SOCKET, SO_SNDBUFFORCE, kSendBufferBytes, "SO_SNDBUFFORCE"));
  sockaddr_ll address{};
  address.sll_family = AF_PACKET;
  address.sll_protocol = htons(ETH_P_ALL);
  address.sll_ifindex = static_cast<int>(::if_nametoindex(name.c_str()));
  if (address.sll_ifindex == 0) return FromErrno(errno, "find the device " + name);
  packet_mreq promiscuous{};
  promiscuous.mr_ifindex = address.sll_ifindex;
  promiscuous.mr_type = PACKET_MR_PROMISC;
  if (::setsockopt(fd, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &promiscuous, sizeof(promiscuous)) != 0 ||
      ::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    return FromErrno(errno, "listen at the device " + name);
  }
  return socket;
}

DelaySwitch::Address AddressAt(std::span<const std::byte, ETH_ALEN> bytes) {
  DelaySwitch::Address address = 0;
  for (const std::byte byte : bytes) address = address << 8 | std::to_integer<unsigned>(byte);
  return address;
}

// A device that goes away while frames are under way takes them with it.
bool IsGone(int error) { return error == ENETDOWN || error == ENXIO || error == ENODEV; }

// Waking up costs more than a frame does. So after each round comes a pause, and under load frames
// go in bunches. Frames that came during a pause count as come in its middle. Frames due in the
// first half of the next pause leave before it. So the delay is right on average.
constexpr Duration kPauseMax = std::chrono::microseconds(500);
constexpr int kPausesPerDelay = 40;

class PacketSwitch {
 public:
  PacketSwitch(std::vector<Socket> sockets, Duration delay)
      : sockets_(std::move(sockets)),
        pause_(std::min(kPauseMax, delay / kPausesPerDelay)),
        frames_(sockets_.size(), delay) {
    for (const Socket& socket : sockets_) polled_.push_back({socket.fd(), POLLIN, 0});
  }

  Status Run() {
    for (bool paused = false;;) {
      const bool came_before = Poll(Duration::zero());
      if (!came_before) {
        const std::optional<TimePoint> next = frames_.next();
        if (next) {
          Poll(std::max(*next - SystemClock().Now(), Duration::zero()));
        } else {
          Poll(std::nullopt);
        }
      }
      const TimePoint now = SystemClock().Now();
      SHOAL_ASSIGN_OR_RETURN(const bool all,
                             ReadAll(came_before && paused ? now - pause_ / 2 : now));
      SHOAL_RETURN_IF_ERROR(SendDue(now + pause_ / 2));
      paused = all;
      if (paused) std::this_thread::sleep_for(pause_);
    }
  }

 private:
  // Whether a frame came, or came before; waits for that, at most for `limit`.
  bool Poll(std::optional<Duration> limit) {
    timespec wait{};
    if (limit) {
      const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(*limit);
      wait.tv_sec = seconds.count();
      wait.tv_nsec = (*limit - seconds).count();
    }
    for (pollfd& one : polled_) one.revents = 0;
    return ::ppoll(polled_.data(), polled_.size(), limit ? &wait : nullptr, nullptr) > 0;
  }

  // Of what Poll found, come at `time`; whether that is all there was.
  Result<bool> ReadAll(TimePoint time) {
    bool all = true;
    for (std::size_t port = 0; port < polled_.size(); ++port) {
      if (polled_[port].revents == 0) continue;
      SHOAL_ASSIGN_OR_RETURN(const bool all_here, ReadPort(port, time));
      all = all && all_here;
    }
    return all;
  }

  Result<bool> ReadPort(std::size_t port, TimePoint time) {
    for (int i = 0; i < kFramesAtOnce; ++i) {
      const ssize_t size = ::recv(polled_[port].fd, scratch_.data(), scratch_.size(), 0);
      if (size < 0 && (errno == EAGAIN || errno == EINTR || IsGone(errno))) return true;
      if (size < 0) return FromErrno(errno, "receive a frame");
      const auto bytes = std::span<const std::byte>(scratch_).first(static_cast<std::size_t>(size));
      if (bytes.size() < kVirtioHeaderBytes + ETH_HLEN) continue;
      const auto header = bytes.subspan(kVirtioHeaderBytes);
      if (!frames_.Enter(port, AddressAt(header.subspan<ETH_ALEN, ETH_ALEN>()),
                         AddressAt(header.first<ETH_ALEN>()), bytes, time)) {
        return ResourceExhausted("more than " + FormatBytes(DelaySwitch::kBytesMax) +
                                 " are on the delayed lines; give a smaller delay or rate");
      }
    }
    return false;
  }

  Status SendDue(TimePoint now) {
    int error = 0;
    frames_.Leave(now, [&](std::size_t port, std::span<const std::byte> bytes) {
      if (::send(polled_[port].fd, bytes.data(), bytes.size(), 0) >= 0) return;
      // A full queue behind the device drops the frame; that is the router's right.
      if (errno != ENOBUFS && errno != EAGAIN && !IsGone(errno)) error = errno;
    });
    return error == 0 ? Status::Ok() : FromErrno(error, "send a frame");
  }

  const std::vector<Socket> sockets_;
  const Duration pause_;
  std::vector<pollfd> polled_;  // by port
  DelaySwitch frames_;
  std::array<std::byte, kFrameBytesMax> scratch_;
};

}  // namespace

Status RunPacketSwitch(const std::vector<std::string>& devices, Duration delay,
                       const std::function<void()>& ready) {
  // A wire does not wait for a processor. Without the right to it, the delay is less even.
  sched_param first{};
  first.sched_priority = 1;
  static_cast<void>(::sched_setscheduler(0, SCHED_FIFO, &first));
  ::prctl(PR_SET_TIMERSLACK, 1);
  std::vector<Socket> sockets;
  for (const std::string& device : devices) {
    SHOAL_ASSIGN_OR_RETURN(Socket socket, OpenDevice(device));
    sockets.push_back(std::move(socket));
  }
  const auto packets = std::make_unique<PacketSwitch>(std::move(sockets), delay);
  ready();
  return packets->Run();
}

}  // namespace shoal::bench
