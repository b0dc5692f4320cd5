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

void Lines::Count(const Transfer& flow, int change) {
  const auto by = static_cast<std::uint32_t>(change);  // -1 wraps, as sums do
  nodes_[flow.from].uploads += by;
  nodes_[flow.to].downloads += by;
  if (flow.kind == FlowKind::kState) nodes_[flow.from].state_uploads += by;
}

Lines::Flow Lines::Start(Node from, Node to, double bytes, FlowKind kind,
                         std::function<void()> done) {
  Advance();
  flows_[++last_] = {from, to, bytes * 8, kind, 0, std::move(done)};
  Count(flows_[last_], 1);
  Share();
  return last_;
}

double Lines::Cancel(Flow flow) {
  const auto found = flows_.find(flow);
  if (found == flows_.end()) return 0;
  Advance();
  const double left = std::max(found->second.bits, 0.0) / 8;
  Count(found->second, -1);
  flows_.erase(found);
  Share();
  return left;
}

void Lines::Reserve(Node node, double upload_bps) {
  End& end = nodes_[node];
  if (end.reserved_bps == upload_bps) return;
  end.reserved_bps = upload_bps;
  if (end.uploads == 0) return;
  Advance();
  Share();
}

void Lines::ShareState(Node node, double share) {
  nodes_[node].state_share = share;
  if (nodes_[node].state_uploads == 0) return;
  Advance();
  Share();
}

std::uint32_t Lines::StepPercent(Node node) const {
  const End& end = nodes_[node];
  if (end.uploads == 0) return 100;
  if (end.state_uploads == 0) return static_cast<std::uint32_t>(100 * (1 - kFileShare) + 0.5);
  double rates = 0;
  for (const auto& [id, flow] : flows_) rates += flow.from == node ? flow.rate : 0;
  const double left = std::max(1 - rates / end.upload_bps, 1 - end.state_share);
  return static_cast<std::uint32_t>(20 * left + 0.5) * 5;
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
    const double share = end.state_uploads > 0 ? end.state_share : kFileShare;
    const double upload = std::max(end.upload_bps - end.reserved_bps, share * end.upload_bps);
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
    Count(flow->second, -1);
    flow = flows_.erase(flow);
  }
  Share();
  for (const auto& run : done) run();
}

}  // namespace shoal::daemon
