#include "model/host_memory.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/util/Exception.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "common/block_pool.h"

namespace shoal::model {
namespace {

// More than the buffers of messages: all that a step computes with.
constexpr std::size_t kKeptBytesMax = std::size_t{1} << 30;

// Never destroyed: tensors may outlive everything else.
BlockPool& Pool() {
  static BlockPool* const pool = new BlockPool(BlockPool::UnlessSanitized(kKeptBytesMax));
  return *pool;
}

// Before a tensor's values: how large the block is. As large as the alignment, which they keep.
constexpr std::size_t kHeaderBytes = BlockPool::kAlignment;

class PooledAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    const c10::Device host(c10::kCPU);
    if (bytes == 0) return {nullptr, nullptr, &Give, host};
    const std::size_t taken = bytes + kHeaderBytes;
    std::byte* const block = Pool().Take(taken);
    TORCH_CHECK_WITH(OutOfMemoryError, block != nullptr, "not enough memory: ", bytes,
                     " bytes for a tensor");
    std::memcpy(block, &taken, sizeof taken);
    std::byte* const values = block + kHeaderBytes;
    return {values, values, &Give, host};
  }
  // Operators ask for scratch memory by this.
  c10::DeleterFnPtr raw_deleter() const override { return &Give; }
  void copy_data(void* to, const void* from, std::size_t count) const override {
    default_copy_data(to, from, count);
  }

 private:
  static void Give(void* values) {
    if (values == nullptr) return;
    std::byte* const block = static_cast<std::byte*>(values) - kHeaderBytes;
    std::size_t taken = 0;
    std::memcpy(&taken, block, sizeof taken);
    Pool().Give(block, taken);
  }
};

}  // namespace

void UsePooledHostMemory() {
  static c10::Allocator* const pooled = [] {
    auto* const made = new PooledAllocator;
    constexpr std::uint8_t kBeforeDefault = 1;
    c10::SetCPUAllocator(made, kBeforeDefault);
    return made;
  }();
  static_cast<void>(pooled);
}

void TrimHostMemory() { Pool().Trim(); }

}  // namespace shoal::model
