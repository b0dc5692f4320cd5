// ValueBlock: move-only owner of fp32 values in the memory of the host or of a device.

#ifndef SHOAL_COMMON_VALUE_BLOCK_H_
#define SHOAL_COMMON_VALUE_BLOCK_H_

#include <cstddef>
#include <memory>
#include <span>
#include <utility>

#include "common/buffer.h"
#include "common/device_memory.h"

namespace shoal {

class ValueBlock {
 public:
  ValueBlock() = default;
  // `count` values of any content, of the host. Aligned as a Buffer.
  explicit ValueBlock(std::size_t count) : host_(count * sizeof(float)), count_(count) {}
  // The same of a device.
  static Result<ValueBlock> OnDevice(std::shared_ptr<DeviceMemory> memory, std::size_t count) {
    ValueBlock block;
    if (count == 0) return block;
    const std::size_t bytes = count * sizeof(float);
    SHOAL_ASSIGN_OR_RETURN(std::byte* const at, memory->Allocate(bytes));
    block.device_ = {at, GiveBack{std::move(memory), bytes}};
    block.count_ = count;
    return block;
  }
  ValueBlock(ValueBlock&& other) noexcept
      : host_(std::move(other.host_)),
        device_(std::move(other.device_)),
        count_(std::exchange(other.count_, 0)) {}
  ValueBlock& operator=(ValueBlock&& other) noexcept {
    host_ = std::move(other.host_);
    device_ = std::move(other.device_);
    count_ = std::exchange(other.count_, 0);
    return *this;
  }

  std::size_t size() const { return count_; }
  bool empty() const { return count_ == 0; }
  bool on_device() const { return device_ != nullptr; }

  // Where on_device(), an address of the device's memory: not for the host to read.
  std::span<float> values() { return {reinterpret_cast<float*>(data()), count_}; }
  std::span<const float> values() const { return {reinterpret_cast<const float*>(data()), count_}; }

 private:
  struct GiveBack {
    std::shared_ptr<DeviceMemory> memory;
    std::size_t bytes;
    void operator()(std::byte* block) const { memory->Free(block, bytes); }
  };

  std::byte* data() { return device_ != nullptr ? device_.get() : host_.data(); }
  const std::byte* data() const { return device_ != nullptr ? device_.get() : host_.data(); }

  Buffer host_;
  std::unique_ptr<std::byte, GiveBack> device_;
  std::size_t count_ = 0;
};

}  // namespace shoal

#endif  // SHOAL_COMMON_VALUE_BLOCK_H_
