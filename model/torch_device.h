// The compute device of a stage, and LibTorch's process-wide settings.

#ifndef SHOAL_MODEL_TORCH_DEVICE_H_
#define SHOAL_MODEL_TORCH_DEVICE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "common/status.h"

namespace shoal::model {

struct TorchDevice {
  std::string id;    // "cpu" or "cuda:N", as LibTorch spells it
  std::string name;  // for people: "cpu", "cuda:0 NVIDIA ..."
  // All that a CUDA device has; 0: unknown, or it is the machine's.
  std::uint64_t memory_bytes = 0;
};

// "cpu", "cuda", "cuda:N", or "auto": the first CUDA device if there is one, else the CPU.
Result<TorchDevice> ChooseDevice(const std::string& text);

struct CudaDeviceFacts {
  std::string name;
  int major = 0, minor = 0;  // compute capability
  std::uint64_t memory_bytes = 0, free_bytes = 0;
};
struct CudaSupport {
  bool built = false;                    // this build can use CUDA
  int runtime = 0, driver = 0;           // versions, 13000 is 13.0; driver 0: there is none
  std::vector<CudaDeviceFacts> devices;  // that it finds
};
// Starts the CUDA runtime.
CudaSupport FindCuda();

// Intra-op threads of the process; 0 leaves LibTorch's choice. Results are bit-identical only
// between runs with the same number, because matrix products split by it.
void SetTorchThreads(int threads);

}  // namespace shoal::model

#endif  // SHOAL_MODEL_TORCH_DEVICE_H_
