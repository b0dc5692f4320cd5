// Lines: bulk transfers between machines that share their lines fairly, as flows of a fluid: each
// gets as much as the fullest line on its way allows (max-min). Beside steps they get what the
// peers' queues give them (net/links/send_queue.h). Thread: one.

#ifndef SHOAL_DAEMON_CHURN_LINES_H_
#define SHOAL_DAEMON_CHURN_LINES_H_

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "daemon/churn/events.h"

namespace shoal::daemon {

// Files queue beside activations: of a line's upload they get what steps leave, at least so much.
inline constexpr double kFileShare = 0.2;

enum class FlowKind : std::uint8_t { kFile, kState };

class Lines {
 public:
  using Node = std::uint32_t;
  using Flow = std::uint64_t;  // 0: none

  explicit Lines(EventQueue* events) : events_(*events) {}

  Node Add(double upload_bps, double download_bps);
  Flow Start(Node from, Node to, double bytes, FlowKind kind, std::function<void()> done);
  // Bytes that have not arrived.
  double Cancel(Flow flow);
  // What a node's steps take of its upload, on average.
  void Reserve(Node node, double upload_bps);
  // What state for shadows may take of its upload where steps do not leave more.
  void ShareState(Node node, double share);
  // Per cent of its upload that its steps have, in steps of five.
  std::uint32_t StepPercent(Node node) const;
  double RateOf(Flow flow) const { return flows_.at(flow).rate; }  // bits per second

 private:
  struct End {
    double upload_bps, download_bps, reserved_bps = 0, state_share = 0.5;
    std::uint32_t uploads = 0, downloads = 0, state_uploads = 0;
  };
  struct Transfer {
    Node from, to;
    double bits;
    FlowKind kind;
    double rate = 0;
    std::function<void()> done;
  };

  // A flow is there, or is gone.
  void Count(const Transfer& flow, int change);
  void Advance();
  void Share();
  void Expect();
  void Look();

  EventQueue& events_;
  std::vector<End> nodes_;
  std::map<Flow, Transfer> flows_;  // in order, so that a seed repeats
  Flow last_ = 0;
  TimePoint advanced_{};
  std::uint64_t expected_ = 0;  // version of what is expected next
};

}  // namespace shoal::daemon

#endif  // SHOAL_DAEMON_CHURN_LINES_H_
