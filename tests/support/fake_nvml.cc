// A libnvidia-ml.so.1 of one card, which tells what a file says (the environment's SHOAL_FAKE_NVML,
// read at each call) and writes the power limit that it is set to beside it:
//
//   bus 0000:01:00.0        name of the card on its bus
//   power 120000            mW; a line that is missing: not supported
//   energy 5000             mJ since its driver began
//   limit 350000 100000 400000 320000   mW: of now, least, most, default
//   denied                  limits may not be set
//   memory 10 24            used and total, bytes
//   busy 70                 percent
//   compute 123 4096        a process with its memory
//   graphics 124 4096
//   sample 123 55 1000      percent that it computed, time in us; 0: just now
//   lost 15                 each figure is this error
//   hang 30                 each question of power takes so many seconds

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr int kOk = 0, kInvalid = 2, kUnsupported = 3, kDenied = 4, kMissing = 6, kSmall = 7;
int card;

std::string Path() {
  const char* const path = std::getenv("SHOAL_FAKE_NVML");
  return path == nullptr ? "" : path;
}

// The numbers of each line that begins with this word.
std::vector<std::vector<unsigned long long>> Lines(const std::string& word) {
  std::vector<std::vector<unsigned long long>> found;
  std::ifstream file(Path());
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string first;
    if (!(words >> first) || first != word) continue;
    found.emplace_back();
    for (unsigned long long number; words >> number;) found.back().push_back(number);
  }
  return found;
}

template <typename Number>
int Tell(const char* word, std::size_t index, Number* number) {
  if (const auto lost = Lines("lost"); !lost.empty()) return static_cast<int>(lost.front().at(0));
  const auto lines = Lines(word);
  if (lines.empty() || lines.front().size() <= index) return kUnsupported;
  *number = static_cast<Number>(lines.front()[index]);
  return kOk;
}

struct ProcessInfo {
  unsigned pid;
  unsigned long long used_memory;
};
struct Sample {
  unsigned pid;
  unsigned long long time_us;
  unsigned compute, memory, encoder, decoder;
};

int List(const char* word, unsigned* count, ProcessInfo* infos) {
  const auto lines = Lines(word);
  const unsigned room = *count;
  *count = static_cast<unsigned>(lines.size());
  if (*count > room) return kSmall;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    infos[i] = {static_cast<unsigned>(lines[i].at(0)), lines[i].at(1)};
  }
  return kOk;
}

std::string SetLimit() {
  std::ifstream file(Path() + ".limit");
  std::string limit;
  file >> limit;
  return limit;
}

}  // namespace

extern "C" {

int nvmlInit_v2() { return Path().empty() ? 9 : kOk; }  // 9: no driver
int nvmlShutdown() { return kOk; }
const char* nvmlErrorString(int code) {
  return code == kDenied    ? "Insufficient Permissions"
         : code == kMissing ? "Not Found"
         : code == 15       ? "GPU is lost"
                            : "Unknown Error";
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  *device = &card;
  return index == 0 ? kOk : kInvalid;
}
int nvmlDeviceGetHandleByPciBusId_v2(const char* bus, void** device) {
  std::ifstream file(Path());
  for (std::string word, id; file >> word;) {
    if (word == "bus" && file >> id && id == bus) return nvmlDeviceGetHandleByIndex_v2(0, device);
  }
  return kMissing;
}
int nvmlDeviceGetName(void*, char* name, unsigned size) {
  std::strncpy(name, "Fake RTX", size);
  return kOk;
}
int nvmlDeviceGetPowerUsage(void*, unsigned* power) {
  unsigned hang = 0;
  if (Tell("hang", 0, &hang) == kOk) std::this_thread::sleep_for(std::chrono::seconds(hang));
  return Tell("power", 0, power);
}
int nvmlDeviceGetTotalEnergyConsumption(void*, unsigned long long* energy) {
  return Tell("energy", 0, energy);
}
int nvmlDeviceGetPowerManagementLimit(void*, unsigned* limit) {
  const std::string set = SetLimit();
  if (set.empty()) return Tell("limit", 0, limit);
  *limit = static_cast<unsigned>(std::atoi(set.c_str()));
  return kOk;
}
int nvmlDeviceGetPowerManagementLimitConstraints(void*, unsigned* least, unsigned* most) {
  const int code = Tell("limit", 1, least);
  return code == kOk ? Tell("limit", 2, most) : code;
}
int nvmlDeviceGetPowerManagementDefaultLimit(void*, unsigned* limit) {
  return Tell("limit", 3, limit);
}
int nvmlDeviceSetPowerManagementLimit(void*, unsigned limit) {
  if (!Lines("denied").empty()) return kDenied;
  std::ofstream(Path() + ".limit") << limit;
  return kOk;
}
int nvmlDeviceGetMemoryInfo(void*, unsigned long long* total_free_used) {
  total_free_used[1] = 0;
  const int code = Tell("memory", 0, total_free_used + 2);
  return code == kOk ? Tell("memory", 1, total_free_used) : code;
}
int nvmlDeviceGetUtilizationRates(void*, unsigned* gpu_memory) {
  gpu_memory[1] = 0;
  return Tell("busy", 0, gpu_memory);
}
int nvmlDeviceGetComputeRunningProcesses(void*, unsigned* count, ProcessInfo* infos) {
  return List("compute", count, infos);
}
int nvmlDeviceGetGraphicsRunningProcesses(void*, unsigned* count, ProcessInfo* infos) {
  return List("graphics", count, infos);
}
int nvmlDeviceGetProcessUtilization(void*, Sample* samples, unsigned* count,
                                    unsigned long long since_us) {
  std::vector<Sample> found;
  const auto lines = Lines("sample");
  if (lines.empty()) return kUnsupported;
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  const auto now_us = static_cast<unsigned long long>(
      std::chrono::duration_cast<std::chrono::microseconds>(now).count());
  for (const auto& line : lines) {
    const unsigned long long time_us = line.at(2) == 0 ? now_us : line.at(2);
    if (time_us <= since_us) continue;
    found.push_back(
        {static_cast<unsigned>(line.at(0)), time_us, static_cast<unsigned>(line.at(1)), 0, 0, 0});
  }
  const unsigned room = samples == nullptr ? 0 : *count;
  *count = static_cast<unsigned>(found.size());
  if (found.empty()) return kMissing;
  if (found.size() > room) return kSmall;
  std::memcpy(samples, found.data(), found.size() * sizeof(Sample));
  return kOk;
}

}  // extern "C"
