// LibTorch's exceptions as Status. Internal to model/. Thread: any.

#ifndef SHOAL_MODEL_TORCH_GUARD_H_
#define SHOAL_MODEL_TORCH_GUARD_H_

#include <exception>
#include <new>
#include <string>
#include <string_view>

#include "common/status.h"

namespace shoal::model {

// What a stage can do with less.
inline constexpr char kLessMemory[] =
    "; take more stages, a base of fewer bits, recompute, or smaller micro-batches";

// The first line of what LibTorch says; the rest is a stack trace.
inline Status FromTorch(std::string_view operation, std::string_view what) {
  const std::string line(what.substr(0, what.find('\n')));
  const std::string message = std::string(operation) + " failed: " + line;
  for (const char* words : {"out of memory", "not enough memory", "can't allocate memory"}) {
    if (what.find(words) != std::string_view::npos) {
      return ResourceExhausted(message + kLessMemory);
    }
  }
  return Internal(message);
}

// What `function` returns, or throws: as resource exhausted if memory is short, else as internal.
template <typename Function>
Status Guard(std::string_view operation, Function function) {
  try {
    return function();
  } catch (const std::bad_alloc&) {
    return ResourceExhausted(std::string(operation) + " failed: out of memory" + kLessMemory);
  } catch (const std::exception& error) {
    return FromTorch(operation, error.what());
  }
}

}  // namespace shoal::model

#endif  // SHOAL_MODEL_TORCH_GUARD_H_
