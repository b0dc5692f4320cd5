// GroupChannel: ordered members of a stage group that send each other tagged messages.

#ifndef SHOAL_REPLICA_COLLECTIVE_GROUP_CHANNEL_H_
#define SHOAL_REPLICA_COLLECTIVE_GROUP_CHANNEL_H_

#include <cstddef>
#include <cstdint>
#include <functional>

#include "common/memory/buffer.h"
#include "common/status.h"

namespace shoal::collective {

// Thread: control.
class GroupChannel {
 public:
  using Receiver = std::function<void(std::size_t from, std::uint64_t tag, Buffer payload)>;

  virtual ~GroupChannel() = default;
  // Constant. Thread: any.
  virtual std::size_t size() const = 0;  // members
  virtual std::size_t rank() const = 0;  // own place in the order, the same list on all members

  // Queues a message to a member (not oneself). Order per pair is kept.
  virtual Status Send(std::size_t to, std::uint64_t tag, Buffer payload) = 0;
  // Messages that came before a receiver was set are delivered when it is. One receiver at a time.
  virtual void SetReceiver(Receiver receiver) = 0;
  // What a member sent cannot be right: whoever ends what follows names it. Comes before the error
  // that follows is told. Of oneself it says nothing.
  virtual void Blame(std::size_t from, const Status& status) {
    static_cast<void>(from), static_cast<void>(status);
  }
};

}  // namespace shoal::collective

#endif  // SHOAL_REPLICA_COLLECTIVE_GROUP_CHANNEL_H_
