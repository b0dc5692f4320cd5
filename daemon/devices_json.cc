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

}  // namespace

std::string DevicesJson() {
  const model::CudaSupport cuda = model::FindCuda();
  nlohmann::ordered_json json = {{"schemaVersion", 1},
                                 {"cudaBuild", cuda.built},
                                 {"cudaRuntime", cuda.built ? Version(cuda.runtime) : ""},
                                 {"cudaDriver", cuda.driver > 0 ? Version(cuda.driver) : ""},
                                 {"cudaDevices", cuda.devices.size()},
                                 {"devices", nlohmann::ordered_json::array()}};
  for (const model::CudaDeviceFacts& device : cuda.devices) {
    json["devices"].push_back(
        {{"name", device.name},
         {"computeCapability", std::to_string(device.major) + "." + std::to_string(device.minor)},
         {"memoryBytes", device.memory_bytes},
         {"freeMemoryBytes", device.free_bytes}});
  }
  if (!cuda.devices.empty()) {
    const auto codec = compression::MakeDeviceCodec("direct:bits=4", 64);
    json["codecTrouble"] = codec.ok() ? "" : codec.status().message();
  }
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace shoal::daemon
