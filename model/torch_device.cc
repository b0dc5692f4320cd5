#include "model/torch_device.h"

#include <ATen/Parallel.h>
#include <ATen/detail/CUDAHooksInterface.h>

#ifdef SHOAL_CUDA
#include <cuda_runtime_api.h>
#endif

#include <charconv>
#include <cstdlib>

namespace shoal::model {
namespace {

int CudaDevices() {
  const auto& hooks = at::detail::getCUDAHooks();
  return hooks.hasCUDA() ? static_cast<int>(hooks.deviceCount()) : 0;
}

TorchDevice CudaDevice(int index) {
  // cuBLAS repeats its results bit for bit only with a fixed workspace; must precede its start.
  setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", 0);
  const std::string id = "cuda:" + std::to_string(index);
  TorchDevice device{id, id};
#ifdef SHOAL_CUDA
  cudaDeviceProp properties;
  if (cudaGetDeviceProperties(&properties, index) == cudaSuccess) {
    device.name += std::string(" ") + properties.name;
    device.memory_bytes = properties.totalGlobalMem;
  }
#endif
  return device;
}

}  // namespace

CudaSupport FindCuda() {
  CudaSupport found;
#ifdef SHOAL_CUDA
  found.built = true;
  (void)cudaRuntimeGetVersion(&found.runtime);
  (void)cudaDriverGetVersion(&found.driver);
  const int devices = CudaDevices();
  for (int index = 0; index < devices; ++index) {
    cudaDeviceProp properties;
    std::size_t free_bytes = 0, bytes = 0;
    if (cudaGetDeviceProperties(&properties, index) != cudaSuccess) continue;
    if (cudaSetDevice(index) != cudaSuccess || cudaMemGetInfo(&free_bytes, &bytes) != cudaSuccess) {
      bytes = properties.totalGlobalMem;
    }
    found.devices.push_back(
        {properties.name, properties.major, properties.minor, bytes, free_bytes});
  }
  if (devices > 0) (void)cudaSetDevice(0);
#endif
  return found;
}

Result<TorchDevice> ChooseDevice(const std::string& text) {
  if (text == "cpu") return TorchDevice{"cpu", "cpu"};
  const int devices = CudaDevices();
  if (text == "auto") return devices > 0 ? CudaDevice(0) : TorchDevice{"cpu", "cpu"};
  int index = 0;
  if (text != "cuda") {
    const std::string prefix = "cuda:";
    const char* const end = text.data() + text.size();
    const bool prefixed = text.rfind(prefix, 0) == 0;
    const auto parsed = std::from_chars(text.data() + (prefixed ? prefix.size() : 0), end, index);
    if (!prefixed || parsed.ec != std::errc() || parsed.ptr != end || index < 0) {
      return InvalidArgument("unknown device '" + text + "': use cpu, cuda, cuda:N or auto");
    }
  }
  if (devices == 0) {
#ifdef SHOAL_CUDA
    return FailedPrecondition("device '" + text +
                              "': no CUDA device was found; check the driver, or use cpu or auto");
#else
    return FailedPrecondition("device '" + text +
                              "': this build has no CUDA; build with -DSHOAL_CUDA=ON, or use cpu");
#endif
  }
  if (index >= devices) {
    return FailedPrecondition("device '" + text + "': there are " + std::to_string(devices) +
                              " CUDA devices, counted from 0");
  }
  return CudaDevice(index);
}

void SetTorchThreads(int threads) {
  if (threads > 0) at::set_num_threads(threads);
}

}  // namespace shoal::model
