// EarlyMessages: messages of rounds that this member has not begun, held within a limit per member.
// Internal to collective/. Pure. Thread: any, one at a time.

#ifndef SHOAL_REPLICA_COLLECTIVE_DIRECT_EARLY_MESSAGES_H_
#define SHOAL_REPLICA_COLLECTIVE_DIRECT_EARLY_MESSAGES_H_

#include <algorithm>
#include <cstddef>
#include <deque>
#include <utility>
#include <vector>

#include "common/memory/buffer.h"

namespace shoal::collective {

class EarlyMessages {
 public:
  struct Message {
    std::size_t from;
    Buffer bytes;
  };

  // `bytes_max`: held of one member at most, with kMessageBytes for each message.
  explicit EarlyMessages(std::size_t bytes_max) : bytes_max_(bytes_max) {}

  // False: the member is at its limit; nothing is held then.
  [[nodiscard]] bool Hold(std::size_t from, Buffer message) {
    if (bytes_.size() <= from) bytes_.resize(from + 1);
    const std::size_t bytes = message.size() + kMessageBytes;
    if (bytes > bytes_max_ - std::min(bytes_[from], bytes_max_)) return false;
    bytes_[from] += bytes;
    messages_.push_back({from, std::move(message)});
    return true;
  }
  // All, in the order in which they came; none are held then.
  std::deque<Message> TakeAll() {
    bytes_.clear();
    return std::exchange(messages_, {});
  }

 private:
  static constexpr std::size_t kMessageBytes = 256;  // what holding one costs beside its bytes

  std::size_t bytes_max_;
  std::deque<Message> messages_;
  std::vector<std::size_t> bytes_;  // by member
};

}  // namespace shoal::collective

#endif  // SHOAL_REPLICA_COLLECTIVE_DIRECT_EARLY_MESSAGES_H_
