#include "replica/group_links.h"

#include <algorithm>
#include <utility>

#include "replica/state/state_message.h"

namespace shoal::replica {
namespace {

enum GroupNumber : std::uint32_t { kStageGroup, kSharedGroup, kSharedEnds, kStateGroup, kGroups };

// Messages that may come before a group's first operation begins.
constexpr std::size_t kHeldMax = 256;

}  // namespace

class GroupLinks::Group final : public collective::GroupChannel {
 public:
  // `peers`: place in peers_ of each member.
  Group(GroupLinks* links, std::uint32_t number, std::vector<std::size_t> peers, std::size_t rank)
      : links_(links), number_(number), peers_(std::move(peers)), rank_(rank) {}

  std::size_t size() const override { return peers_.size(); }
  std::size_t rank() const override { return rank_; }
  Status Send(std::size_t to, std::uint64_t tag, Buffer payload) override {
    SHOAL_ASSERT_ON(*links_->member_->control);
    if (to >= peers_.size() || to == rank_) {
      return InvalidArgument("the group has no other member " + std::to_string(to));
    }
    return links_->Send(peers_[to], number_, tag, std::move(payload));
  }
  void SetReceiver(Receiver receiver) override {
    SHOAL_ASSERT_ON(*links_->member_->control);
    receiver_ = std::move(receiver);
    if (!receiver_) return;
    for (Held& held : std::exchange(held_, {})) {
      receiver_(held.from, held.tag, std::move(held.payload));
    }
  }

  void Blame(std::size_t from, const Status& status) override {
    SHOAL_ASSERT_ON(*links_->member_->control);
    if (from < peers_.size() && from != rank_) links_->Blame(peers_[from], status);
  }

  std::size_t peer(std::size_t member) const {
    SHOAL_ASSERT_ON(*links_->member_->control);
    return peers_[member];
  }
  Status Receive(std::size_t peer, std::uint64_t tag, Buffer payload) {
    SHOAL_ASSERT_ON(*links_->member_->control);
    const auto found = std::find(peers_.begin(), peers_.end(), peer);
    if (found == peers_.end()) return InvalidArgument("a message of a group it is not in");
    const auto from = static_cast<std::size_t>(found - peers_.begin());
    // Of a stage's state only requests can come early.
    const bool large = number_ == kStateGroup && payload.size() > kStateHeaderBytes;
    if (!receiver_ && (held_.size() >= kHeldMax || large)) {
      return ResourceExhausted("too many messages before the group's first operation");
    }
    if (receiver_) {
      receiver_(from, tag, std::move(payload));
    } else {
      held_.push_back({from, tag, std::move(payload)});
    }
    return Status::Ok();
  }

