#include "common/trace.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <map>

#include "common/file.h"
#include "common/mutex.h"

namespace shoal {
namespace {

struct Recorder {
  Mutex mutex;
  std::vector<TraceEvent> events SHOAL_GUARDED_BY(mutex);
  std::size_t limit SHOAL_GUARDED_BY(mutex) = 0;
};

std::atomic<bool> g_enabled = false;
thread_local std::string t_thread_name = "grpc";

Recorder& TheRecorder() {
  static Recorder* const recorder = new Recorder;
  return *recorder;
}

void Record(const char* name, MicroBatchId micro_batch, std::optional<std::uint32_t> segment,
            TimePoint start, Duration duration) {
  Recorder& recorder = TheRecorder();
  MutexLock lock(recorder.mutex);
  if (recorder.events.size() >= recorder.limit) return;
  recorder.events.push_back({name, ThreadName(), micro_batch, start, duration, segment});
}

}  // namespace

void StartTrace(std::size_t limit) {
  Recorder& recorder = TheRecorder();
  MutexLock lock(recorder.mutex);
  recorder.events.clear();
  recorder.limit = limit;
  g_enabled = true;
}

bool TraceEnabled() { return g_enabled.load(std::memory_order_relaxed); }

void Trace(const char* name, MicroBatchId micro_batch, std::optional<std::uint32_t> segment) {
  if (TraceEnabled()) Record(name, micro_batch, segment, SystemClock().Now(), Duration::zero());
}

TimePoint TraceStart() { return SystemClock().Now(); }

void TraceSpan(const char* name, MicroBatchId micro_batch, TimePoint start,
               std::optional<std::uint32_t> segment) {
  if (TraceEnabled()) Record(name, micro_batch, segment, start, SystemClock().Now() - start);
}

std::vector<TraceEvent> TakeTrace() {
  Recorder& recorder = TheRecorder();
  MutexLock lock(recorder.mutex);
  g_enabled = false;
  std::vector<TraceEvent> events = std::move(recorder.events);
  recorder.events.clear();
  std::stable_sort(events.begin(), events.end(),
                   [](const TraceEvent& a, const TraceEvent& b) { return a.start < b.start; });
  return events;
}

Status WriteTraceFile(const std::string& path, const std::vector<TraceEvent>& events) {
  std::map<std::string, int> threads;
  std::string json = "{\"traceEvents\":[";
  const std::string process = std::to_string(getpid());
  for (const TraceEvent& event : events) {
    const int thread = threads.try_emplace(event.thread, threads.size() + 1).first->second;
    const auto micros = [](auto d) {
      return std::to_string(std::chrono::duration<double, std::micro>(d).count());
    };
    json += "{\"name\":\"" + std::string(event.name) + "\",\"ph\":\"" +
            (event.duration == Duration::zero() ? "i" : "X") + "\",\"pid\":" + process +
            ",\"tid\":" + std::to_string(thread) +
            ",\"ts\":" + micros(event.start.time_since_epoch()) +
            ",\"dur\":" + micros(event.duration) +
            ",\"args\":{\"step\":" + std::to_string(event.micro_batch.step) +
            ",\"mb\":" + std::to_string(event.micro_batch.index) +
            (event.segment ? ",\"segment\":" + std::to_string(*event.segment) : "") + "}},\n";
  }
  for (const auto& [name, thread] : threads) {
    json += "{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":" + process +
            ",\"tid\":" + std::to_string(thread) + ",\"args\":{\"name\":\"" + name + "\"}},\n";
  }
  json += "{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":" + process +
          ",\"args\":{\"name\":\"shoald\"}}]}\n";
  return WriteFileAtomic(path, json);
}

void SetThreadName(const std::string& name) {
  t_thread_name = name;
  pthread_setname_np(pthread_self(), name.substr(0, 15).c_str());
}

std::string ThreadName() { return t_thread_name; }

}  // namespace shoal
