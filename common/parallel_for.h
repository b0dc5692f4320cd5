// Work on slices of something large, by the calling thread and by an executor's.

#ifndef SHOAL_COMMON_PARALLEL_FOR_H_
#define SHOAL_COMMON_PARALLEL_FOR_H_

#include <cstddef>
#include <functional>

#include "common/executor.h"

namespace shoal {

// Calls `work(i)` once for every i below `slices`, several at a time, and returns after the last.
// The caller runs slices itself and waits only for those that a helper has begun. So it returns
// even if `helpers` runs nothing, and the caller may be a thread of `helpers`. Slices must not
// depend on the number of threads; then results do not, either. `work` does not wait and does not
// throw. `name`: of the helpers' tasks, a string literal. Null `helpers`: the caller runs all
// slices. Thread: any but control.
void ParallelFor(Executor* helpers, const char* name, std::size_t slices,
                 const std::function<void(std::size_t)>& work);

}  // namespace shoal

#endif  // SHOAL_COMMON_PARALLEL_FOR_H_
