// What members of a swarm hold of the machine, and whether that grows without end. Pure but for
// LookAt. Thread: any.

#ifndef SHOAL_CLIENT_CHAOS_LEAKS_H_
#define SHOAL_CLIENT_CHAOS_LEAKS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace shoal::client {

struct Holdings {
  double files = 0, threads = 0, resident_mib = 0;
};
// Of a process, by /proc; nothing: it has ended.
std::optional<Holdings> LookAt(int pid);

// Medians of a process's first and last third, without its start; and of the third between.
struct HoldingsChange {
  std::string name;
  double seconds = 0;  // that it was looked at
  Holdings early, middle, late;
  std::string grows;  // what of it grew steadily; empty: nothing
};

// Each process by its id: one that was started again is another one.
class LeakWatch {
 public:
  static constexpr double kSecondsMin = 24;    // younger processes are not judged
  static constexpr double kStartSeconds = 10;  // caches and pools fill
  // Younger ones are not judged by their memory: who takes up a stage fills it for a while.
  static constexpr double kMemorySecondsMin = 120;

  void Add(const std::string& name, int pid, double seconds, const Holdings& holdings);
  // Of all that lived long enough, the oldest of each name.
  std::vector<HoldingsChange> Changes() const;

 private:
  struct Sample {
    double seconds;
    Holdings holdings;
  };
  struct Life {
    std::string name;
    std::vector<Sample> samples;
  };
  std::map<int, Life> lives_;
};

}  // namespace shoal::client

#endif  // SHOAL_CLIENT_CHAOS_LEAKS_H_
