#include "bench/delay_switch.h"

#include <cstring>
#include <utility>

namespace shoal::bench {
namespace {

// To more than one machine: the lowest bit of the first byte.
bool IsGroup(DelaySwitch::Address address) { return (address >> 40 & 1) != 0; }

}  // namespace

bool DelaySwitch::Enter(std::size_t port, Address from, Address to,
                        std::span<const std::byte> bytes, TimePoint now) {
  const auto sender = ports_of_.find(from);
  if (sender != ports_of_.end()) {
    sender->second = port;
  } else if (!IsGroup(from) && ports_of_.size() < kAddressesMax) {
    ports_of_.emplace(from, port);
  }
  std::optional<std::size_t> out;
  if (const auto receiver = ports_of_.find(to); receiver != ports_of_.end()) {
    out = receiver->second;
    if (*out == port) return true;  // it has got it already
  }
  if (bytes.size() > bytes_max_ - bytes_) return false;
  Frame frame{now + delay_, port, out, bytes.size(),
              std::make_unique_for_overwrite<std::byte[]>(bytes.size())};
  if (!bytes.empty()) std::memcpy(frame.bytes.get(), bytes.data(), bytes.size());
  frames_.push_back(std::move(frame));
  bytes_ += bytes.size();
  return true;
}

std::optional<TimePoint> DelaySwitch::next() const {
  if (frames_.empty()) return std::nullopt;
  return frames_.front().due;
}

void DelaySwitch::Leave(TimePoint now, const Send& send) {
  while (!frames_.empty() && frames_.front().due <= now) {
    const Frame& frame = frames_.front();
    const std::span<const std::byte> bytes(frame.bytes.get(), frame.size);
    for (std::size_t port = 0; port < ports_; ++port) {
      if (frame.out ? port == *frame.out : port != frame.in) send(port, bytes);
    }
    bytes_ -= frame.size;
    frames_.pop_front();
  }
}

}  // namespace shoal::bench
