// CopyLane: a queue of a device with page-locked memory of the host, through which bytes of
// ordinary memory cross the bus. CopyLanes: as many of them as calls run at once.
//
// Internal to compression/. Thread: any, one call at a time per lane.

#ifndef SHOAL_COMPRESSION_DEVICE_COPY_LANE_H_
#define SHOAL_COMPRESSION_DEVICE_COPY_LANE_H_

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <utility>

#include "common/status.h"
#include "compression/device/device_queue.h"
#include "compression/device/device_section.h"
#include "compression/device/idle_objects.h"

namespace shoal::compression {

// Makes a queue with a stream of its own.
using NewQueue = std::function<Result<std::unique_ptr<DeviceQueue>>()>;

class CopyLane {
 public:
  explicit CopyLane(std::unique_ptr<DeviceQueue> queue)
      : queue_(std::move(queue)), scratch_(queue_.get()) {}
  ~CopyLane() {
    if (staging_ != nullptr) queue_->FreeHost(staging_);
  }
  CopyLane(const CopyLane&) = delete;
  CopyLane& operator=(const CopyLane&) = delete;

  DeviceQueue& queue() { return *queue_; }
  DeviceScratch& scratch() { return scratch_; }
  // At least `bytes` bytes of page-locked memory, of any content; what it gave before is gone.
  Result<std::byte*> Staging(std::size_t bytes);
  // Nothing of a call that failed may touch memory after it.
  void Settle() { (void)queue_->Wait(); }

 private:
  const std::unique_ptr<DeviceQueue> queue_;
  DeviceScratch scratch_;
  std::byte* staging_ = nullptr;
  std::size_t staging_bytes_ = 0;
};

class CopyLanes {
 public:
  explicit CopyLanes(NewQueue new_queue) : new_queue_(std::move(new_queue)) {}

  Result<std::unique_ptr<DeviceQueue>> Queue() const { return new_queue_(); }
  // Its queue is in use by its own stream.
  Result<Borrowed<CopyLane>> Take();

  // Bytes of ordinary memory, four for each value.
  Status ToHost(std::span<const float> from, std::span<std::byte> to);
  Status ToDevice(std::span<const std::byte> from, std::span<float> to);

  // Time of the device that codecs took; they tell.
  void AddDeviceTime(double ms) { device_ms_.fetch_add(ms, std::memory_order_relaxed); }
  double device_ms() const { return device_ms_.load(std::memory_order_relaxed); }

 private:
  const NewQueue new_queue_;
  IdleObjects<CopyLane> idle_;
  std::atomic<double> device_ms_{0};
};

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_DEVICE_COPY_LANE_H_
