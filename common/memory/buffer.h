// Buffer: move-only owner of bytes, 64-byte aligned, so that SIMD code and float views are safe.
// Its memory comes from the process's block pool, or is that of a device.

#ifndef SHOAL_COMMON_MEMORY_BUFFER_H_
#define SHOAL_COMMON_MEMORY_BUFFER_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <utility>

#include "common/memory/block_pool.h"
#include "common/memory/device_memory.h"
#include "common/status.h"

namespace shoal {

class Buffer {
 public:
  Buffer() = default;
  // `size` uninitialised bytes.
  explicit Buffer(std::size_t size) : size_(size) {
    if (size == 0) return;
    SHOAL_CHECK(size <= PTRDIFF_MAX);
    data_ = {SharedBlockPool().Take(size), GiveBack{size, nullptr}};
    SHOAL_CHECK(data_ != nullptr);
  }
  // The same in the memory of a device, where only floats() may be asked for, and what they say is
  // an address there, not for the host to read.
  static Result<Buffer> OnDevice(std::shared_ptr<DeviceMemory> memory, std::size_t size) {
    Buffer buffer;
    if (size == 0) return Result<Buffer>(std::move(buffer));
    SHOAL_ASSIGN_OR_RETURN(std::byte* const data, memory->Allocate(size));
    buffer.data_ = {data, GiveBack{size, std::move(memory)}};
    buffer.size_ = size;
    return Result<Buffer>(std::move(buffer));
  }
  Buffer(Buffer&& other) noexcept
      : data_(std::move(other.data_)), size_(std::exchange(other.size_, 0)) {}
  Buffer& operator=(Buffer&& other) noexcept {
    data_ = std::move(other.data_);
    size_ = std::exchange(other.size_, 0);
    return *this;
  }

  static Buffer CopyOf(std::span<const std::byte> bytes) {
    Buffer copy(bytes.size());
    if (!bytes.empty()) std::memcpy(copy.data(), bytes.data(), bytes.size());
    return copy;
  }

  std::byte* data() {
    SHOAL_CHECK(!on_device());
    return data_.get();
  }
  const std::byte* data() const {
    SHOAL_CHECK(!on_device());
    return data_.get();
  }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  bool on_device() const { return data_.get_deleter().memory != nullptr; }

  std::span<std::byte> bytes() { return {data(), size_}; }
  std::span<const std::byte> bytes() const { return {data(), size_}; }

  // The bytes as fp32 values; size() must be a multiple of 4.
  std::span<float> floats() {
    SHOAL_CHECK(size_ % sizeof(float) == 0);
    return {reinterpret_cast<float*>(data_.get()), size_ / sizeof(float)};
  }
  std::span<const float> floats() const {
    SHOAL_CHECK(size_ % sizeof(float) == 0);
    return {reinterpret_cast<const float*>(data_.get()), size_ / sizeof(float)};
  }

  // Forgets the bytes behind `size`, which must not exceed size().
  void Truncate(std::size_t size) {
    SHOAL_CHECK(size <= size_);
    size_ = size;
  }

 private:
  struct GiveBack {
    std::size_t taken;
    std::shared_ptr<DeviceMemory> memory;  // null: the block pool
    void operator()(std::byte* block) const {
      memory != nullptr ? memory->Free(block, taken) : SharedBlockPool().Give(block, taken);
    }
  };
  std::unique_ptr<std::byte[], GiveBack> data_;
  std::size_t size_ = 0;
};

}  // namespace shoal

#endif  // SHOAL_COMMON_MEMORY_BUFFER_H_
