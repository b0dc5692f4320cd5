// LibTorch's exceptions as Status. Internal to model/. Thread: any.

#ifndef SHOAL_MODEL_TORCH_GUARD_H_
#define SHOAL_MODEL_TORCH_GUARD_H_

#include <exception>
#include <new>
#include <string>
#include <string_view>

#include "common/status.h"
#include "model/memory_use.h"

namespace shoal::model {

// Whether LibTorch says so, or one of the libraries below it.
inline bool SaysOutOfMemory(std::string_view what) {
  for (const char* words :
       {"out of memory", "not enough memory", "can't allocate memory", "STATUS_ALLOC_FAILED"}) {
    if (what.find(words) != std::string_view::npos) return true;
  }
  return false;
}

// What `function` returns, or throws: as resource exhausted, with `use()` of memory, if it is
// short, else as internal with the first line of what LibTorch says; the rest is a stack trace.
template <typename Function, typename Use>
Status Guard(std::string_view operation, Function function, const Use& use) {
  const auto exhausted = [&](std::uint64_t asked_bytes) {
    return ResourceExhausted(std::string(operation) +
                             " failed: " + OutOfMemoryText(use(), asked_bytes));
  };
  try {
    return function();
  } catch (const std::bad_alloc&) {
    return exhausted(0);
  } catch (const std::exception& error) {
    const std::string_view what = error.what();
    if (SaysOutOfMemory(what)) return exhausted(AskedBytes(what));
    return Internal(std::string(operation) +
                    " failed: " + std::string(what.substr(0, what.find('\n'))));
  }
}

// Where nobody knows what holds the memory.
template <typename Function>
Status Guard(std::string_view operation, Function function) {
  return Guard(operation, function, [] { return MemoryUse{}; });
}

}  // namespace shoal::model

#endif  // SHOAL_MODEL_TORCH_GUARD_H_
