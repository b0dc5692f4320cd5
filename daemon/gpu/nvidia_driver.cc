#include "daemon/gpu/nvidia_driver.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace shoal::daemon {
namespace {

// The part of NVML's interface that is used, as its reference describes it. Functions without
// a version in their name never changed.
using Device = void*;
using Code = int;
constexpr Code kSuccess = 0, kNoPermission = 4, kNotFound = 6, kTooSmall = 7;
// Codes of a card that has fallen off its bus or wants a reset, of a driver that was unloaded, and
// of a container whose right to the card is gone (the driver says "Unknown Error" then).
constexpr std::array<Code, 4> kLost = {9, 15, 16, 999};

struct MemoryInfo {
  unsigned long long total, free, used;
};
struct Utilization {
  unsigned gpu, memory;  // percent
};
struct ProcessInfo {
  unsigned pid;
  unsigned long long used_memory;  // all bits set: not told
};
struct ProcessSample {
  unsigned pid;
  unsigned long long time_us;
  unsigned compute, memory, encoder, decoder;  // percent
};

// Bounds on what a driver tells: more processes, or samples, are none.
constexpr unsigned kProcessesMax = 1024;
constexpr std::size_t kNameBytesMax = 96;  // of NVML_DEVICE_NAME_V2_BUFFER_SIZE
constexpr std::uint64_t kMilliwattsMax = 100'000'000;

struct Functions {
  Code (*init)() = nullptr;
  Code (*shutdown)() = nullptr;
  const char* (*error_text)(Code) = nullptr;
  Code (*by_bus_id)(const char*, Device*) = nullptr;
  Code (*by_index)(unsigned, Device*) = nullptr;
  Code (*name)(Device, char*, unsigned) = nullptr;
  Code (*power)(Device, unsigned*) = nullptr;
  Code (*energy)(Device, unsigned long long*) = nullptr;
  Code (*power_limit)(Device, unsigned*) = nullptr;
  Code (*power_default)(Device, unsigned*) = nullptr;
  Code (*power_range)(Device, unsigned*, unsigned*) = nullptr;
  Code (*set_power_limit)(Device, unsigned) = nullptr;
  Code (*memory)(Device, MemoryInfo*) = nullptr;
  Code (*utilization)(Device, Utilization*) = nullptr;
  Code (*compute_processes)(Device, unsigned*, ProcessInfo*) = nullptr;
  Code (*graphics_processes)(Device, unsigned*, ProcessInfo*) = nullptr;
  Code (*samples)(Device, ProcessSample*, unsigned*, unsigned long long) = nullptr;
};

// False: an old driver does not have it.
template <typename Function>
bool Find(void* library, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(::dlsym(library, name));
  return *function != nullptr;
}

// What cannot be done without; else the name of what is missing.
std::string FindAll(void* library, Functions* f) {
  if (!Find(library, "nvmlInit_v2", &f->init)) return "nvmlInit_v2";
  if (!Find(library, "nvmlShutdown", &f->shutdown)) return "nvmlShutdown";
  if (!Find(library, "nvmlErrorString", &f->error_text)) return "nvmlErrorString";
  if (!Find(library, "nvmlDeviceGetHandleByPciBusId_v2", &f->by_bus_id) ||
      !Find(library, "nvmlDeviceGetHandleByIndex_v2", &f->by_index)) {
    return "nvmlDeviceGetHandle";
  }
  Find(library, "nvmlDeviceGetName", &f->name);
  Find(library, "nvmlDeviceGetPowerUsage", &f->power);
  Find(library, "nvmlDeviceGetTotalEnergyConsumption", &f->energy);
  Find(library, "nvmlDeviceGetPowerManagementLimit", &f->power_limit);
  Find(library, "nvmlDeviceGetPowerManagementDefaultLimit", &f->power_default);
  Find(library, "nvmlDeviceGetPowerManagementLimitConstraints", &f->power_range);
  Find(library, "nvmlDeviceSetPowerManagementLimit", &f->set_power_limit);
  Find(library, "nvmlDeviceGetMemoryInfo", &f->memory);
  Find(library, "nvmlDeviceGetUtilizationRates", &f->utilization);
  Find(library, "nvmlDeviceGetComputeRunningProcesses", &f->compute_processes);
  Find(library, "nvmlDeviceGetGraphicsRunningProcesses", &f->graphics_processes);
  Find(library, "nvmlDeviceGetProcessUtilization", &f->samples);
  return "";
}

// Asks for a figure; none where the driver does not tell.
template <typename Figure>
std::optional<Figure> Ask(Code (*function)(Device, Figure*), Device device) {
  Figure figure{};
  if (function == nullptr || function(device, &figure) != kSuccess) return std::nullopt;
  return figure;
}

std::optional<std::uint64_t> Milliwatts(Code (*function)(Device, unsigned*), Device device) {
  const auto told = Ask(function, device);
  if (!told || *told > kMilliwattsMax) return std::nullopt;
  return std::uint64_t{*told};
}

class NvidiaDriver final : public GpuDriver {
 public:
  NvidiaDriver(void* library, const Functions& functions) : library_(library), nvml_(functions) {}
  ~NvidiaDriver() override {
    if (started_) {
      if (former_limit_) (void)nvml_.set_power_limit(device_, *former_limit_);
      nvml_.shutdown();
    }
    ::dlclose(library_);
  }

