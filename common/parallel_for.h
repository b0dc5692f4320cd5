// Work on slices of something large, by the calling thread and by an executor's.

#ifndef SHOAL_COMMON_PARALLEL_FOR_H_
#define SHOAL_COMMON_PARALLEL_FOR_H_

#include <cstddef>
#include <functional>

#include "common/executor.h"

namespace shoal {

// Calls `work(i)` once for every i below `slices`, several at a time, and returns behind the last.
// The caller takes slices itself and waits only for those that a helper has begun, so it returns
// even if none of `helpers` ever runs, and may be a thread of it. What a slice is must not depend
// on the number of threads: then results do not, either. `work` does not wait and does not throw.
// `name`: of the helpers' tasks, a string literal. Null `helpers`: the caller does all. Thread: any
// but control.
void ParallelFor(Executor* helpers, const char* name, std::size_t slices,
                 const std::function<void(std::size_t)>& work);

}  // namespace shoal

#endif  // SHOAL_COMMON_PARALLEL_FOR_H_
