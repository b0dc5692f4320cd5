// FakeDevice: a device whose memory is the host's, but not to be touched outside of the device's
// own work: a read or write of it ends the test by a signal. Its lanes run in loops on the host.

#ifndef SHOAL_TESTS_SUPPORT_FAKE_DEVICE_H_
#define SHOAL_TESTS_SUPPORT_FAKE_DEVICE_H_

#include <cstddef>
#include <map>
#include <memory>

#include "common/memory/device_memory.h"
#include "common/mutex.h"
#include "compression/api/value_home.h"

namespace shoal::test_support {

// Thread: any.
class FakeDevice : public DeviceMemory {
 public:
  explicit FakeDevice(std::size_t bytes = std::size_t{256} << 20);
  ~FakeDevice() override;

  int device() const override { return 0; }
  Result<std::byte*> Allocate(std::size_t bytes) override;
  void Free(std::byte* memory, std::size_t bytes) override;
  std::size_t allocated_bytes() const;

  // While one lives, the device works, and its memory may be touched.
  class Work {
   public:
    explicit Work(FakeDevice* device) : device_(device) { device_->Begin(); }
    ~Work() { device_->End(); }
    Work(const Work&) = delete;
    Work& operator=(const Work&) = delete;

   private:
    FakeDevice* device_;
  };

 private:
  void Begin();
  void End();
  void Protect(bool open) SHOAL_REQUIRES(mutex_);

  const std::size_t bytes_;
  std::byte* memory_ = nullptr;
  mutable Mutex mutex_;
  std::size_t used_ SHOAL_GUARDED_BY(mutex_) = 0;  // from the start; never given back
  std::size_t allocated_ SHOAL_GUARDED_BY(mutex_) = 0;
  std::multimap<std::size_t, std::byte*> free_ SHOAL_GUARDED_BY(mutex_);  // by size
  int working_ SHOAL_GUARDED_BY(mutex_) = 0;
};

// Values in its memory.
std::shared_ptr<const compression::ValueHome> ValuesOf(std::shared_ptr<FakeDevice> device);

}  // namespace shoal::test_support

#endif  // SHOAL_TESTS_SUPPORT_FAKE_DEVICE_H_
