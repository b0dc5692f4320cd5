// A DeviceQueue without a device: memory is the host's, and loops run the lanes (host_lanes.h).

#ifndef SHOAL_TESTS_UNIT_COMPRESSION_DEVICE_HOST_QUEUE_H_
#define SHOAL_TESTS_UNIT_COMPRESSION_DEVICE_HOST_QUEUE_H_

#include <cstdlib>
#include <cstring>
#include <variant>

#include "compression/device/device_queue.h"
#include "tests/unit/compression/device/host_dither_lanes.h"
#include "tests/unit/compression/device/host_lanes.h"
#include "tests/unit/compression/device/host_tile_lanes.h"
#include "tests/unit/compression/device/host_topk_lanes.h"
#include "tests/unit/compression/device/host_turn_lanes.h"

namespace shoal::compression {

class HostQueue : public DeviceQueue {
 public:
  void Use(void*) override {}
  Result<std::byte*> Allocate(std::size_t bytes) override {
    const std::size_t size = (bytes + 255) / 256 * 256 + 256;
    auto* memory = static_cast<std::byte*>(std::aligned_alloc(256, size));
    std::memset(memory, 0xcd, size);  // nothing may rely on what was there
    return memory;
  }
  void Free(std::byte* memory) override { std::free(memory); }
  Result<std::byte*> AllocateHost(std::size_t bytes) override { return Allocate(bytes); }
  void FreeHost(std::byte* memory) override { Free(memory); }
  void ToDevice(std::byte* to, const void* from, std::size_t bytes) override {
    if (bytes > 0) std::memcpy(to, from, bytes);
  }
  void ToHost(void* to, const std::byte* from, std::size_t bytes) override {
    if (bytes > 0) std::memcpy(to, from, bytes);
  }
  void Zero(std::byte* at, std::size_t bytes) override {
    if (bytes > 0) std::memset(at, 0, bytes);
  }

  void Run(const DeviceJob& job) override {
    std::visit([](const auto& kind) { RunOnHost(kind); }, job);
  }
  Status Wait() override { return Status::Ok(); }
};

}  // namespace shoal::compression

#endif  // SHOAL_TESTS_UNIT_COMPRESSION_DEVICE_HOST_QUEUE_H_
