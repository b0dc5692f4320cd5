#include "replica/parameter_slices.h"

#include <algorithm>

#include "common/parallel_for.h"

namespace shoal::replica {

std::vector<double> ForSlices(Executor* helpers, const char* name,
                              const std::vector<model::TensorLayout>& tensors,
                              const std::function<double(const TensorSlice&)>& work) {
  std::vector<TensorSlice> slices;
  std::vector<std::size_t> tasks;  // first slices: small tensors share one
  std::size_t in_task = kSliceValues;
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    for (std::size_t at = 0; at < tensors[t].size; at += kSliceValues) {
      const std::size_t values = std::min(kSliceValues, tensors[t].size - at);
      if (in_task + values > kSliceValues) {
        tasks.push_back(slices.size());
        in_task = 0;
      }
      in_task += values;
      slices.push_back({t, tensors[t].offset + at, values});
    }
  }
  const std::size_t count = tasks.size();
  tasks.push_back(slices.size());
  std::vector<double> given(slices.size());
  ParallelFor(helpers, name, count, [&](std::size_t task) {
    for (std::size_t i = tasks[task]; i < tasks[task + 1]; ++i) given[i] = work(slices[i]);
  });
  std::vector<double> sums(tensors.size());
  for (std::size_t i = 0; i < slices.size(); ++i) sums[slices[i].tensor] += given[i];
  return sums;
}

}  // namespace shoal::replica
