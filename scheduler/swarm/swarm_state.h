// SwarmState: the scheduler's whole logic as a pure state machine: (event, now) -> actions.
//
// No I/O, no clock, no threads: the server feeds it events and carries out its actions, the
// simulation tests do the same with thousands of peers and a fake clock. What must survive a
// restart leaves as Persist actions, and comes back through Restore, in order.
// Thread: control.

#ifndef SHOAL_SCHEDULER_SWARM_SWARM_STATE_H_
#define SHOAL_SCHEDULER_SWARM_SWARM_STATE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "common/clock.h"
#include "common/ids.h"
#include "common/status.h"
#include "proto/control.pb.h"
#include "scheduler/config/run_config.h"
#include "scheduler/history/run_lifecycle.h"
#include "scheduler/history/stored_event.h"
#include "scheduler/steps/spot_verdict.h"

namespace shoal::scheduler {

using ConnectionId = std::uint64_t;

// ---- events ----
struct PeerConnected {
  ConnectionId connection;
  PeerId peer;
  std::string address;  // as seen, without port
};
struct PeerMessageReceived {
  ConnectionId connection;
  control::v1::PeerMessage message;
};
struct PeerDisconnected {
  ConnectionId connection;
  std::string reason;
};
struct AdminCommand {
  enum class Kind { kStart, kPause, kResume } kind;
};
// The organiser removes a peer; `reason` is for its owner.
struct PeerKicked {
  PeerId peer;
  std::string reason;
};
// The organiser ends a peer's quarantine.
struct PeerReleased {
  PeerId peer;
};
// Of these (raw hashes) the server has no whole copy any more, and cannot make one.
struct ArtefactsLost {
  std::vector<std::string> hashes;
};
// One that was wanted is whole again.
struct ArtefactHere {
  std::string hash;
};
// The scheduler's disk could not take what a peer uploaded.
struct ArtefactNotKept {
  std::string hash;
  std::string reason;
};
struct Tick {};  // at least every 500 ms
using Event =
    std::variant<PeerConnected, PeerMessageReceived, PeerDisconnected, AdminCommand, PeerKicked,
                 PeerReleased, ArtefactsLost, ArtefactHere, ArtefactNotKept, Tick>;

// ---- actions ----
struct SendTo {
  ConnectionId connection;
  control::v1::SchedulerMessage message;
};
struct Disconnect {
  ConnectionId connection;
  Status reason;
};
struct Persist {
  std::string event;  // opaque; Restore gets it back
};
// A step is applied; for whoever follows the run.
struct StepApplied {
  std::uint64_t step = 0;                   // applied steps, this one included
  double loss = 0;                          // token mean of the step
  double seconds = 0, control_seconds = 0;  // as in RunView
  std::uint64_t samples = 0;
  double learning_rate = 0;
  double gradient_norm = 0;     // of the token mean, before it is clipped
  std::uint32_t pipelines = 0;  // that counted
  bool skipped = false;         // a gradient was not finite: no weight changed
};
// A checkpoint is complete: all stage groups saved and uploaded it. The server may prune blobs.
struct CheckpointComplete {
  std::uint64_t step;
};
// The server answers with ArtefactHere for each that it has, can make, or gets from a peer.
struct WantArtefacts {
  std::vector<control::v1::ArtefactRef> files;
};
// Not all that was wanted is needed any more (NeededArtefacts). The server may prune blobs.
struct ArtefactsUnneeded {};
using Action = std::variant<SendTo, Disconnect, Persist, StepApplied, CheckpointComplete,
                            WantArtefacts, ArtefactsUnneeded>;

struct MemberView {
  PeerId peer;
  std::string name, device, address, state;
  bool connected = false;
  bool wants_stage = true;
  std::string quarantine;                  // why it is there; empty: it is not
  double quarantine_s = 0;                 // until it ends
  std::int32_t pipeline = -1, stage = -1;  // -1: spare
  double last_heard_s = 0;                 // ago
  std::string status_json;                 // its last heartbeat's
};

// A peer in quarantine, which need not be here.
struct QuarantineView {
  PeerId peer;
  std::string cause;
  double left_s = 0;  // until it ends
};

// Everything the status endpoint shows of the run.
struct RunView {
  RunState state = RunState::kWaiting;
  std::string reason;  // why it waits, is paused or failed; names peer and stage
  std::uint64_t generation = 0, step = 0, steps = 0, checkpoint_step = 0;
  std::uint64_t checkpoint_every = 0;  // steps from one to the next
  std::uint64_t skipped_steps = 0;     // of these, without a change of weights
  std::string last_skipped;  // whose gradient was not finite at the last one; may be empty
  double loss = 0;
  double samples_per_second = 0, step_seconds = 0;
  double seconds_in_control = 0;          // of the last step: control round trips
  std::vector<double> last_step_seconds;  // of up to 16 steps, the newest last
  std::vector<double> losses;             // per step, from step 0
  std::vector<HeldOutMeasured> held_out;  // in order of steps
  std::vector<MemberView> members;
  std::vector<QuarantineView> quarantines;
  std::uint64_t m_checks = 0, m_mismatches = 0;            // both ends of boundaries compared
  std::uint64_t weight_checks = 0, weight_mismatches = 0;  // members of stage groups compared
  std::uint64_t refused_values = 0;                        // losses and norms that do not fit
  std::string last_refused;                                // whose, and why; empty: none
  std::string warning;                                     // for the organiser; empty: none
  std::string last_difference;  // whose weights differed last, and what was done; empty: nobody's
  SpotCounts spot_checks;
  std::vector<control::v1::StageTiming> timings;
  // Of the newest plan, by stage and pipeline: number of the LAN, 0: it shares none; may be empty.
  std::vector<std::vector<std::uint32_t>> lans;
};

class SwarmState {
 public:
  virtual ~SwarmState() = default;

  virtual std::vector<Action> Handle(const Event& event, TimePoint now) = 0;
  // Replays one persisted event, which came at that time; before the first Handle.
  virtual Status Restore(std::string_view event, TimePoint at) = 0;

  virtual RunState run_state() const = 0;
  virtual RunView View(TimePoint now) const = 0;
  virtual const RunConfig& config() const = 0;
  // Artefacts of the newest complete checkpoint by part name, or of the initial model.
  virtual std::map<std::string, control::v1::ArtefactRef> CurrentWeights() const = 0;
  // All that the run may hand out or waits for: the initial artefacts, the current weights, and
  // files of checkpoints under way.
  virtual std::vector<control::v1::ArtefactRef> NeededArtefacts() const = 0;
  virtual bool IsMember(const PeerId& peer) const = 0;
};

// `initial` are the artefacts of the fresh model by part name, and "data".
std::unique_ptr<SwarmState> NewSwarmState(const RunConfig& config,
                                          std::map<std::string, control::v1::ArtefactRef> initial);

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_SWARM_SWARM_STATE_H_
