// GpuWatch: looks at the GPU of this peer every few seconds, on a thread of its own, since a driver
// may take its time: who else works on it, what power it takes, and the energy of training.

#ifndef SHOAL_DAEMON_GPU_GPU_WATCH_H_
#define SHOAL_DAEMON_GPU_GPU_WATCH_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/clock.h"
#include "common/executor.h"
#include "daemon/gpu/gpu_driver.h"
#include "daemon/terms/machine.h"

namespace shoal::daemon {

inline constexpr Duration kGpuLookEvery = std::chrono::seconds(4);
// A look that takes longer is shown no more: the driver hangs.
inline constexpr Duration kGpuLookMax = std::chrono::seconds(20);
// A card that so many looks in a row did not reach is lost to this process.
inline constexpr int kGpuLostLooks = 3;

struct GpuSight {
  GpuReading reading;
  std::string user;  // who else works on it; empty: nobody, or it was not asked
};
// Thread: that of the driver.
GpuSight LookAtGpu(GpuDriver* driver, const Machine& machine, bool users);

// A GPU that can be looked at, and what was seen of it before anything began.
struct WatchedGpu {
  std::shared_ptr<GpuDriver> driver;  // null: there is none
  Executor* thread = nullptr;         // of the driver
  GpuSight first;
  bool computes = false;  // this peer trains on it
};

// Thread: control. Calls may still run on the driver's thread when it is gone.
class GpuWatch {
 public:
  class Owner {
   public:
    virtual ~Owner() = default;
    virtual bool Trains() const = 0;
    virtual void OnGpuUser(const std::string& program) = 0;  // each time it was asked for
    // Once, and only if this peer trains on the card. `why`: the driver's words.
    virtual void OnGpuLost(const std::string& why) = 0;
  };

  GpuWatch(Executor* control, WatchedGpu gpu, const Machine* machine, Owner* owner);
  ~GpuWatch();

  // Every second: looks if it is time to. `users`: also who works on it.
  void Look(bool users);
  // 0: none of ours. Tells the driver if that is another one than last time, or it refused that.
  void LimitPower(std::uint32_t watts);

  // None: there is no driver, or it does not answer.
  const std::optional<GpuReading>& reading() const {
    SHOAL_ASSERT_ON(*control_);
    return reading_;
  }
  const std::string& first_user() const {
    SHOAL_ASSERT_ON(*control_);
    return first_user_;
  }
  // What the card took while this peer trained.
  std::uint64_t energy_mj() const {
    SHOAL_ASSERT_ON(*control_);
    return energy_mj_;
  }
  // What of the owner's terms of the card is in force, or why it is not. `users`: as for Look.
  std::vector<std::string> Texts(bool users) const;
  // The limit in force, or why it is not; empty: none was asked for.
  const std::string& power_text() const {
    SHOAL_ASSERT_ON(*control_);
    return power_text_;
  }

 private:
  void OnSight(GpuSight sight, bool users);
  void CountLost(const GpuReading& reading);
  void CountEnergy(const GpuReading& reading, TimePoint now);

  Executor* const control_;
  const WatchedGpu gpu_;
  const Machine* const machine_;
  Owner* const owner_;
  const std::shared_ptr<bool> lives_;  // what is posted asks

  std::optional<GpuReading> reading_;
  const std::string first_user_;
  bool asks_ = false;
  int lost_looks_ = 0;
  TimePoint asked_at_{};
  std::optional<TimePoint> trained_at_;  // the last look, if this peer trained then
  std::uint64_t energy_mj_ = 0;
  std::uint32_t limit_watts_ = 0;
  bool refused_ = false;
  std::string power_text_;
};

}  // namespace shoal::daemon

#endif  // SHOAL_DAEMON_GPU_GPU_WATCH_H_
