// A line with a length: carries Ethernet frames between two devices, both ways, each frame after a
// fixed delay. For tests and benches of slow links where the kernel has no netem.
//
//   delay_line DEVICE DEVICE ONE_WAY_MICROSECONDS
//
// It needs root (packet sockets) and belongs into the namespace that stands between two machines.
// Order is kept per direction, the rate is not limited, nothing is dropped here: what is too much
// for the device it leaves by is dropped by that device's queueing discipline, as in a router.
// Frames pass as the kernel has them, also larger than a packet and without finished checksums
// (the header of virtio-net tells), so a fast line costs little. Prints "ready", ends with its
// standard input.

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
#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <string_view>

namespace {

using Clock = std::chrono::steady_clock;

// struct virtio_net_hdr, as PACKET_VNET_HDR has it (linux/virtio_net.h is not C++).
constexpr std::size_t kVirtioHeaderBytes = 10;
constexpr std::size_t kFrameBytesMax = kVirtioHeaderBytes + ETH_HLEN + (64 << 10);
constexpr int kReceiveBufferBytes = 64 << 20;
constexpr int kSendBufferBytes = 256 << 20;
constexpr int kFramesAtOnce = 64;

[[noreturn]] void Die(const char* what) {
  std::fprintf(stderr, "delay_line: %s: %s\n", what, std::strerror(errno));
  std::exit(1);
}

void SetOption(int socket, int level, int option, int value, const char* name) {
  if (::setsockopt(socket, level, option, &value, sizeof(value)) != 0) Die(name);
}

// A socket for all that arrives at a device, and by which frames leave it.
int OpenDevice(const char* name) {
  const int fd = ::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) Die("no packet socket");
  SetOption(fd, SOL_PACKET, PACKET_VNET_HDR, 1, "PACKET_VNET_HDR");
  SetOption(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, 1, "PACKET_IGNORE_OUTGOING");
  SetOption(fd, SOL_SOCKET, SO_RCVBUFFORCE, kReceiveBufferBytes, "SO_RCVBUFFORCE");
  SetOption(fd, SOL_SOCKET, SO_SNDBUFFORCE, kSendBufferBytes, "SO_SNDBUFFORCE");
  sockaddr_ll address{};
  address.sll_family = AF_PACKET;
  address.sll_protocol = htons(ETH_P_ALL);
  address.sll_ifindex = static_cast<int>(::if_nametoindex(name));
  if (address.sll_ifindex == 0) Die(name);
  packet_mreq promiscuous{};
  promiscuous.mr_ifindex = address.sll_ifindex;
  promiscuous.mr_type = PACKET_MR_PROMISC;
  if (::setsockopt(fd, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &promiscuous, sizeof(promiscuous)) != 0) {
    Die("PACKET_ADD_MEMBERSHIP");
  }
  if (::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) Die(name);
  return fd;
}

class Direction {
 public:
  Direction(int from, int to, Clock::duration delay) : from_(from), to_(to), delay_(delay) {}

  void ReadWhatIsThere() {
    for (int i = 0; i < kFramesAtOnce; ++i) {
      const ssize_t size = ::recv(from_, scratch_.data(), scratch_.size(), 0);
      if (size < 0) {
        if (errno != EAGAIN && errno != EINTR && errno != ENETDOWN) Die("recv");
        return;
      }
      Frame frame{Clock::now() + delay_, static_cast<std::size_t>(size),
                  std::make_unique_for_overwrite<std::byte[]>(static_cast<std::size_t>(size))};
      std::memcpy(frame.bytes.get(), scratch_.data(), frame.size);
      frames_.push_back(std::move(frame));
    }
  }

  void SendWhatIsDue(Clock::time_point now) {
    while (!frames_.empty() && frames_.front().due <= now) {
      const Frame& frame = frames_.front();
      // A full queue behind the device drops the frame; that is the router's right.
      if (::send(to_, frame.bytes.get(), frame.size, 0) < 0 && errno != ENOBUFS &&
          errno != EAGAIN && errno != ENETDOWN) {
        Die("send");
      }
      frames_.pop_front();
    }
  }

  Clock::time_point next() const {
    return frames_.empty() ? Clock::time_point::max() : frames_.front().due;
  }

 private:
  struct Frame {
    Clock::time_point due;
    std::size_t size;
    std::unique_ptr<std::byte[]> bytes;
  };

  const int from_, to_;
  const Clock::duration delay_;
  std::array<std::byte, kFrameBytesMax> scratch_;
  std::deque<Frame> frames_;
};

void Carry(int a, int b, Clock::duration delay) {
  const auto there = std::make_unique<Direction>(a, b, delay);
  const auto back = std::make_unique<Direction>(b, a, delay);
  std::array<pollfd, 3> polled{{{a, POLLIN, 0}, {b, POLLIN, 0}, {STDIN_FILENO, POLLIN, 0}}};
  while (true) {
    const Clock::time_point next = std::min(there->next(), back->next());
    timespec wait{};
    const timespec* limit = nullptr;
    if (next != Clock::time_point::max()) {
      const auto left = std::max(next - Clock::now(), Clock::duration::zero());
      const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(left);
      wait.tv_sec = seconds.count();
      wait.tv_nsec = (left - seconds).count();
      limit = &wait;
    }
    if (::ppoll(polled.data(), polled.size(), limit, nullptr) < 0 && errno != EINTR) Die("ppoll");
    if (polled[0].revents != 0) there->ReadWhatIsThere();
    if (polled[1].revents != 0) back->ReadWhatIsThere();
    there->SendWhatIsDue(Clock::now());
    back->SendWhatIsDue(Clock::now());
    char ignored[64];
    if (polled[2].revents != 0 && ::read(STDIN_FILENO, ignored, sizeof(ignored)) <= 0) return;
  }
}

}  // namespace

int main(int argc, char** argv) {
  long microseconds = -1;
  if (argc == 4) {
    const std::string_view text = argv[3];
    if (std::from_chars(text.begin(), text.end(), microseconds).ptr != text.end()) {
      microseconds = -1;
    }
  }
  if (microseconds < 0) {
    std::fprintf(stderr, "usage: delay_line DEVICE DEVICE ONE_WAY_MICROSECONDS\n");
    return 2;
  }
  // A wire does not wait for a processor. Without the right to it, the delay is less even.
  sched_param first{};
  first.sched_priority = 1;
  static_cast<void>(::sched_setscheduler(0, SCHED_FIFO, &first));
  ::prctl(PR_SET_TIMERSLACK, 1);
  const int a = OpenDevice(argv[1]);
  const int b = OpenDevice(argv[2]);
  std::puts("ready");
  std::fflush(stdout);
  Carry(a, b, std::chrono::microseconds(microseconds));
  return 0;
}
