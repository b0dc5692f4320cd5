#include "daemon/devices_json.h"

#include <nlohmann/json.hpp>

#include "compression/device/device_codec.h"
#include "model/torch_device.h"

namespace shoal::daemon {
namespace {

// 13000 is "13.0", as CUDA counts.
std::string Version(int number) {
  return std::to_string(number / 1000) + "." + std::to_string(number % 1000 / 10);
}

// What a stage on the device would take of its memory and compute in.
void AddStage(const model::TorchDevice& device, std::uint64_t free_bytes,
              const DaemonConfig& config, nlohmann::ordered_json* json) {
  const auto limit = model::DeviceMemoryLimit(device, free_bytes, 0, config.device_memory_bytes);
  (*json)["stageMemoryBytes"] = limit.ok() ? *limit : 0;
  (*json)["stageMemoryTrouble"] = limit.ok() ? "" : limit.status().message();
  (*json)["compute"] = model::ChooseCompute("auto", device).value();
}

}  // namespace

std::string DevicesJson(const DaemonConfig& config) {
  const model::CudaSupport cuda = model::FindCuda();
  nlohmann::ordered_json json = {{"schemaVersion", 1},
                                 {"cudaBuild", cuda.built},
                                 {"cudaRuntime", cuda.built ? Version(cuda.runtime) : ""},
                                 {"cudaDriver", cuda.driver > 0 ? Version(cuda.driver) : ""},
                                 {"cudaDevices", cuda.devices.size()},
                                 {"devices", nlohmann::ordered_json::array()}};
  for (std::size_t index = 0; index < cuda.devices.size(); ++index) {
    const model::CudaDeviceFacts& device = cuda.devices[index];
    json["devices"].push_back(
        {{"name", device.name},
         {"computeCapability", std::to_string(device.major) + "." + std::to_string(device.minor)},
         {"memoryBytes", device.memory_bytes},
         {"freeMemoryBytes", device.free_bytes}});
    AddStage(device.device(index), device.free_bytes, config, &json["devices"].back());
  }
  if (!cuda.devices.empty()) {
    const auto codec = compression::MakeDeviceCodec("direct:bits=4", 64);
    json["codecTrouble"] = codec.ok() ? "" : codec.status().message();
  }
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace shoal::daemon
