// SubgroupChannel: some members of a group as a GroupChannel of their own. Who owns it delivers
// what comes from them.
//
// Internal to collective/. Thread: control.

#ifndef SHOAL_REPLICA_COLLECTIVE_SUBGROUP_CHANNEL_H_
#define SHOAL_REPLICA_COLLECTIVE_SUBGROUP_CHANNEL_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "replica/collective/group_channel.h"

namespace shoal::collective {

class SubgroupChannel final : public GroupChannel {
 public:
  // `members`: ranks in `group` (which outlives it), ascending, the own one among them.
  SubgroupChannel(GroupChannel* group, std::vector<std::size_t> members)
      : group_(group),
        members_(std::move(members)),
        rank_(static_cast<std::size_t>(std::find(members_.begin(), members_.end(), group->rank()) -
                                       members_.begin())) {
    SHOAL_CHECK(rank_ < members_.size());
  }

  const std::vector<std::size_t>& members() const { return members_; }

  std::size_t size() const override { return members_.size(); }
  std::size_t rank() const override { return rank_; }
  Status Send(std::size_t to, std::uint64_t tag, Buffer payload) override {
    return group_->Send(members_[to], tag, std::move(payload));
  }
  void Blame(std::size_t from, const Status& status) override {
    group_->Blame(members_[from], status);
  }
  void SetReceiver(Receiver receiver) override {
    receiver_ = std::move(receiver);
    if (!receiver_) return;
    for (Held& held : std::exchange(held_, {})) {
      receiver_(held.from, held.tag, std::move(held.payload));
    }
  }

  // What member `from` of the group sent; false if it is not in this part. Held until there is a
  // receiver, however much: the owner sets one before members can send much.
  bool Deliver(std::size_t from, std::uint64_t tag, Buffer* payload) {
    const auto at = std::find(members_.begin(), members_.end(), from);
    if (at == members_.end()) return false;
    const auto rank = static_cast<std::size_t>(at - members_.begin());
    if (receiver_) {
      receiver_(rank, tag, std::move(*payload));
    } else {
      held_.push_back({rank, tag, std::move(*payload)});
    }
    return true;
  }

 private:
  struct Held {
    std::size_t from;
    std::uint64_t tag;
    Buffer payload;
  };

  GroupChannel* const group_;
  const std::vector<std::size_t> members_;
  const std::size_t rank_;
  Receiver receiver_;
  std::vector<Held> held_;
};

}  // namespace shoal::collective

#endif  // SHOAL_REPLICA_COLLECTIVE_SUBGROUP_CHANNEL_H_
