#include "daemon/churn/lines.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace shoal::daemon {
namespace {

constexpr double kBitsLeft = 1e-3;  // rounding of times

}  // namespace

Lines::Node Lines::Add(double upload_bps, double download_bps) {
  nodes_.push_back({upload_bps, download_bps});
  return static_cast<Node>(nodes_.size() - 1);
}

Lines::Flow Lines::Start(Node from, Node to, double bytes, std::function<void()> done) {
  Advance();
  flows_[++last_] = {from, to, bytes * 8, 0, std::move(done)};
  ++nodes_[from].uploads;
  ++nodes_[to].downloads;
  Share();
  return last_;
}

double Lines::Cancel(Flow flow) {
  const auto found = flows_.find(flow);
  if (found == flows_.end()) return 0;
  Advance();
  const double left = std::max(found->second.bits, 0.0) / 8;
  --nodes_[found->second.from].uploads;
  --nodes_[found->second.to].downloads;
  flows_.erase(found);
  Share();
  return left;
}

void Lines::Reserve(Node node, double upload_bps) {
  if (nodes_[node].reserved_bps == upload_bps) return;
  nodes_[node].reserved_bps = upload_bps;
  if (nodes_[node].uploads == 0) return;
  Advance();
  Share();
}

void Lines::Advance() {
  const double seconds = Seconds(events_.now() - advanced_);
  advanced_ = events_.now();
  for (auto& [id, flow] : flows_) flow.bits -= flow.rate * seconds;
}

// Fills the fullest line, fixes the flows on it, and goes on with what the others have left.
void Lines::Share() {
  struct Left {
    double upload, download;
    std::uint32_t uploads, downloads;
  };
  std::vector<Left> left;
  for (const End& end : nodes_) {
    const double upload = std::max(end.upload_bps - end.reserved_bps, kBulkShare * end.upload_bps);
    left.push_back({upload, end.download_bps, end.uploads, end.downloads});
  }
  std::vector<Transfer*> open;
  for (auto& [id, flow] : flows_) open.push_back(&flow);
  while (!open.empty()) {
    const auto fair = [&left](const Transfer& flow) {
      return std::min(left[flow.from].upload / left[flow.from].uploads,
                      left[flow.to].download / left[flow.to].downloads);
    };
    double least = std::numeric_limits<double>::max();
    for (const Transfer* flow : open) least = std::min(least, fair(*flow));
    std::vector<Transfer*> later, now;
    for (Transfer* flow : open) {
      (fair(*flow) <= least * (1 + 1e-12) ? now : later).push_back(flow);
    }
    for (Transfer* flow : now) {
      flow->rate = least;
      left[flow->from].upload -= least;
      left[flow->to].download -= least;
      --left[flow->from].uploads;
      --left[flow->to].downloads;
    }
    open = std::move(later);
  }
  Expect();
}

void Lines::Expect() {
  ++expected_;
  double soonest = std::numeric_limits<double>::max();
  for (const auto& [id, flow] : flows_) {
    soonest = std::min(soonest, std::max(flow.bits, 0.0) / flow.rate);
  }
  if (flows_.empty()) return;
  events_.After(FromSeconds(soonest) + Duration(1), [this, expected = expected_] {
    if (expected == expected_) Look();
  });
}

void Lines::Look() {
  Advance();
  std::vector<std::function<void()>> done;
  for (auto flow = flows_.begin(); flow != flows_.end();) {
    if (flow->second.bits > kBitsLeft) {
      ++flow;
      continue;
    }
    done.push_back(std::move(flow->second.done));
    --nodes_[flow->second.from].uploads;
    --nodes_[flow->second.to].downloads;
    flow = flows_.erase(flow);
  }
  Share();
  for (const auto& run : done) run();
}

}  // namespace shoal::daemon
