#include "daemon/gpu/gpu_watch.h"

#include <chrono>
#include <utility>

#include "common/log.h"
#include "daemon/gpu/gpu_users.h"

namespace shoal::daemon {
namespace {

constexpr const char* kNoCard = " is not in force: this peer uses no GPU of NVIDIA's";

}  // namespace

GpuSight LookAtGpu(GpuDriver* driver, const Machine& machine, bool users) {
  GpuSight sight{driver->Read(users), ""};
  if (users) sight.user = GpuUser(sight.reading.processes, machine);
  return sight;
}

GpuWatch::GpuWatch(Executor* control, WatchedGpu gpu, const Machine* machine, Owner* owner)
    : control_(control),
      gpu_(std::move(gpu)),
      machine_(machine),
      owner_(owner),
      lives_(std::make_shared<bool>(true)),
      first_user_(gpu_.first.user) {
  if (gpu_.driver && !gpu_.first.reading.name.empty()) reading_ = gpu_.first.reading;
}

GpuWatch::~GpuWatch() { *lives_ = false; }

void GpuWatch::Look(bool users) {
  SHOAL_ASSERT_ON(*control_);
  if (!gpu_.driver || machine_ == nullptr) return;
  const TimePoint now = control_->clock().Now();
  if (asks_) {
    if (now - asked_at_ > kGpuLookMax) reading_.reset();
    return;
  }
  if (asked_at_ != TimePoint{} && now - asked_at_ < kGpuLookEvery) return;
  asks_ = true;
  asked_at_ = now;
  gpu_.thread->Post("gpu.look", [this, lives = lives_, driver = gpu_.driver, machine = machine_,
                                 control = control_, users] {
    control->Post("gpu.seen",
                  [this, lives, users, sight = LookAtGpu(driver.get(), *machine, users)] {
                    if (*lives) OnSight(sight, users);
                  });
  });
}

void GpuWatch::OnSight(GpuSight sight, bool users) {
  asks_ = false;
  CountEnergy(sight.reading, control_->clock().Now());
  reading_ = std::move(sight.reading);
  if (users) owner_->OnGpuUser(sight.user);
  CountLost(*reading_);
}

void GpuWatch::CountLost(const GpuReading& reading) {
  lost_looks_ = reading.lost.empty() ? 0 : lost_looks_ + 1;
  if (lost_looks_ == kGpuLostLooks && gpu_.computes) owner_->OnGpuLost(reading.lost);
}

// Between two looks at which this peer trained; of what a driver that hung took nothing is known.
void GpuWatch::CountEnergy(const GpuReading& reading, TimePoint now) {
  const std::optional<TimePoint> before =
      std::exchange(trained_at_, owner_->Trains() ? std::optional(now) : std::nullopt);
  if (!before || !trained_at_ || !reading_ || now - *before > kGpuLookMax) return;
  if (reading.energy_mj && reading_->energy_mj && *reading.energy_mj >= *reading_->energy_mj) {
    energy_mj_ += *reading.energy_mj - *reading_->energy_mj;
  } else if (reading.power_mw && reading_->power_mw) {
    const double seconds = std::chrono::duration<double>(now - *before).count();
    const auto mean_mw = static_cast<double>(*reading.power_mw + *reading_->power_mw) / 2;
    energy_mj_ += static_cast<std::uint64_t>(mean_mw * seconds);
  }
}

std::vector<std::string> GpuWatch::Texts(bool users) const {
  SHOAL_ASSERT_ON(*control_);
  std::vector<std::string> texts;
  if (users && !gpu_.driver) texts.push_back(std::string("gpu_free") + kNoCard);
  if (reading_ && !reading_->lost.empty()) {
    texts.push_back("the driver does not reach the GPU: " + reading_->lost);
  }
  if (!power_text_.empty()) texts.push_back(power_text_);
  return texts;
}

void GpuWatch::LimitPower(std::uint32_t watts) {
  SHOAL_ASSERT_ON(*control_);
  if (watts == limit_watts_ && !refused_) return;
  limit_watts_ = watts;
  refused_ = false;
  const std::string asked = "gpu_power=" + std::to_string(watts) + "W";
  power_text_ =
      watts == 0 ? "" : asked + ": the driver is asked; `shoal status` says what it answers";
  if (!gpu_.driver) {
    if (watts > 0) power_text_ = asked + kNoCard;
    return;
  }
  gpu_.thread->Post(
      "gpu.limit", [this, lives = lives_, driver = gpu_.driver, control = control_, watts, asked] {
        const Status status = driver->LimitPower(watts);
        control->Post("gpu.limited", [this, lives, watts, asked, status] {
          if (!*lives || watts != limit_watts_) return;
          if (status.ok()) {
            power_text_ = watts == 0 ? "" : "GPU power " + std::to_string(watts) + " W at most";
            return;
          }
          refused_ = true;
          power_text_ = asked + " is not in force: " + status.message();
          SHOAL_LOG(kWarning, "daemon", "gpu.power", {"watts", watts}, {"error", status.message()});
        });
      });
}

}  // namespace shoal::daemon
