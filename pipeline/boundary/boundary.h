// Boundary: one end of the link between two neighbouring stages. It has the link-up with its
// exchange of inventories, a direction out and one in, this end's records of the delta store, and
// evictions.
//
// The lower stage's end sends activations and receives gradients, the upper stage's end the
// reverse. A neighbour may be a step ahead: its frames wait, a bounded number of them.
// Thread: control.

#ifndef SHOAL_PIPELINE_BOUNDARY_BOUNDARY_H_
#define SHOAL_PIPELINE_BOUNDARY_BOUNDARY_H_

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pipeline/boundary/activation_link.h"
#include "pipeline/boundary/boundary_cache.h"
#include "pipeline/boundary/boundary_receiver.h"
#include "pipeline/boundary/boundary_sender.h"
#include "pipeline/boundary/evaluation_link.h"
#include "pipeline/boundary/link_memory.h"

namespace shoal::pipeline {

enum class BoundaryState : std::uint8_t {
  kNew,
  kOpening,   // the link
  kMatching,  // waits for both inventories
  kAgreeing,  // the store forgets what only one end has
  kUp,        // waits for the first step
  kStepping,  // a step runs or has run
};
enum class BoundaryEvent : std::uint8_t { kOpen, kLinkOpen, kInventories, kAgreed, kStep };
std::string_view BoundaryStateName(BoundaryState state);
// The state after `event`, or nothing where the event is out of place.
std::optional<BoundaryState> NextState(BoundaryState state, BoundaryEvent event);

// What the boundaries of a peer carry. Constant for a generation.
struct BoundaryConfig {
  RunId run;
  std::uint32_t stage = 0, stages = 1;
  std::uint64_t seed = 0;
  std::uint64_t first_step = 0;
  bool extends = false;  // a running step may get more micro-batches
  std::uint32_t micro_batch_rows = 1;
  compression::SampleShape sample;
  std::uint64_t segment_bytes_min = 0, prefetch_bytes = 0;
  bool spot_checks = false;                            // the run has some
  std::shared_ptr<const compression::ValueHome> home;  // of values at this end
  std::shared_ptr<const compression::MessageCodec> forward_codec, backward_codec;

  // Of the boundary behind `lower_stage`.
  DirectionConfig Forward(std::uint32_t lower_stage) const;
  DirectionConfig Backward(std::uint32_t lower_stage) const;
};

class Boundary {
 public:
  struct Handlers {
    std::function<void()> on_up;    // link open, inventories agreed
    std::function<void()> on_data;  // in() or evaluation() may have changed
    // A frame of `kind` took `elapsed_ms` on the wire alone.
    std::function<void(net::FrameKind, double elapsed_ms)> on_sent;
  };

  Boundary(BoundaryConfig config, const TransferResources& transfers,
           const BoundaryCache::Resources& caches, storage::BoundarySide side,
           const net::LinkTarget& target, Handlers handlers);

  // Dials or waits. The store has been rolled back before (calls to it are in order).
  void Open();
  bool up() const {
    SHOAL_ASSERT_ON(generation_->control());
    return state_ == BoundaryState::kUp || state_ == BoundaryState::kStepping;
  }
  const PeerId& peer() const {
    SHOAL_ASSERT_ON(generation_->control());
    return target_.peer;
  }
  std::string peer_name() const;
  // What has not happened yet during link-up.
  std::string Missing() const;

  // A step that will start later: its m may be read.
  void PlanPrefetch(const StepPlan& plan);
  // A step that will start later, or runs, has these micro-batches, of which it had the first ones.
  void ExtendPlan(const StepPlan& plan);
  // The same of the running step: they are sent and received, too.
  void ExtendStep(const StepPlan& plan);
  // Failed precondition before up(); other errors are those of the directions.
  Status StartStep(const StepPlan& plan);
  BoundarySender& out() {
    SHOAL_ASSERT_ON(generation_->control());
    return *out_;
  }
  BoundaryReceiver& in() {
    SHOAL_ASSERT_ON(generation_->control());
    return *in_;
  }
  EvaluationLink& evaluation() {
    SHOAL_ASSERT_ON(generation_->control());
    return evaluation_;
  }

