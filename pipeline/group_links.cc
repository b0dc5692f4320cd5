#include "pipeline/group_links.h"

#include <utility>

namespace shoal::pipeline {
namespace {

// Messages that may come before the group's first operation begins.
constexpr std::size_t kHeldMax = 256;

}  // namespace

GroupLinks::GroupLinks(RunnerCore* core, std::vector<net::LinkTarget> targets,
                       std::function<void()> on_up)
    : core_(core), targets_(std::move(targets)), on_up_(std::move(on_up)) {
  links_.resize(targets_.size());
  is_open_.assign(targets_.size(), false);
}

std::string GroupLinks::Name(std::size_t member) const {
  return "peer " + targets_[member].peer.ToShort() + " (stage " +
         std::to_string(core_->config.stage) + " of pipeline " + std::to_string(member) + ")";
}

void GroupLinks::Open() {
  for (std::size_t member = 0; member < targets_.size(); ++member) {
    if (member != rank()) OpenTo(member);
  }
}

void GroupLinks::OpenTo(std::size_t member) {
  net::LinkHandlers handlers;
  handlers.on_open = [this, member] {
    is_open_[member] = true;
    ++open_;
    core_->Progress();
    if (up()) on_up_();
  };
  handlers.on_frame = [this, member](net::Frame frame) { OnFrame(member, std::move(frame)); };
  handlers.on_closed = [this, member](Status status) {
    if (status.ok()) status = Unavailable("it was closed");
    core_->fail(status.WithContext("the link to " + Name(member) + " broke"),
                &targets_[member].peer);
  };
  links_[member] = core_->OpenLink(targets_[member], rank() < member, std::move(handlers));
}

std::string GroupLinks::Missing() const {
  for (std::size_t member = 0; member < targets_.size(); ++member) {
    if (member != rank() && !is_open_[member]) return "the link to " + Name(member);
  }
  return "nothing";
}

std::vector<net::LinkStats> GroupLinks::link_stats() const {
  std::vector<net::LinkStats> stats;
  for (const std::unique_ptr<net::Link>& link : links_) {
    if (link != nullptr) stats.push_back(link->stats());
  }
  return stats;
}

Status GroupLinks::Send(std::size_t to, std::uint64_t tag, Buffer payload) {
  if (to >= links_.size() || links_[to] == nullptr) {
    return InvalidArgument("the stage group has no other member " + std::to_string(to));
  }
  core_->stats.replica.wire_sent += payload.size();
  net::Frame frame = core_->NewFrame(net::FrameKind::kGroup, {});
  frame.tag = tag;
  frame.payload = std::move(payload);
  return links_[to]->Send(std::move(frame)).WithContext("cannot send to " + Name(to));
}

void GroupLinks::SetReceiver(Receiver receiver) {
  receiver_ = std::move(receiver);
  if (!receiver_) return;
  for (Held& held : std::exchange(held_, {})) {
    receiver_(held.from, held.tag, std::move(held.payload));
  }
}

void GroupLinks::OnFrame(std::size_t from, net::Frame frame) {
  if (core_->scope.cancelled()) return;
  core_->Progress();
  Status status = core_->CheckFrame(frame);
  if (status.ok() && frame.kind != net::FrameKind::kGroup) {
    status = InvalidArgument("a frame of kind " +
                             std::to_string(static_cast<std::uint32_t>(frame.kind)) +
                             " does not belong on a link inside a stage group");
  }
  if (status.ok() && !receiver_ && held_.size() >= kHeldMax) {
    status = ResourceExhausted("too many messages before the group's first operation");
  }
  if (!status.ok()) {
    return core_->fail(status.WithContext("from " + Name(from)), &targets_[from].peer);
  }
  core_->stats.replica.wire_received += frame.payload.size();
  if (!receiver_) return held_.push_back({from, frame.tag, std::move(frame.payload)});
  receiver_(from, frame.tag, std::move(frame.payload));
}

EmbeddingLink::EmbeddingLink(RunnerCore* core, const net::LinkTarget& target,
                             std::function<void()> on_up)
    : core_(core), target_(target), on_up_(std::move(on_up)) {}

std::string EmbeddingLink::peer_name() const {
  return "peer " + target_.peer.ToShort() + " (the other end of the tied embedding)";
}

void EmbeddingLink::Open() {
  net::LinkHandlers handlers;
  handlers.on_open = [this] {
    open_ = true;
    core_->Progress();
    on_up_();
  };
  handlers.on_frame = [this](net::Frame frame) { OnFrame(std::move(frame)); };
  handlers.on_closed = [this](Status status) {
    if (status.ok()) status = Unavailable("it was closed");
    core_->fail(status.WithContext("the link to " + peer_name() + " broke"), &target_.peer);
  };
  link_ = core_->OpenLink(target_, core_->first_stage(), std::move(handlers));
}

void EmbeddingLink::Exchange(std::uint64_t step, Buffer own, std::function<void(Buffer)> done) {
  net::Frame frame = core_->NewFrame(net::FrameKind::kGroup, {step, 0});
  frame.payload = Buffer::CopyOf(own.bytes());
  core_->stats.replica.raw_sent += own.size();
  core_->stats.replica.wire_sent += own.size();
  step_ = step;
  own_ = std::make_shared<Buffer>(std::move(own));
  done_ = std::move(done);
  if (Status sent = link_->Send(std::move(frame)); !sent.ok()) {
    return core_->fail(sent.WithContext("cannot send to " + peer_name()), nullptr);
  }
  MaybeAdd();
}

void EmbeddingLink::OnFrame(net::Frame frame) {
  if (core_->scope.cancelled()) return;
  core_->Progress();
  Status status = core_->CheckFrame(frame);
  if (status.ok() && frame.kind != net::FrameKind::kGroup) {
    status = InvalidArgument("a frame of a kind that does not belong on this link");
  }
  if (status.ok() && theirs_ != nullptr) status = InvalidArgument("a second gradient in a step");
  if (!status.ok()) {
    return core_->fail(status.WithContext("from " + peer_name()), &target_.peer);
  }
  core_->stats.replica.raw_received += frame.payload.size();
  core_->stats.replica.wire_received += frame.payload.size();
  theirs_ = std::make_unique<net::Frame>(std::move(frame));
  MaybeAdd();
}

void EmbeddingLink::MaybeAdd() {
  if (own_ == nullptr || theirs_ == nullptr) return;
  if (theirs_->micro_batch.step != step_ || theirs_->payload.size() != own_->size()) {
    const Status status = InvalidArgument(
        "a gradient of " + std::to_string(theirs_->payload.size()) + " bytes of step " +
        std::to_string(theirs_->micro_batch.step) + " instead of " + std::to_string(own_->size()) +
        " bytes of step " + std::to_string(step_));
    return core_->fail(status.WithContext("from " + peer_name()), &target_.peer);
  }
  auto theirs = std::make_shared<Buffer>(std::move(theirs_->payload));
  theirs_.reset();
  // The first stage's part comes first on both ends, so that the sums have the same bits.
  auto first = core_->first_stage() ? std::exchange(own_, nullptr) : theirs;
  auto last = core_->first_stage() ? theirs : std::exchange(own_, nullptr);
  auto add = [first, last] {
    const std::span<float> into = first->floats();
    const std::span<const float> from = std::as_const(*last).floats();
    for (std::size_t i = 0; i < into.size(); ++i) into[i] += from[i];
    return std::move(*first);
  };
  core_->scope.Run(core_->deps.compute, "embedding.add", std::move(add),
                   [done = std::exchange(done_, nullptr)](Buffer sum) { done(std::move(sum)); });
}

}  // namespace shoal::pipeline
