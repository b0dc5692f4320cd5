#include "replica/collective/channel_mux.h"

#include <string>
#include <utility>

namespace shoal::collective {
namespace {

constexpr std::size_t kHeldMessageBytes = 256;  // what holding a message costs beside its bytes
constexpr std::uint64_t kTagMask = (std::uint64_t{1} << kMuxTagBits) - 1;

}  // namespace

class ChannelMux::Channel final : public GroupChannel {
 public:
  Channel(ChannelMux* mux, std::size_t number) : mux_(mux), number_(number) {}

  std::size_t size() const override { return mux_->group_->size(); }
  std::size_t rank() const override { return mux_->group_->rank(); }
  Status Send(std::size_t to, std::uint64_t tag, Buffer payload) override {
    if (tag > kTagMask) {
      return InvalidArgument("tag " + std::to_string(tag) +
                             " does not fit beside a channel's number; tags have 56 bits there");
    }
    return mux_->group_->Send(to, std::uint64_t{number_} << kMuxTagBits | tag, std::move(payload));
  }
  void Blame(std::size_t from, const Status& status) override { mux_->group_->Blame(from, status); }
  void SetReceiver(Receiver receiver) override {
    receiver_ = std::move(receiver);
    if (!receiver_) return;
    for (Held& held : std::exchange(held_, {})) {
      mux_->held_bytes_[held.from] -= held.payload.size() + kHeldMessageBytes;
      receiver_(held.from, held.tag, std::move(held.payload));
    }
  }
  void Deliver(std::size_t from, std::uint64_t tag, Buffer payload) {
    if (receiver_) return receiver_(from, tag, std::move(payload));
    if (!mux_->MayHold(from, payload.size() + kHeldMessageBytes)) {
      return mux_->Fail(from, ResourceExhausted("too many messages wait for channel " +
                                                std::to_string(number_) + " to be used here"));
    }
    held_.push_back({from, tag, std::move(payload)});
  }

 private:
  struct Held {
    std::size_t from;
    std::uint64_t tag;
    Buffer payload;
  };

  ChannelMux* const mux_;
  const std::size_t number_;
  Receiver receiver_;
  std::vector<Held> held_;  // before there was a receiver
};

ChannelMux::ChannelMux(GroupChannel* group, std::size_t channels,
                       std::function<void(Status)> on_error, MuxLimits limits)
    : group_(group), limits_(limits), on_error_(std::move(on_error)), held_bytes_(group->size()) {
  SHOAL_CHECK(channels > 0 && channels <= kMuxChannelsMax);
  for (std::size_t i = 0; i < channels; ++i)
    channels_.push_back(std::make_unique<Channel>(this, i));
  group_->SetReceiver([this](std::size_t from, std::uint64_t tag, Buffer payload) {
    OnMessage(from, tag, std::move(payload));
  });
}

ChannelMux::~ChannelMux() { group_->SetReceiver(nullptr); }

GroupChannel* ChannelMux::channel(std::size_t number) const {
  SHOAL_CHECK(number < channels_.size());
  return channels_[number].get();
}

void ChannelMux::OnMessage(std::size_t from, std::uint64_t tag, Buffer payload) {
  if (!on_error_) return;
  if (from >= held_bytes_.size()) return Fail(from, InvalidArgument("it is no member"));
  const std::uint64_t number = tag >> kMuxTagBits;
  if (number >= channels_.size()) {
    return Fail(from, InvalidArgument("it is for channel " + std::to_string(number) + " of " +
                                      std::to_string(channels_.size()) +
                                      "; are all members in the same plan?"));
  }
  channels_[number]->Deliver(from, tag & kTagMask, std::move(payload));
}

bool ChannelMux::MayHold(std::size_t from, std::size_t bytes) {
  if (bytes > limits_.held_bytes || held_bytes_[from] > limits_.held_bytes - bytes) return false;
  held_bytes_[from] += bytes;
  return true;
}

void ChannelMux::Fail(std::size_t from, const Status& status) {
  const auto on_error = std::exchange(on_error_, nullptr);
  if (on_error) {
    group_->Blame(from, status);
    on_error(
        status.WithContext("a message of member " + std::to_string(from) + " of the stage group"));
  }
}

}  // namespace shoal::collective
