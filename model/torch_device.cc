#include "model/torch_device.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/zeros.h>

#ifdef SHOAL_CUDA
#include <c10/core/Device.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <cuda_runtime_api.h>
#endif

#include <array>
#include <charconv>
#include <cstdlib>

#include "common/process/machine_memory.h"
#include "common/units.h"
#include "model/host_memory.h"
#include "model/torch_guard.h"

namespace shoal::model {
namespace {

int CudaDevices() {
  const auto& hooks = at::detail::getCUDAHooks();
  return hooks.hasCUDA() ? static_cast<int>(hooks.deviceCount()) : 0;
}

constexpr int kBf16Major = 8;  // of the compute capability

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
    device.multiplies_bf16 = properties.major >= kBf16Major;
  }
#endif
  return device;
}

#ifdef SHOAL_CUDA
constexpr auto kAllSizes = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);

// Free of a CUDA device, beside the context that this call makes if there is none.
Result<std::uint64_t> FreeBytes(const TorchDevice& device) {
  std::size_t free_bytes = 0, bytes = 0;
  const int index = c10::Device(device.id).index();
  cudaError_t error = cudaSetDevice(index);
  if (error == cudaSuccess) error = cudaMemGetInfo(&free_bytes, &bytes);
  if (error == cudaSuccess) return std::uint64_t{free_bytes};
  return FailedPrecondition("device '" + device.id + "' cannot be used (" +
                            cudaGetErrorString(error) + "); look at nvidia-smi, or use cpu");
}

// That LibTorch's pool took of the device.
std::uint64_t PoolBytes(const TorchDevice& device) {
  namespace pool = c10::cuda::CUDACachingAllocator;
  if (!pool::get()->initialized()) return 0;
  const auto stats = pool::getDeviceStats(c10::Device(device.id).index());
  return static_cast<std::uint64_t>(stats.reserved_bytes[kAllSizes].current);
}

Status SetPoolLimit(const TorchDevice& device, std::uint64_t bytes) {
  return Guard("limiting the memory of " + device.id, [&] {
    at::globalContext().lazyInitDevice(c10::kCUDA);
    c10::cuda::CUDACachingAllocator::setMemoryFraction(
        static_cast<double>(bytes) / static_cast<double>(device.memory_bytes),
        c10::Device(device.id).index());
    return Status::Ok();
  });
}
#endif

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
                              "': this build has no CUDA; run ./x build cuda, or use cpu");
#endif
  }
  if (index >= devices) {
    return FailedPrecondition("device '" + text + "': there are " + std::to_string(devices) +
                              " CUDA devices, counted from 0");
  }
  return CudaDevice(index);
}

std::string BusIdOf([[maybe_unused]] const TorchDevice& device) {
#ifdef SHOAL_CUDA
  std::array<char, 32> text{};
  if (!device.is_cpu() && cudaDeviceGetPCIBusId(text.data(), static_cast<int>(text.size()),
                                                c10::Device(device.id).index()) == cudaSuccess) {
    return text.data();
  }
#endif
  return "";
}

TorchDevice CudaDeviceFacts::device(std::size_t index) const {
  const std::string id = "cuda:" + std::to_string(index);
  return {id, id + " " + name, memory_bytes, major >= kBf16Major};
}

Result<std::string> ChooseCompute(const std::string& text, const TorchDevice& device) {
  if (text == "fp32" || text == "bf16") return text;
  if (text == "auto") return std::string(device.multiplies_bf16 ? "bf16" : "fp32");
  return InvalidArgument("unknown compute type '" + text + "': use auto, fp32 or bf16");
}

Result<std::uint64_t> DeviceMemoryLimit(const TorchDevice& device, std::uint64_t free_bytes,
                                        std::uint64_t machine_bytes, std::uint64_t asked_bytes) {
  const std::uint64_t all = device.is_cpu() ? machine_bytes : device.memory_bytes;
  if (asked_bytes == 0) return device.is_cpu() ? 0 : free_bytes - free_bytes / 10;
  if (all == 0 || asked_bytes <= all) return asked_bytes;
  return InvalidArgument("limits.device_memory is " + FormatBytes(asked_bytes) + ", but " +
                         (device.is_cpu() ? std::string("the machine") : device.name) + " has " +
                         FormatBytes(all) + "; write less, or leave it empty");
}

Result<std::uint64_t> LimitDeviceMemory(const TorchDevice& device, std::uint64_t asked_bytes) {
  if (device.is_cpu()) {
    SHOAL_ASSIGN_OR_RETURN(const std::uint64_t limit,
                           DeviceMemoryLimit(device, 0, MachineMemoryBytes(), asked_bytes));
    UsePooledHostMemory();
    LimitHostTensors(limit);
    TrimHostMemory();
    return limit;
  }
#ifdef SHOAL_CUDA
  TrimHostMemory();
  SHOAL_ASSIGN_OR_RETURN(const std::uint64_t free_bytes, FreeBytes(device));
  SHOAL_ASSIGN_OR_RETURN(const std::uint64_t limit,
                         DeviceMemoryLimit(device, free_bytes + PoolBytes(device), 0, asked_bytes));
  SHOAL_RETURN_IF_ERROR(SetPoolLimit(device, limit));
  return limit;
#else
  return FailedPrecondition("device '" + device.id + "': this build has no CUDA");
#endif
}

std::uint64_t DeviceMemoryLimitOf(const TorchDevice& device) {
  if (device.is_cpu()) return HostTensorLimit();
#ifdef SHOAL_CUDA
  namespace pool = c10::cuda::CUDACachingAllocator;
  if (!pool::get()->initialized()) return 0;
  const double part = pool::getMemoryFraction(c10::Device(device.id).index());
  if (part < 1) return static_cast<std::uint64_t>(part * static_cast<double>(device.memory_bytes));
#endif
  return 0;
}

std::uint64_t DevicePeakBytes(const TorchDevice& device) {
  if (device.is_cpu()) return HostTensorPeak();
#ifdef SHOAL_CUDA
  namespace pool = c10::cuda::CUDACachingAllocator;
  if (!pool::get()->initialized()) return 0;
  const auto stats = pool::getDeviceStats(c10::Device(device.id).index());
  const auto peak = static_cast<std::uint64_t>(stats.allocated_bytes[kAllSizes].peak);
  return peak + peak / 10;
#else
  return 0;
#endif
}

void ForgetDevicePeak(const TorchDevice& device) {
  if (device.is_cpu()) return ForgetHostPeak();
#ifdef SHOAL_CUDA
  namespace pool = c10::cuda::CUDACachingAllocator;
  if (pool::get()->initialized()) pool::resetPeakStats(c10::Device(device.id).index());
#endif
}

void StartTorchMath(int threads) {
  if (threads > 0) at::set_num_threads(threads);
  // Where threads make a process's first call together, MKL gives one of them its least accurate
  // functions: on a busy machine 2 % of first losses were off by 2e-6, exponentials by 1.5e-4.
  static const bool ready = at::exp(at::zeros(1)).defined();
  (void)ready;
}

}  // namespace shoal::model
