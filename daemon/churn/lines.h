// Lines: bulk transfers between machines that share their lines fairly, as flows of a fluid: each
// gets as much as the fullest line on its way allows (max-min). Traffic of steps goes first, as in
// the peers' queues; what a step leaves, and at least a fifth, carries bulk. Thread: one.

#ifndef SHOAL_DAEMON_CHURN_LINES_H_
#define SHOAL_DAEMON_CHURN_LINES_H_

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "daemon/churn/events.h"

namespace shoal::daemon {

// Of a line's upload, what bulk gets while a step could use all of it: artefacts queue beside
// activations, behind gradients.
inline constexpr double kBulkShare = 0.2;

class Lines {
 public:
  using Node = std::uint32_t;
  using Flow = std::uint64_t;  // 0: none

  explicit Lines(EventQueue* events) : events_(*events) {}

  Node Add(double upload_bps, double download_bps);
  Flow Start(Node from, Node to, double bytes, std::function<void()> done);
  // Bytes that have not arrived.
  double Cancel(Flow flow);
  // What a node's steps take of its upload, on average.
  void Reserve(Node node, double upload_bps);
  double RateOf(Flow flow) const { return flows_.at(flow).rate; }  // bits per second
  bool Uploads(Node node) const { return nodes_[node].uploads > 0; }

 private:
  struct End {
    double upload_bps, download_bps, reserved_bps = 0;
    std::uint32_t uploads = 0, downloads = 0;
  };
  struct Transfer {
    Node from, to;
    double bits;
    double rate = 0;
    std::function<void()> done;
  };

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