  // The step's m' do not count.
  void DropStaged();
  // Staged m' become m, staged residuals what the next visits add, the link's newest memory what
  // counts; `done` with the checksum of each boundary end committed. Returns how many these are, 0
  // to 2: m of each direction, or residuals.
  std::size_t Commit(std::uint64_t step, const std::function<void(BoundaryChecksum)>& done);

  // Goes on with what an earlier generation kept of this end; before the first step.
  void GoOnFrom(const KeptMemories& kept);
  // As of the last Commit.
  void Keep(KeptMemories* kept);

  net::LinkStats link_stats() const {
    SHOAL_ASSERT_ON(generation_->control());
    return link_->stats();
  }
  const BoundaryStats& stats() const {
    SHOAL_ASSERT_ON(generation_->control());
    return seen_;
  }

 private:
  bool sender() const { return side_ == storage::BoundarySide::kSender; }
  // Whose m an inventory or losses are of: the tag of their frames.
  enum Direction : std::size_t { kForward = 0, kBackward = 1 };
  // m of a direction at this end, and what link-up has of it until both ends agree.
  struct SharedM {
    std::unique_ptr<BoundaryCache> cache;  // null if the codec keeps no m
    std::optional<BoundaryCache::Inventory> own, theirs;
  };

  void MakeCaches(const BoundaryCache::Resources& resources);
  BoundaryReceiver::Handlers ReceiverHandlers();
  // All caches of this end, in the order of BoundarySide.
  void EachCache(const std::function<void(BoundaryCache*)>& use) const;
  // The m of the direction that a frame of inventories or losses is about.
  Result<Direction> DirectionOf(const net::Frame& frame) const;
  void OnFrame(net::Frame frame);
  Status Accept(net::Frame frame);
  Status AcceptOfStep(net::Frame frame);
  Status AcceptEarly(net::Frame frame);
  Status KeepEarly(net::Frame frame);
  Status OnEvaluation(net::Frame frame);
  Status OnInventory(const net::Frame& frame);
  Status OnEvicted(const net::Frame& frame);
  void Go(BoundaryEvent event);
  void OnLinkOpen();
  // Both ends tell each other what they have of it.
  bool Told(Direction direction) const {
    return direction == kForward || m_[direction].cache != nullptr;
  }
  void OnOwnInventory(Direction direction, BoundaryCache::Inventory inventory);
  void SendInventory(Direction direction);
  void MaybeAgree();
  Status OnReceived(const net::Frame& frame);
  void SendLosses(Direction direction, std::uint64_t step, std::vector<SegmentId> segments);
  void SendReceived(std::uint32_t micro_batch);
  void OnSent(net::FrameKind kind, double elapsed_ms);
  Status Send(net::Frame frame);
  void FailByPeer(const Status& status);

  const BoundaryConfig config_;
  const TransferResources resources_;
  Generation* const generation_;
  const storage::BoundarySide side_;
  const net::LinkTarget target_;
  const Handlers handlers_;
  const DirectionConfig forward_, backward_;
  BoundaryStats seen_;
  std::array<SharedM, 2> m_;                 // by Direction
  std::unique_ptr<BoundaryCache> residual_;  // null unless this end sends gradients with feedback
  std::unique_ptr<LinkMemory> memory_;       // null unless it sends them with a stateful codec
  std::unique_ptr<BoundarySender> out_;
  std::unique_ptr<BoundaryReceiver> in_;
  EvaluationLink evaluation_;

  BoundaryState state_ = BoundaryState::kNew;
  std::size_t agreeing_ = 0;     // directions whose store forgets what only one end has
  std::uint64_t step_ = 0;       // running or last, once one began
  std::uint64_t next_step_ = 0;  // whose frames wait
  std::vector<net::Frame> early_;
  TimePoint last_sent_{};
  std::unique_ptr<net::Link> link_;  // last: its handlers use everything above
};

}  // namespace shoal::pipeline

#endif  // SHOAL_PIPELINE_BOUNDARY_BOUNDARY_H_