 private:
  struct Held {
    std::size_t from;
    std::uint64_t tag;
    Buffer payload;
  };
  GroupLinks* const links_;
  const std::uint32_t number_;
  const std::vector<std::size_t> peers_;
  const std::size_t rank_;
  Receiver receiver_;
  std::vector<Held> held_;  // before there was a receiver
};

GroupLinks::GroupLinks(Member* member, const net::GenerationLinks& links,
                       const std::vector<net::LinkTarget>& stage_group,
                       const std::vector<net::LinkTarget>& shared, std::function<void()> on_up)
    : member_(member), links_(links), on_up_(std::move(on_up)) {
  const MemberConfig& config = member->config;
  for (std::uint32_t pipeline = 0; pipeline < config.pipelines; ++pipeline) {
    Peer peer;
    peer.stage = config.stage;
    peer.pipeline = pipeline;
    if (pipeline < stage_group.size()) peer.target = stage_group[pipeline];
    peers_.push_back(std::move(peer));
  }
  const std::size_t count = config.pipelines;
  std::vector<std::size_t> own(count), all, ends;
  for (std::size_t i = 0; i < count; ++i) own[i] = i;
  groups_.resize(kGroups);
  if (count > 1) {
    groups_[kStageGroup] = std::make_unique<Group>(this, kStageGroup, own, config.pipeline);
    groups_[kStateGroup] = std::make_unique<Group>(this, kStateGroup, own, config.pipeline);
  }
  SHOAL_CHECK(shared.size() == config.sharing.size() * count);
  std::size_t own_place = 0;  // of the own stage, among those that share
  for (std::size_t place = 0; place < config.sharing.size(); ++place) {
    const std::uint32_t stage = config.sharing[place];
    const std::size_t first = stage == config.stage ? 0 : peers_.size();
    if (stage == config.stage) own_place = place;
    for (std::uint32_t pipeline = 0; pipeline < count; ++pipeline) {
      all.push_back(first + pipeline);
      if (stage == config.stage) continue;
      Peer peer;
      peer.stage = stage;
      peer.pipeline = pipeline;
      peer.target = shared[place * count + pipeline];
      peers_.push_back(std::move(peer));
    }
    ends.push_back(first + config.pipeline);
  }
  for (Peer& peer : peers_) {
    if (Skipped(peer)) continue;
    peer.gone = peer.target.peer == PeerId{};
    links_wanted_ += peer.gone ? 0 : 1;
  }
  if (config.sharing.empty()) return;
  groups_[kSharedGroup] = std::make_unique<Group>(this, kSharedGroup, std::move(all),
                                                  own_place * count + config.pipeline);
  groups_[kSharedEnds] = std::make_unique<Group>(this, kSharedEnds, std::move(ends), own_place);
}

GroupLinks::~GroupLinks() = default;

collective::GroupChannel* GroupLinks::stage_group() const {
  SHOAL_ASSERT_ON(*member_->control);
  return groups_[kStageGroup].get();
}
collective::GroupChannel* GroupLinks::shared_group() const {
  SHOAL_ASSERT_ON(*member_->control);
  return groups_[kSharedGroup].get();
}
collective::GroupChannel* GroupLinks::shared_ends() const {
  SHOAL_ASSERT_ON(*member_->control);
  return groups_[kSharedEnds].get();
}

collective::GroupChannel* GroupLinks::state_group() const {
  SHOAL_ASSERT_ON(*member_->control);
  return groups_[kStateGroup].get();
}

bool GroupLinks::Skipped(const Peer& peer) const {
  return peer.stage == member_->config.stage && peer.pipeline == member_->config.pipeline;
}

std::string GroupLinks::Name(const Peer& peer) const {
  return "peer " + peer.target.peer.ToShort() + " (stage " + std::to_string(peer.stage) +
         " of pipeline " + std::to_string(peer.pipeline) + ")";
}

std::string GroupLinks::Name(const collective::GroupChannel& group, std::size_t member) const {
  SHOAL_ASSERT_ON(*member_->control);
  return Name(peers_[static_cast<const Group&>(group).peer(member)]);
}

const PeerId& GroupLinks::peer(const collective::GroupChannel& group, std::size_t member) const {
  SHOAL_ASSERT_ON(*member_->control);
  return peers_[static_cast<const Group&>(group).peer(member)].target.peer;
}

void GroupLinks::Open() {
  SHOAL_ASSERT_ON(*member_->control);
  for (Peer& peer : peers_) {
    if (!Skipped(peer) && !peer.gone) OpenTo(&peer);
  }
}

void GroupLinks::OpenTo(Peer* peer) {
  net::LinkHandlers handlers;
  handlers.on_open = [this, peer] {
    SHOAL_ASSERT_ON(*member_->control);
    peer->open = true;
    ++open_;
    member_->progress();
    if (up()) on_up_();
  };
  handlers.on_frame = [this, peer](net::Frame frame) { OnFrame(peer, std::move(frame)); };
  handlers.on_closed = [this, peer](Status status) { OnClosed(peer, std::move(status)); };
  const MemberConfig& own = member_->config;
  const bool lower = std::pair(own.stage, own.pipeline) < std::pair(peer->stage, peer->pipeline);
  peer->link = links_.Open(peer->target, lower, std::move(handlers));
}

void GroupLinks::OnClosed(Peer* peer, Status status) {
  SHOAL_ASSERT_ON(*member_->control);
  if (peer->gone) return;
  if (status.ok()) status = Unavailable("it was closed");
  status = std::move(status).WithContext("the link to " + Name(*peer) + " broke");
  if (member_->lost(status, peer->target.peer)) {
    peer->gone = true;
    return;
  }
  member_->fail(status, &peer->target.peer);
}

void GroupLinks::Leave(std::uint32_t pipeline, std::uint32_t stage) {
  SHOAL_ASSERT_ON(*member_->control);
  for (Peer& peer : peers_) {
    if (peer.pipeline != pipeline || peer.stage != stage || Skipped(peer)) continue;
    peer.gone = true;
    peer.link.reset();
  }
}

std::string GroupLinks::Missing(const PeerId** peer) const {
  SHOAL_ASSERT_ON(*member_->control);
  for (const Peer& candidate : peers_) {
    if (Skipped(candidate) || candidate.open || candidate.gone) continue;
    *peer = &candidate.target.peer;
    return "the link to " + Name(candidate);
  }
  return "nothing";
}

std::vector<net::LinkStats> GroupLinks::link_stats() const {
  SHOAL_ASSERT_ON(*member_->control);
  std::vector<net::LinkStats> stats;
  for (const Peer& peer : peers_) {
    if (peer.link != nullptr) stats.push_back(peer.link->stats());
  }
  return stats;
}

Status GroupLinks::Send(std::size_t peer, std::uint32_t group, std::uint64_t tag, Buffer payload) {
  if (peers_[peer].gone) return Status::Ok();
  if (peers_[peer].link == nullptr) return FailedPrecondition("the group's links are not open");
  if (group != kStateGroup) member_->stats.replica.wire_sent += payload.size();
  const auto kind = group == kStateGroup ? net::FrameKind::kState : net::FrameKind::kGroup;
  net::Frame frame = links_.NewFrame(kind, {0, group});
  frame.tag = tag;
  frame.payload = std::move(payload);
  Status sent = peers_[peer].link->Send(std::move(frame));
  // A link that is closed says so itself, and why.
  if (sent.code() == StatusCode::kUnavailable) return Status::Ok();
  return std::move(sent).WithContext("cannot send to " + Name(peers_[peer]));
}

void GroupLinks::OnFrame(Peer* from, net::Frame frame) {
  SHOAL_ASSERT_ON(*member_->control);
  if (member_->ended() || from->gone) return;
  member_->progress();
  Status status = links_.CheckFrame(frame);
  const std::uint32_t number = frame.micro_batch.index;
  const bool state = frame.kind == net::FrameKind::kState;
  if (status.ok() && (state ? number != kStateGroup : frame.kind != net::FrameKind::kGroup)) {
    status = InvalidArgument("a frame of kind " +
                             std::to_string(static_cast<std::uint32_t>(frame.kind)) +
                             " does not belong on a link inside a group");
  }
  if (status.ok() && (number >= groups_.size() || groups_[number] == nullptr)) {
    status = InvalidArgument("a message of group " + std::to_string(number) +
                             ", which this stage does not have");
  }
  if (status.ok()) {
    if (!state) member_->stats.replica.wire_received += frame.payload.size();
    status = groups_[number]->Receive(static_cast<std::size_t>(from - peers_.data()), frame.tag,
                                      std::move(frame.payload));
  }
  if (!status.ok()) Blame(static_cast<std::size_t>(from - peers_.data()), status);
}

void GroupLinks::Blame(std::size_t peer, const Status& status) {
  const Peer& from = peers_[peer];
  member_->fail(Status(status).WithContext("from " + Name(from)), &from.target.peer);
}

}  // namespace shoal::replica