  Status Start(const std::string& card);
  GpuReading Read(bool processes) override;
  Status LimitPower(std::uint32_t watts) override;

 private:
  std::string Text(Code code) const {
    const char* const text = nvml_.error_text(code);
    return text != nullptr ? text : "error " + std::to_string(code);
  }
  std::string Lost() const;
  void AddProcesses(Code (*list)(Device, unsigned*, ProcessInfo*),
                    std::map<unsigned, GpuProcess>* processes) const;
  bool AddSamples(std::map<unsigned, GpuProcess>* processes);

  void* const library_;
  const Functions nvml_;
  bool started_ = false;
  Device device_ = nullptr;
  std::string name_;
  unsigned long long sampled_us_ = 0;     // the newest sample that was read
  std::optional<unsigned> former_limit_;  // in mW, while one of ours is set
};

Status NvidiaDriver::Start(const std::string& card) {
  Code code = nvml_.init();
  if (code != kSuccess) return Unavailable("NVIDIA's driver does not start: " + Text(code));
  started_ = true;
  unsigned index = 0;
  const char* const end = card.data() + card.size();
  const auto parsed = std::from_chars(card.data(), end, index);
  const bool numbered = parsed.ec == std::errc() && parsed.ptr == end;
  code = numbered ? nvml_.by_index(index, &device_) : nvml_.by_bus_id(card.c_str(), &device_);
  if (code != kSuccess) {
    return NotFound("NVIDIA's driver has no card " + card + ": " + Text(code) +
                    "; `nvidia-smi -L` lists them");
  }
  std::array<char, kNameBytesMax> name{};
  if (nvml_.name != nullptr && nvml_.name(device_, name.data(), name.size()) == kSuccess) {
    name.back() = '\0';
    name_ = name.data();
  }
  std::replace_if(
      name_.begin(), name_.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  if (name_.empty()) name_ = "NVIDIA card " + card;
  return Status::Ok();
}

GpuReading NvidiaDriver::Read(bool processes) {
  GpuReading reading;
  reading.name = name_;
  reading.lost = Lost();
  if (!reading.lost.empty()) return reading;
  reading.power_mw = Milliwatts(nvml_.power, device_);
  reading.power_limit_mw = Milliwatts(nvml_.power_limit, device_);
  if (const auto energy = Ask(nvml_.energy, device_)) reading.energy_mj = *energy;
  if (const auto memory = Ask(nvml_.memory, device_); memory && memory->used <= memory->total) {
    reading.memory_bytes = memory->total;
    reading.memory_used_bytes = memory->used;
  }
  if (const auto busy = Ask(nvml_.utilization, device_); busy && busy->gpu <= 100) {
    reading.busy_percent = busy->gpu;
  }
  if (!processes) return reading;
  std::map<unsigned, GpuProcess> found;
  AddProcesses(nvml_.compute_processes, &found);
  AddProcesses(nvml_.graphics_processes, &found);
  const bool sampled = AddSamples(&found);
  for (auto& [pid, process] : found) {
    if (sampled && !process.percent) process.percent = 0;
    reading.processes.push_back(process);
  }
  return reading;
}

// Each card tells one of these, whatever else its driver does not know of it.
std::string NvidiaDriver::Lost() const {
  MemoryInfo memory{};
  Utilization busy{};
  for (const Code code :
       {nvml_.memory == nullptr ? kSuccess : nvml_.memory(device_, &memory),
        nvml_.utilization == nullptr ? kSuccess : nvml_.utilization(device_, &busy)}) {
    if (std::ranges::find(kLost, code) != kLost.end()) return Text(code);
  }
  return "";
}

// A process may do both: its memory is named twice.
void NvidiaDriver::AddProcesses(Code (*list)(Device, unsigned*, ProcessInfo*),
                                std::map<unsigned, GpuProcess>* processes) const {
  if (list == nullptr) return;
  std::vector<ProcessInfo> infos(64);
  unsigned count = static_cast<unsigned>(infos.size());
  Code code = list(device_, &count, infos.data());
  if (code == kTooSmall && count <= kProcessesMax) {
    infos.resize(kProcessesMax);
    count = kProcessesMax;
    code = list(device_, &count, infos.data());
  }
  if (code != kSuccess || count > infos.size()) return;
  for (unsigned i = 0; i < count; ++i) {
    GpuProcess& process = (*processes)[infos[i].pid];
    process.pid = static_cast<int>(infos[i].pid);
    if (infos[i].used_memory != ~0ull) {
      process.memory_bytes = std::max<std::uint64_t>(process.memory_bytes, infos[i].used_memory);
    }
  }
}

// Mean of a process's samples since the last call. False: the driver does not tell.
bool NvidiaDriver::AddSamples(std::map<unsigned, GpuProcess>* processes) {
  if (nvml_.samples == nullptr) return false;
  unsigned count = 0;
  Code code = nvml_.samples(device_, nullptr, &count, sampled_us_);
  if (code == kSuccess || code == kNotFound) return true;  // none since then
  if (code != kTooSmall || count == 0 || count > kProcessesMax) return false;
  std::vector<ProcessSample> samples(count);
  code = nvml_.samples(device_, samples.data(), &count, sampled_us_);
  if (code == kNotFound) return true;
  if (code != kSuccess || count > samples.size()) return false;
  samples.resize(count);
  std::map<unsigned, std::pair<unsigned, unsigned>> sums;  // of percent, and how many
  for (const ProcessSample& sample : samples) {
    if (sample.compute > 100) continue;
    sums[sample.pid].first += sample.compute;
    ++sums[sample.pid].second;
    sampled_us_ = std::max(sampled_us_, sample.time_us);
  }
  for (const auto& [pid, sum] : sums) {
    const auto process = processes->find(pid);
    if (process != processes->end()) process->second.percent = sum.first / sum.second;
  }
  return true;
}

Status NvidiaDriver::LimitPower(std::uint32_t watts) {
  const auto refused = [&](Code code) {
    return FailedPrecondition("the driver refuses it: " + Text(code));
  };
  if (nvml_.set_power_limit == nullptr) return Unavailable("this driver sets no power limit");
  if (watts == 0) {
    if (!former_limit_) return Status::Ok();
    const Code code = nvml_.set_power_limit(device_, *former_limit_);
    if (code != kSuccess) return refused(code);
    former_limit_.reset();
    return Status::Ok();
  }
  unsigned least = 0, most = 0;
  const unsigned asked = watts * 1000;
  if (nvml_.power_range != nullptr && nvml_.power_range(device_, &least, &most) == kSuccess &&
      (asked < least || asked > most)) {
    return InvalidArgument("the card takes from " + std::to_string((least + 999) / 1000) + "W to " +
                           std::to_string(most / 1000) + "W");
  }
  const std::optional<unsigned> before = Ask(nvml_.power_limit, device_);
  if (!before) return Unavailable("the driver does not tell the limit of now");
  const Code code = nvml_.set_power_limit(device_, asked);
  if (code == kNoPermission) {
    return PermissionDenied("the driver lets only root limit power; run `sudo nvidia-smi -pl " +
                            std::to_string(watts) + "`");
  }
  if (code != kSuccess) return refused(code);
  if (former_limit_) return Status::Ok();
  // A process that was killed left its limit behind.
  former_limit_ = *before == asked ? Ask(nvml_.power_default, device_).value_or(*before) : *before;
  return Status::Ok();
}

}  // namespace

Result<std::unique_ptr<GpuDriver>> OpenNvidiaDriver(const std::string& card,
                                                    const std::string& library) {
  void* const handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* const why = ::dlerror();
    return NotFound("NVIDIA's driver is not there: " + std::string(why != nullptr ? why : library));
  }
  Functions functions;
  const std::string missing = FindAll(handle, &functions);
  auto driver = std::make_unique<NvidiaDriver>(handle, functions);
  if (!missing.empty()) return Unavailable("NVIDIA's driver is too old: it has no " + missing);
  SHOAL_RETURN_IF_ERROR(driver->Start(card));
  return std::unique_ptr<GpuDriver>(std::move(driver));
}

}  // namespace shoal::daemon
