// GroupLinks: the stage group's GroupChannel over one net::Link per other member.
//
// Members are ordered by pipeline; the lower pipeline dials. A message is a kGroup frame: tag and
// payload. Thread: control.

#ifndef SHOAL_PIPELINE_GROUP_LINKS_H_
#define SHOAL_PIPELINE_GROUP_LINKS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "collective/group_channel.h"
#include "pipeline/runner_core.h"

namespace shoal::pipeline {

class GroupLinks final : public collective::GroupChannel {
 public:
  // `targets` by pipeline; the own place is not used.
  GroupLinks(RunnerCore* core, std::vector<net::LinkTarget> targets, std::function<void()> on_up);

  void Open();
  bool up() const { return open_ + 1 == targets_.size(); }
  std::string Missing() const;  // names a member whose link is not open
  const PeerId& peer(std::size_t member) const { return targets_[member].peer; }
  std::string Name(std::size_t member) const;
  std::vector<net::LinkStats> link_stats() const;

  std::size_t size() const override { return targets_.size(); }
  std::size_t rank() const override { return core_->config.pipeline; }
  Status Send(std::size_t to, std::uint64_t tag, Buffer payload) override;
  void SetReceiver(Receiver receiver) override;

 private:
  struct Held {
    std::size_t from;
    std::uint64_t tag;
    Buffer payload;
  };
  void OpenTo(std::size_t member);
  void OnFrame(std::size_t from, net::Frame frame);

  RunnerCore* const core_;
  const std::vector<net::LinkTarget> targets_;
  const std::function<void()> on_up_;
  Receiver receiver_;
  std::vector<Held> held_;  // before there was a receiver
  std::size_t open_ = 0;
  std::vector<bool> is_open_;
  std::vector<std::unique_ptr<net::Link>> links_;  // last: their handlers use everything above
};

// EmbeddingLink: adds up the tied embedding's gradients of the two stages that hold it: those of
// the first plus those of the last, in this order on both ends. Thread: control.
class EmbeddingLink {
 public:
  EmbeddingLink(RunnerCore* core, const net::LinkTarget& target, std::function<void()> on_up);

  void Open();
  bool up() const { return open_; }
  bool waits() const { return own_ != nullptr; }  // an exchange runs
  const PeerId& peer() const { return target_.peer; }
  std::string peer_name() const;
  net::LinkStats link_stats() const { return link_->stats(); }

  // Sends `own` to the other end, and gives the sum with what comes from there to `done`.
  void Exchange(std::uint64_t step, Buffer own, std::function<void(Buffer)> done);

 private:
  void OnFrame(net::Frame frame);
  void MaybeAdd();

  RunnerCore* const core_;
  const net::LinkTarget target_;
  const std::function<void()> on_up_;
  bool open_ = false;
  std::uint64_t step_ = 0;       // of own_
  std::shared_ptr<Buffer> own_;  // null: no exchange is running
  std::function<void(Buffer)> done_;
  std::unique_ptr<net::Frame> theirs_;
  std::unique_ptr<net::Link> link_;  // last: its handlers use everything above
};

}  // namespace shoal::pipeline

#endif  // SHOAL_PIPELINE_GROUP_LINKS_H_
