// What a stage's memory goes to, for the error that says that it ran out. Pure. Thread: any.

#ifndef SHOAL_MODEL_MEMORY_USE_H_
#define SHOAL_MODEL_MEMORY_USE_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "model/families/model_spec.h"
#include "model/stage_options.h"

namespace shoal::model {

struct MemoryUse {
  std::uint64_t state_bytes = 0;        // trained weights, their gradients and moments
  std::uint64_t base_bytes = 0;         // what adapters leave as it is
  std::uint64_t micro_batches = 0;      // kept between forward and backward
  std::uint64_t micro_batch_bytes = 0;  // of the largest of them, at most
  std::uint64_t limit_bytes = 0;        // of the pool (torch_device.h); 0: none
  bool trains = true;                   // else the stage holds weights alone
  bool adapted = false;
  bool recompute = false;
};

// Of a stage that is about to be made, as far as its options tell.
MemoryUse UseOf(const ModelSpec& spec, const StageOptions& options, std::uint64_t limit_bytes);

// Bytes that could not be had, as LibTorch's message says them; 0: it does not.
std::uint64_t AskedBytes(std::string_view what);

// What to say behind an operation's name: what was asked for, the largest item with its size, and
// what to change. One line.
std::string OutOfMemoryText(const MemoryUse& use, std::uint64_t asked_bytes);

}  // namespace shoal::model

#endif  // SHOAL_MODEL_MEMORY_USE_H_
