// Work on all values of a part of a stage, by the calling thread and the codec threads.

#ifndef SHOAL_REPLICA_PARAMETER_SLICES_H_
#define SHOAL_REPLICA_PARAMETER_SLICES_H_

#include <cstddef>
#include <functional>
#include <vector>

#include "common/executor.h"
#include "model/stage_model.h"

namespace shoal::replica {

// Values [first, first + values) of a part's vector, all of one tensor.
struct TensorSlice {
  std::size_t tensor = 0, first = 0, values = 0;
};

inline constexpr std::size_t kSliceValues = std::size_t{1} << 17;  // at most

// Does `work` for slices that cover all of `tensors`, several at a time (common/parallel_for.h),
// and returns, by tensor, the sum of what it gave. Slices and the order of the sums depend on the
// tensors alone, so all members have the same bits, whatever threads they have. Thread: compute.
std::vector<double> ForSlices(Executor* helpers, const char* name,
                              const std::vector<model::TensorLayout>& tensors,
                              const std::function<double(const TensorSlice&)>& work);

}  // namespace shoal::replica

#endif  // SHOAL_REPLICA_PARAMETER_SLICES_H_
