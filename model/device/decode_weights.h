// Decodes frozen weights on a CUDA device (decode_lanes.h). Builds with CUDA only.

#ifndef SHOAL_MODEL_DEVICE_DECODE_WEIGHTS_H_
#define SHOAL_MODEL_DEVICE_DECODE_WEIGHTS_H_

#include "model/device/decode_lanes.h"

namespace shoal::model {

// All values of `weight` to `out`, aligned to 16 bytes, as fp32 or, rounded to nearest, bf16. Done
// in the order of `stream`, a cudaStream_t, on the current device; errors show in cudaGetLastError.
// Thread: any.
void DecodeOnDevice(const Nf4Codes& weight, bool bf16, void* out, void* stream);
void DecodeOnDevice(const Int8Codes& weight, bool bf16, void* out, void* stream);

}  // namespace shoal::model

#endif  // SHOAL_MODEL_DEVICE_DECODE_WEIGHTS_H_
