// A library that CUDA loads into a process: how long the process's kernels ran on the GPU, and how
// long those of codecs did.
//
// CUDA_INJECTION64_PATH names it, SHOAL_KERNEL_CLOCK the file that it writes: one JSON object with
// kernels, milliseconds, codecKernels, codecMilliseconds since the process began. The file is new
// about once a second and when the process ends. Times are the GPU's own, by CUPTI's activity
// records ("CUPTI API", Activity API); copies do not count. Where nothing can be measured there is
// no file, and the process goes on.

#include <cupti.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>

namespace {

constexpr std::size_t kBufferBytes = std::size_t{1} << 20;
constexpr std::uint32_t kFlushEveryMs = 1000;
// In the mangled name of every kernel of compression/, and of no other.
constexpr const char* kCodecs = "5shoal11compression";

struct Sum {
  std::uint64_t kernels = 0, ns = 0;
};

std::mutex g_mutex;
Sum g_all, g_codecs;

bool Failed(const char* what, CUptiResult result) {
  if (result == CUPTI_SUCCESS) return false;
  const char* why = "unknown error";
  static_cast<void>(cuptiGetResultString(result, &why));
  std::fprintf(stderr, "kernel_clock: %s: %s\n", what, why);
  return true;
}

void Write() {
  const char* path = std::getenv("SHOAL_KERNEL_CLOCK");
  if (path == nullptr) return;
  const std::string temporary = std::string(path) + ".tmp";
  std::FILE* file = std::fopen(temporary.c_str(), "w");
  if (file == nullptr) return;
  std::fprintf(file,
               "{\"schemaVersion\":1,\"kernels\":%llu,\"milliseconds\":%.6f,\"codecKernels\":%llu,"
               "\"codecMilliseconds\":%.6f}\n",
               static_cast<unsigned long long>(g_all.kernels), static_cast<double>(g_all.ns) * 1e-6,
               static_cast<unsigned long long>(g_codecs.kernels),
               static_cast<double>(g_codecs.ns) * 1e-6);
  const bool whole = std::ferror(file) == 0;
  if (std::fclose(file) == 0 && whole) std::rename(temporary.c_str(), path);
}

void CUPTIAPI GiveBuffer(std::uint8_t** buffer, std::size_t* bytes, std::size_t* records) {
  *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(8, kBufferBytes));
  *bytes = *buffer == nullptr ? 0 : kBufferBytes;
  *records = 0;  // as many as fit
}

void CUPTIAPI TakeBuffer(CUcontext, std::uint32_t, std::uint8_t* buffer, std::size_t,
                         std::size_t bytes) {
  const std::lock_guard lock(g_mutex);
  CUpti_Activity* record = nullptr;
  while (bytes > 0 && cuptiActivityGetNextRecord(buffer, bytes, &record) == CUPTI_SUCCESS) {
    if (record->kind != CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) continue;
    const auto* kernel = reinterpret_cast<const CUpti_ActivityKernel10*>(record);
    if (kernel->end <= kernel->start) continue;  // the GPU gave no times
    const bool codec = kernel->name != nullptr && std::strstr(kernel->name, kCodecs) != nullptr;
    for (Sum* sum : {&g_all, codec ? &g_codecs : nullptr}) {
      if (sum == nullptr) continue;
      ++sum->kernels;
      sum->ns += kernel->end - kernel->start;
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
      Failed("flushing", cuptiActivityFlushPeriod(kFlushEveryMs))) {
    return 1;
  }
  std::atexit(Finish);
  return 1;
}
