// ChannelMux: several GroupChannels over one, so that exchanges and rings share a group's links,
// also at the same time. Channel 0 sends what the group would send without a mux (docs/WIRE.md,
// "Messages inside a stage group": the tag).
//
// Order per pair is kept, also between channels. Random numbers of exchanges depend on seed and
// round only: those that share a group need different seeds. Thread: control.

#ifndef SHOAL_REPLICA_COLLECTIVE_CHANNEL_MUX_H_
#define SHOAL_REPLICA_COLLECTIVE_CHANNEL_MUX_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "common/status.h"
#include "replica/collective/group_channel.h"

namespace shoal::collective {

inline constexpr std::size_t kMuxChannelsMax = 256;
inline constexpr unsigned kMuxTagBits = 56;  // that are left of a tag; more is an error of Send

struct MuxLimits {
  // Of messages of one member that wait for their channel's first receiver, 256 more for each.
  std::size_t held_bytes = std::size_t{64} << 20;
};

class ChannelMux {
 public:
  // `channels`: 1 to 256, equal on all members. `on_error` is called once, when a message has no
  // channel here, or when more wait than the limits allow. As something is lost, nothing is
  // delivered from then on. It may destroy the mux. `group` outlives it and has no other user.
  ChannelMux(GroupChannel* group, std::size_t channels, std::function<void(Status)> on_error,
             MuxLimits limits = {});
  ~ChannelMux();
  ChannelMux(const ChannelMux&) = delete;
  ChannelMux& operator=(const ChannelMux&) = delete;

  std::size_t channels() const { return channels_.size(); }
  GroupChannel* channel(std::size_t number) const;  // lives as long as the mux

 private:
  class Channel;

  void OnMessage(std::size_t from, std::uint64_t tag, Buffer payload);
  bool MayHold(std::size_t from, std::size_t bytes);
  void Fail(std::size_t from, const Status& status);

  GroupChannel* const group_;
  const MuxLimits limits_;
  std::function<void(Status)> on_error_;  // null: was called
  std::vector<std::size_t> held_bytes_;   // by member
  std::vector<std::unique_ptr<Channel>> channels_;
};

}  // namespace shoal::collective

#endif  // SHOAL_REPLICA_COLLECTIVE_CHANNEL_MUX_H_
