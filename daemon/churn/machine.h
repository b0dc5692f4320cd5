// ChurnMachine: a peer as its scheduler sees it: what it answers to which message, and when,
// without computing anything. What takes time it asks of its owner. Thread: one.

#ifndef SHOAL_DAEMON_CHURN_MACHINE_H_
#define SHOAL_DAEMON_CHURN_MACHINE_H_

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/clock.h"
#include "common/ids.h"
#include "daemon/churn/lines.h"
#include "daemon/churn/trained_model.h"
#include "daemon/churn/visits.h"
#include "proto/control.pb.h"

namespace shoal::daemon {

class ChurnMachine {
 public:
  class Owner {
   public:
    virtual ~Owner() = default;
    // To the scheduler, in order.
    virtual void Say(ChurnMachine* machine, control::v1::PeerMessage message) = 0;
    virtual void After(Duration delay, std::function<void()> run) = 0;
    // Bytes between the scheduler and the machine.
    virtual Lines::Flow Fetch(ChurnMachine* machine, double bytes, std::function<void()> done) = 0;
    virtual Lines::Flow Upload(ChurnMachine* machine, double bytes, std::function<void()> done) = 0;
    // Of a file of a checkpoint the scheduler has so many bytes by now, of so many.
    virtual void Arrived(const std::string& hash, double bytes, double of) = 0;
    virtual double BytesArrived(const std::string& hash) const = 0;
    // Bytes of a stage's state, in equal parts from those of the plan who have it; `done` after the
    // first of these.
    virtual std::vector<Lines::Flow> CatchUp(ChurnMachine* machine, double bytes,
                                             std::function<void()> done) = 0;
    virtual double Cancel(Lines::Flow flow) = 0;
    // StepDone and ExchangeDone follow, if nobody that it takes is gone.
    virtual void BeginStep(ChurnMachine* machine, const control::v1::StepPlan& plan) = 0;
    virtual void BeginExchange(ChurnMachine* machine, const control::v1::Reduce& reduce) = 0;
    // Its steps take nothing of its line any more.
    virtual void Rests(ChurnMachine* machine) = 0;
  };

  ChurnMachine(std::uint32_t number, const TrainedModel& model, const ChurnSettings& settings,
               Owner* owner);

  // Says hello, then heartbeats.
  void Connected();
  void Disconnected();  // it lives on
  void Gone();
  void On(const control::v1::SchedulerMessage& message);
  void StepDone(std::uint64_t generation, std::uint64_t step, double seconds);
  void ExchangeDone(std::uint64_t generation, std::uint64_t step);
  // Who it gets its stage's state from may be gone: it asks who is left.
  void CatchUpWithOthers();

  std::uint32_t number() const { return number_; }
  const PeerId& id() const { return id_; }
  bool alive() const { return alive_; }
  int pipeline() const { return pipeline_; }  // -1: a spare
  int stage() const { return stage_; }
  bool shadow() const { return shadow_; }  // it does not have its stage's whole state yet
  // While it trains, or when a generation is over.
  bool uploads_checkpoint() const { return upload_.has_value(); }
  // At its lower boundary, which it receives over, and its upper.
  const Visits& lower() const { return visits_[0]; }
  const Visits& upper() const { return visits_[1]; }

 private:
  void Heartbeat();
  void OnPlan(const control::v1::Plan& plan);
  void OnPrepare(const control::v1::Prepare& prepare);
  void CatchUp();
  void Ready(bool loads);
  void Load(const control::v1::Plan& plan);
  void OnAbort(const control::v1::Abort& abort);
  void OnReduce(const control::v1::Reduce& reduce);
  void OnApply(const control::v1::Apply& apply);
  void Apply(const control::v1::Apply& apply);
  void Save(std::uint64_t step);
  void Keep(const std::vector<std::string>& parts, std::uint64_t step);
  void Saved(std::uint64_t generation, const std::vector<std::string>& parts, std::uint64_t step);
  void OnWanted(const control::v1::WantArtefacts& want);
  void UploadNext();
  void StopUpload();
  void Work();
  void EndWork();
  // Void when the machine is gone, or its plan or connection ends before.
  void Later(Duration delay, std::function<void()> run);
  void Guarded(std::uint64_t work, const std::function<void()>& run) const;
  double StateBytes() const { return model_.stages[static_cast<std::size_t>(stage_)].state_bytes; }
  std::vector<std::string> Parts() const;

  const std::uint32_t number_;
  const TrainedModel& model_;
  const ChurnSettings& settings_;
  Owner& owner_;
  PeerId id_;
  bool alive_ = true, connected_ = false;
  std::uint64_t life_ = 0;  // grows with each connection
  std::uint64_t work_ = 0;  // and this with each plan and abort, too
  Duration heartbeat_every_ = std::chrono::seconds(1);

  std::uint64_t generation_ = 0;
  int pipeline_ = -1, stage_ = -1;
  std::uint64_t applied_ = 0;
  bool holds_ = false, synced_ = false, busy_ = false;
  std::uint32_t exchanged_ = 0;  // amendment of the step whose gradients it exchanges
  bool shadow_ = false;
  double missing_ = 0;       // bytes of a shadow's state
  std::uint64_t asked_ = 0;  // to prepare, so many times
  std::optional<control::v1::Apply> last_apply_;
  std::map<std::uint64_t, control::v1::StepPlan> plans_;
  std::set<std::string> content_;  // hashes of what it has on its disk
  struct FileUpload {
    control::v1::ArtefactRef file;
    Lines::Flow flow = 0;
  };
  control::v1::WantArtefacts wanted_;  // the newest that asks for parts of checkpoints
  std::optional<FileUpload> upload_;
  std::vector<Lines::Flow> flows_;
  std::array<Visits, 2> visits_;
};

PeerId ChurnPeerId(std::uint32_t number);

// Whether it deals out nothing.
inline bool OnlyFollowersLeft(const control::v1::StepPlan& plan) {
  return plan.lost_size() > 0 && plan.amendment() == 0;
}

}  // namespace shoal::daemon

#endif  // SHOAL_DAEMON_CHURN_MACHINE_H_
