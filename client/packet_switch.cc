#include "client/packet_switch.h"

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
#include <span>
#include <utility>

#include "client/delay_switch.h"

namespace shoal::client {
namespace {

// struct virtio_net_hdr, as PACKET_VNET_HDR has it (linux/virtio_net.h is not C++).
constexpr std::size_t kVirtioHeaderBytes = 10;
constexpr std::size_t kFrameBytesMax = kVirtioHeaderBytes + ETH_HLEN + (64 << 10);
constexpr int kReceiveBufferBytes = 64 << 20;
constexpr int kSendBufferBytes = 256 << 20;
// Before what is due is looked at again.
constexpr int kFramesAtOnce = 64;

using Scratch = std::array<std::byte, kFrameBytesMax>;

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

Status ReadFrames(int fd, std::size_t port, Scratch* scratch, DelaySwitch* frames) {
  for (int i = 0; i < kFramesAtOnce; ++i) {
    const ssize_t size = ::recv(fd, scratch->data(), scratch->size(), 0);
    if (size < 0 && (errno == EAGAIN || errno == EINTR || IsGone(errno))) return Status::Ok();
    if (size < 0) return FromErrno(errno, "receive a frame");
    const auto bytes = std::span<const std::byte>(*scratch).first(static_cast<std::size_t>(size));
    if (bytes.size() < kVirtioHeaderBytes + ETH_HLEN) continue;
    const auto header = bytes.subspan(kVirtioHeaderBytes);
    if (!frames->Enter(port, AddressAt(header.subspan<ETH_ALEN, ETH_ALEN>()),
                       AddressAt(header.first<ETH_ALEN>()), bytes, SystemClock().Now())) {
      return ResourceExhausted("more than " + std::to_string(DelaySwitch::kBytesMax >> 20) +
                               " MiB are on the delayed lines; give a smaller delay or rate");
    }
  }
  return Status::Ok();
}

Status SendDue(const std::vector<Socket>& sockets, DelaySwitch* frames) {
  int error = 0;
  frames->Leave(SystemClock().Now(), [&](std::size_t port, std::span<const std::byte> bytes) {
    if (::send(sockets[port].fd(), bytes.data(), bytes.size(), 0) >= 0) return;
    // A full queue behind the device drops the frame; that is the router's right.
    if (errno != ENOBUFS && errno != EAGAIN && !IsGone(errno)) error = errno;
  });
  return error == 0 ? Status::Ok() : FromErrno(error, "send a frame");
}

// Until a frame comes, or the next one is due.
void Wait(std::optional<TimePoint> next, std::vector<pollfd>* polled) {
  timespec wait{};
  if (next) {
    const Duration left = std::max(*next - SystemClock().Now(), Duration::zero());
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(left);
    wait.tv_sec = seconds.count();
    wait.tv_nsec = (left - seconds).count();
  }
  for (pollfd& one : *polled) one.revents = 0;
  static_cast<void>(::ppoll(polled->data(), polled->size(), next ? &wait : nullptr, nullptr));
}

}  // namespace

Status RunPacketSwitch(const std::vector<std::string>& devices, Duration delay,
                       const std::function<void()>& ready) {
  // A wire does not wait for a processor. Without the right to it, the delay is less even.
  sched_param first{};
  first.sched_priority = 1;
  static_cast<void>(::sched_setscheduler(0, SCHED_FIFO, &first));
  ::prctl(PR_SET_TIMERSLACK, 1);
  std::vector<Socket> sockets;
  std::vector<pollfd> polled;
  for (const std::string& device : devices) {
    SHOAL_ASSIGN_OR_RETURN(Socket socket, OpenDevice(device));
    polled.push_back({socket.fd(), POLLIN, 0});
    sockets.push_back(std::move(socket));
  }
  const auto scratch = std::make_unique<Scratch>();
  DelaySwitch frames(devices.size(), delay);
  ready();
  while (true) {
    Wait(frames.next(), &polled);
    for (std::size_t port = 0; port < polled.size(); ++port) {
      if (polled[port].revents == 0) continue;
      SHOAL_RETURN_IF_ERROR(ReadFrames(sockets[port].fd(), port, scratch.get(), &frames));
    }
    SHOAL_RETURN_IF_ERROR(SendDue(sockets, &frames));
  }
}

}  // namespace shoal::client
