#include "model/host_memory.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/util/Exception.h>

#ifdef SHOAL_CUDA
#include <c10/cuda/CUDACachingAllocator.h>
#endif

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "common/memory/block_pool.h"
#ifdef SHOAL_CUDA
#include "model/torch_guard.h"
#endif

namespace shoal::model {
namespace {

// More than the buffers of messages: all that a step computes with.
constexpr std::size_t kKeptBytesMax = std::size_t{1} << 30;

// Never destroyed: tensors may outlive everything else.
BlockPool& Pool() {
  static BlockPool* const pool = new BlockPool(BlockPool::UnlessSanitized(kKeptBytesMax));
  return *pool;
}

// Of all threads.
std::atomic<std::uint64_t> limit_bytes = 0;  // 0: none
std::atomic<std::uint64_t> used_bytes = 0;
std::atomic<std::uint64_t> peak_bytes = 0;

void RaisePeak(std::uint64_t used) {
  std::uint64_t peak = peak_bytes.load(std::memory_order_relaxed);
  while (used > peak && !peak_bytes.compare_exchange_weak(peak, used, std::memory_order_relaxed)) {
  }
}

// Before a tensor's values: how large the block is. As large as the alignment, which they keep.
constexpr std::size_t kHeaderBytes = BlockPool::kAlignment;

class PooledAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    const c10::Device host(c10::kCPU);
    if (bytes == 0) return {nullptr, nullptr, &Give, host};
    const std::size_t taken = bytes + kHeaderBytes;
    const std::uint64_t limit = limit_bytes.load(std::memory_order_relaxed);
    const std::uint64_t used = used_bytes.fetch_add(taken, std::memory_order_relaxed);
    const bool within = limit == 0 || (taken <= limit && used <= limit - taken);
    std::byte* const block = within ? Pool().Take(taken) : nullptr;
    if (block == nullptr) used_bytes.fetch_sub(taken, std::memory_order_relaxed);
    TORCH_CHECK_WITH(OutOfMemoryError, block != nullptr, "not enough memory: tried to allocate ",
                     bytes, " bytes for a tensor");
    RaisePeak(used + taken);
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
    used_bytes.fetch_sub(taken, std::memory_order_relaxed);
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

void LimitHostTensors(std::uint64_t bytes) { limit_bytes.store(bytes); }
std::uint64_t HostTensorLimit() { return limit_bytes.load(); }

std::uint64_t HostTensorBytes() { return used_bytes.load(); }
std::uint64_t HostTensorPeak() { return peak_bytes.load(); }
void ForgetHostPeak() { peak_bytes.store(used_bytes.load()); }

void TrimHostMemory() {
  Pool().Trim();
#ifdef SHOAL_CUDA
  // Blocks of one stage's sizes would be in the next one's way.
  namespace pool = c10::cuda::CUDACachingAllocator;
  (void)Guard("giving back memory", [] {
    if (pool::get()->initialized()) pool::emptyCache();
    return Status::Ok();
  });
#endif
}

}  // namespace shoal::model
