#include "tests/support/fake_device.h"

#include <sys/mman.h>

#include <algorithm>
#include <utility>

#include "compression/device/device_queue.h"
#include "compression/device/device_values.h"
#include "tests/unit/compression/device/host_queue.h"

namespace shoal::test_support {
namespace {

constexpr std::size_t kAlignment = 256;

// Nothing, too, has an address of its own.
std::size_t Rounded(std::size_t bytes) {
  return (std::max<std::size_t>(bytes, 1) + kAlignment - 1) / kAlignment * kAlignment;
}

class FakeQueue final : public compression::HostQueue {
 public:
  explicit FakeQueue(std::shared_ptr<FakeDevice> device) : device_(std::move(device)) {}

  Result<std::byte*> Allocate(std::size_t bytes) override {
    SHOAL_ASSIGN_OR_RETURN(std::byte* const memory, device_->Allocate(bytes));
    sizes_[memory] = bytes;
    return memory;
  }
  void Free(std::byte* memory) override {
    device_->Free(memory, sizes_.at(memory));
    sizes_.erase(memory);
  }
  Result<std::byte*> AllocateHost(std::size_t bytes) override {
    return compression::HostQueue::Allocate(bytes);
  }
  void FreeHost(std::byte* memory) override { compression::HostQueue::Free(memory); }
  void ToDevice(std::byte* to, const void* from, std::size_t bytes) override {
    const FakeDevice::Work work(device_.get());
    HostQueue::ToDevice(to, from, bytes);
  }
  void ToHost(void* to, const std::byte* from, std::size_t bytes) override {
    const FakeDevice::Work work(device_.get());
    HostQueue::ToHost(to, from, bytes);
  }
  void Zero(std::byte* at, std::size_t bytes) override {
    const FakeDevice::Work work(device_.get());
    HostQueue::Zero(at, bytes);
  }
  void Run(const compression::DeviceJob& job) override {
    const FakeDevice::Work work(device_.get());
    HostQueue::Run(job);
  }

 private:
  const std::shared_ptr<FakeDevice> device_;
  std::map<std::byte*, std::size_t> sizes_;
};

}  // namespace

FakeDevice::FakeDevice(std::size_t bytes) : bytes_(Rounded(bytes)) {
  void* const memory = ::mmap(nullptr, bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  SHOAL_CHECK(memory != MAP_FAILED);
  memory_ = static_cast<std::byte*>(memory);
}

FakeDevice::~FakeDevice() { ::munmap(memory_, bytes_); }

Result<std::byte*> FakeDevice::Allocate(std::size_t bytes) {
  const std::size_t size = Rounded(bytes);
  const MutexLock lock(mutex_);
  const auto found = free_.find(size);
  std::byte* memory = nullptr;
  if (found != free_.end()) {
    memory = found->second;
    free_.erase(found);
  } else {
    if (size > bytes_ - used_) return ResourceExhausted("the fake device has no memory left");
    memory = memory_ + used_;
    used_ += size;
  }
  allocated_ += size;
  return memory;
}

void FakeDevice::Free(std::byte* memory, std::size_t bytes) {
  const MutexLock lock(mutex_);
  free_.emplace(Rounded(bytes), memory);
  allocated_ -= Rounded(bytes);
}

std::size_t FakeDevice::allocated_bytes() const {
  const MutexLock lock(mutex_);
  return allocated_;
}

void FakeDevice::Begin() {
  const MutexLock lock(mutex_);
  if (working_++ == 0) Protect(true);
}

void FakeDevice::End() {
  const MutexLock lock(mutex_);
  if (--working_ == 0) Protect(false);
}

void FakeDevice::Protect(bool open) {
  SHOAL_CHECK(::mprotect(memory_, bytes_, open ? PROT_READ | PROT_WRITE : PROT_NONE) == 0);
}

std::shared_ptr<const compression::ValueHome> ValuesOf(std::shared_ptr<FakeDevice> device) {
  return compression::NewDeviceValues(
      device, [device]() -> Result<std::unique_ptr<compression::DeviceQueue>> {
        return std::unique_ptr<compression::DeviceQueue>(std::make_unique<FakeQueue>(device));
      });
}

}  // namespace shoal::test_support
