// A library that CUDA loads into a process: how long the process's kernels ran on the GPU, and how
// long those of codecs did, and what crossed the bus.
//
// CUDA_INJECTION64_PATH names it, SHOAL_KERNEL_CLOCK the file that it writes: one JSON object with
// kernels, milliseconds, codecKernels, codecMilliseconds, copies (bytes, milliseconds and number,
// to the device and to the host) and the kernels that took longest, since the process began. The
// file is new about once a second and when the process ends. Times are the GPU's own, by CUPTI's
// activity records ("CUPTI API", Activity API). Where nothing can be measured there is no file, and
// the process goes on.

#include <cupti.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace {

constexpr std::size_t kBufferBytes = std::size_t{1} << 20;
constexpr std::uint32_t kFlushEveryMs = 1000;
// In the mangled name of every kernel of compression/, and of no other.
constexpr const char* kCodecs = "5shoal11compression";

constexpr std::size_t kLongest = 60;  // kernels that are named

struct Sum {
  std::uint64_t count = 0, ns = 0, bytes = 0;

  double milliseconds() const { return static_cast<double>(ns) * 1e-6; }
};

std::mutex g_mutex;
Sum g_all, g_codecs, g_to_device, g_to_host;
std::map<std::string, Sum> g_named;  // by mangled name, which needs no escape in JSON

bool Failed(const char* what, CUptiResult result) {
  if (result == CUPTI_SUCCESS) return false;
  const char* why = "unknown error";
  static_cast<void>(cuptiGetResultString(result, &why));
  std::fprintf(stderr, "kernel_clock: %s: %s\n", what, why);
  return true;
}

void WriteCopies(std::FILE* file, const char* way, const Sum& sum) {
  std::fprintf(file, "\"%s\":{\"copies\":%llu,\"bytes\":%llu,\"milliseconds\":%.6f},", way,
               static_cast<unsigned long long>(sum.count),
               static_cast<unsigned long long>(sum.bytes), sum.milliseconds());
}

void WriteSums(std::FILE* file) {
  std::fprintf(file,
               "{\"schemaVersion\":2,\"kernels\":%llu,\"milliseconds\":%.6f,\"codecKernels\":%llu,"
               "\"codecMilliseconds\":%.6f,",
               static_cast<unsigned long long>(g_all.count), g_all.milliseconds(),
               static_cast<unsigned long long>(g_codecs.count), g_codecs.milliseconds());
  WriteCopies(file, "toDevice", g_to_device);
  WriteCopies(file, "toHost", g_to_host);
  std::vector<std::pair<std::string, Sum>> named(g_named.begin(), g_named.end());
  std::ranges::sort(named, [](const auto& a, const auto& b) { return a.second.ns > b.second.ns; });
  if (named.size() > kLongest) named.resize(kLongest);
  std::fprintf(file, "\"longest\":[");
  const char* separator = "";
  for (const auto& [name, sum] : named) {
    std::fprintf(file, "%s{\"name\":\"%s\",\"kernels\":%llu,\"milliseconds\":%.6f}", separator,
                 name.c_str(), static_cast<unsigned long long>(sum.count), sum.milliseconds());
    separator = ",";
  }
  std::fprintf(file, "]}\n");
}

void Write() {
  const char* path = std::getenv("SHOAL_KERNEL_CLOCK");
  if (path == nullptr) return;
  const std::string temporary = std::string(path) + ".tmp";
  std::FILE* file = std::fopen(temporary.c_str(), "w");
  if (file == nullptr) return;
  WriteSums(file);
  const bool whole = std::ferror(file) == 0;
  if (std::fclose(file) == 0 && whole) std::rename(temporary.c_str(), path);
}

void CUPTIAPI GiveBuffer(std::uint8_t** buffer, std::size_t* bytes, std::size_t* records) {
  *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(8, kBufferBytes));
  *bytes = *buffer == nullptr ? 0 : kBufferBytes;
  *records = 0;  // as many as fit
}

void CountKernel(const CUpti_ActivityKernel10& kernel) {
  if (kernel.end <= kernel.start) return;  // the GPU gave no times
  const char* name = kernel.name != nullptr ? kernel.name : "";
  const bool codec = std::strstr(name, kCodecs) != nullptr;
  for (Sum* sum : {&g_all, codec ? &g_codecs : nullptr, &g_named[name]}) {
    if (sum == nullptr) continue;
    ++sum->count;
    sum->ns += kernel.end - kernel.start;
  }
}

void CountCopy(const CUpti_ActivityMemcpy6& copy) {
  Sum* sum = copy.copyKind == CUPTI_ACTIVITY_MEMCPY_KIND_HTOD   ? &g_to_device
             : copy.copyKind == CUPTI_ACTIVITY_MEMCPY_KIND_DTOH ? &g_to_host
                                                                : nullptr;
  if (sum == nullptr) return;
  ++sum->count;
  sum->bytes += copy.bytes;
  if (copy.end > copy.start) sum->ns += copy.end - copy.start;
}

void CUPTIAPI TakeBuffer(CUcontext, std::uint32_t, std::uint8_t* buffer, std::size_t,
                         std::size_t bytes) {
  const std::lock_guard lock(g_mutex);
  CUpti_Activity* record = nullptr;
  while (bytes > 0 && cuptiActivityGetNextRecord(buffer, bytes, &record) == CUPTI_SUCCESS) {
    if (record->kind == CUPTI_ACTIVITY_KIND_MEMCPY) {
      CountCopy(*reinterpret_cast<const CUpti_ActivityMemcpy6*>(record));
    } else if (record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
      CountKernel(*reinterpret_cast<const CUpti_ActivityKernel10*>(record));
    }
  }
  std::free(buffer);
  Write();
}

void Finish() {
  Failed("the last records", cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED));
}

}  // namespace

// What CUDA calls when it has loaded the library; 1: go on.
extern "C" __attribute__((visibility("default"))) int InitializeInjection() {
  if (Failed("buffers", cuptiActivityRegisterCallbacks(GiveBuffer, TakeBuffer)) ||
      Failed("kernels", cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL)) ||
      Failed("copies", cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MEMCPY)) ||
      Failed("flushing", cuptiActivityFlushPeriod(kFlushEveryMs))) {
    return 1;
  }
  std::atexit(Finish);
  return 1;
}
