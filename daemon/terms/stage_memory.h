// StageMemory: keeps what stages take of their device within what its owner allows, also while one
// runs: what it has taken decides whether it stays.

#ifndef SHOAL_DAEMON_TERMS_STAGE_MEMORY_H_
#define SHOAL_DAEMON_TERMS_STAGE_MEMORY_H_

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>

#include "common/executor.h"
#include "common/status.h"

namespace shoal::daemon {

// The memory that stages take theirs from.
class StagePool {
 public:
  virtual ~StagePool() = default;
  // Invalid argument: there is less than that. Thread: any.
  virtual Status Check(std::uint64_t asked_bytes) const = 0;
  // Most that may be taken from now on; 0: what there is. Returns what a stage may take; 0: not
  // known. Thread: compute.
  virtual Result<std::uint64_t> Bound(std::uint64_t asked_bytes) = 0;
  // Most that was in use at a time since the last call of ForgetPeak. Thread: compute.
  virtual std::uint64_t PeakBytes() const = 0;
  virtual void ForgetPeak() = 0;
};

// Of a stage that is made just now: nobody knows what it will take.
inline constexpr std::uint64_t kStageIsMade = std::numeric_limits<std::uint64_t>::max();

// Thread: control.
class StageMemory {
 public:
  class Owner {
   public:
    virtual ~Owner() = default;
    // The stage takes more than it may. It is to be given back; OnStageEnds sets the bound.
    virtual void OnStageTooLarge(std::uint64_t limit_bytes) = 0;
  };

  // `bytes`: what a stage may take, as Bound(asked_bytes) said at the start. Without a pool nothing
  // is bounded.
  StageMemory(Executor* control, Executor* compute, StagePool* pool, std::uint64_t asked_bytes,
              std::uint64_t bytes, Owner* owner);
  ~StageMemory() { *lives_ = false; }

  // Invalid argument: there is less than that. Thread: any.
  Status Check(std::uint64_t asked_bytes) const;
  // The owner allows so much from now on; 0: what there is. `stage_bytes`: least that the stage
  // takes, or kStageIsMade; none: there is no stage. Does nothing if it is as before.
  void Allow(std::uint64_t asked_bytes, std::optional<std::uint64_t> stage_bytes);
  // Once what frees its memory was posted to compute.
  void OnStageEnds();
  // What a stage may take, the next one at least; 0: not known.
  std::uint64_t bytes() const {
    SHOAL_ASSERT_ON(*control_);
    return bytes_;
  }
  // "device_memory 6.00 GiB"; empty: its owner sets no bound.
  std::string Text() const;

 private:
  struct Answer {
    Result<std::uint64_t> bytes = std::uint64_t{0};
    std::uint64_t too_large = 0;  // what the stage takes; 0: it is bounded
  };
  void Ask(std::optional<std::uint64_t> stage_bytes);
  void OnAnswer(const Answer& answer);

  Executor* const control_;
  Executor* const compute_;
  StagePool* const pool_;
  Owner* const owner_;
  const std::shared_ptr<bool> lives_;  // what is posted asks

  std::uint64_t asked_, bytes_, bound_;  // bound_: in force
  std::uint64_t order_ = 0;              // the newest; answers to older ones do not count
  bool awaits_ = false;                  // its answer, or the stage's end
  std::uint64_t stage_takes_ = 0;        // more than it may; 0: it does not, as far as is known
  std::string trouble_;
};

}  // namespace shoal::daemon

#endif  // SHOAL_DAEMON_TERMS_STAGE_MEMORY_H_
