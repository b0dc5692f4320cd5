// The compute device of a stage, and LibTorch's process-wide settings.

#ifndef SHOAL_MODEL_TORCH_DEVICE_H_
#define SHOAL_MODEL_TORCH_DEVICE_H_

#include <cstddef>
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
  bool multiplies_bf16 = false;  // in hardware: compute capability 8.0 (GeForce 30) or newer

  bool is_cpu() const { return id == "cpu"; }
};

// "cpu", "cuda", "cuda:N", or "auto": the first CUDA device if there is one, else the CPU.
Result<TorchDevice> ChooseDevice(const std::string& text);

// Its place on the PCI bus, by which other tools of the driver know it ("0000:01:00.0"); empty: the
// CPU, or not known. Thread: any.
std::string BusIdOf(const TorchDevice& device);

// The number format of a stage's products: "fp32" and "bf16" as they are; "auto" is bf16 where the
// device multiplies it, else fp32. Invalid argument: another text.
Result<std::string> ChooseCompute(const std::string& text, const TorchDevice& device);

// Bytes that tensors on the device may take together. `asked_bytes` 0: of a CUDA device what is
// free, less a tenth, for what is not in LibTorch's pool (kernels, their workspaces, other
// programs); of the CPU no bound, 0. Invalid argument: more than device or machine have.
// `free_bytes`: of the device; `machine_bytes`: of the machine, 0 if unknown. Pure.
Result<std::uint64_t> DeviceMemoryLimit(const TorchDevice& device, std::uint64_t free_bytes,
                                        std::uint64_t machine_bytes, std::uint64_t asked_bytes);
// The same with what is free now or in the pool already, set in LibTorch's pool of this process;
// what no tensor uses goes back to the device. Tensors stay that take more. Thread: compute, or any
// before the first stage.
Result<std::uint64_t> LimitDeviceMemory(const TorchDevice& device, std::uint64_t asked_bytes);
// What was set; 0: no bound.
std::uint64_t DeviceMemoryLimitOf(const TorchDevice& device);
// Most that the process's tensors had of the device at a time since the last call of
// ForgetDevicePeak; on a GPU a tenth more, as its pool has gaps. Thread: compute.
std::uint64_t DevicePeakBytes(const TorchDevice& device);
void ForgetDevicePeak(const TorchDevice& device);

struct CudaDeviceFacts {
  std::string name;
  int major = 0, minor = 0;  // compute capability
  std::uint64_t memory_bytes = 0, free_bytes = 0;

  TorchDevice device(std::size_t index) const;
};
struct CudaSupport {
  bool built = false;                    // this build can use CUDA
  int runtime = 0, driver = 0;           // versions, 13000 is 13.0; driver 0: there is none
  std::vector<CudaDeviceFacts> devices;  // that it finds
};
// Starts the CUDA runtime.
CudaSupport FindCuda();

// Intra-op threads of the process; 0 leaves LibTorch's choice. Results are bit-identical only
// between runs with the same number, because matrix products split by it. Also readies the vector
// functions of the CPU, so that the first of a process are as exact as the rest. Thread: any.
void StartTorchMath(int threads);

}  // namespace shoal::model

#endif  // SHOAL_MODEL_TORCH_DEVICE_H_
