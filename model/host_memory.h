// LibTorch's memory on the host, from a pool: the tensors of a layer are megabytes large and live
// for milliseconds (common/block_pool.h).
//
// Internal to model/. Thread: any.

#ifndef SHOAL_MODEL_HOST_MEMORY_H_
#define SHOAL_MODEL_HOST_MEMORY_H_

namespace shoal::model {

// For all tensors of the process made from now on. Later calls change nothing.
void UsePooledHostMemory();

}  // namespace shoal::model

#endif  // SHOAL_MODEL_HOST_MEMORY_H_
