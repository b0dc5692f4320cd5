#include "client/chaos_leaks.h"

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <tuple>
#include <utility>

#include "common/file.h"

namespace shoal::client {
namespace {

constexpr std::uint64_t kProcFileBytesMax = 1 << 16;
// Growth beyond these, of each third over the one before, is a leak. A swarm whose members come and
// go has more links at one time than at another.
constexpr double kFilesMin = 12, kThreadsMin = 6, kResidentMin_mib = 24, kResidentShare = 0.05;

double FieldOf(const std::string& status, const std::string& name) {
  const std::size_t at = status.find("\n" + name + ":");
  if (at == std::string::npos) return 0;
  double value = 0;
  std::istringstream(status.substr(at + name.size() + 2)) >> value;
  return value;
}

double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  return values[values.size() / 2];
}

bool Grows(double early, double middle, double late, double least) {
  return middle - early > least && late - middle > least;
}

}  // namespace

std::optional<Holdings> LookAt(int pid) {
  const std::string folder = "/proc/" + std::to_string(pid);
  const Result<std::string> status = ReadFile(folder + "/status", kProcFileBytesMax);
  if (!status.ok()) return std::nullopt;
  Holdings holdings;
  holdings.threads = FieldOf(*status, "Threads");
  holdings.resident_mib = FieldOf(*status, "VmRSS") / 1024;
  std::error_code error;
  for (auto entry = std::filesystem::directory_iterator(folder + "/fd", error);
       !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    ++holdings.files;
  }
  if (error || holdings.threads == 0) return std::nullopt;
  return holdings;
}

void LeakWatch::Add(const std::string& name, int pid, double seconds, const Holdings& holdings) {
  Life& life = lives_[pid];
  life.name = name;
  life.samples.push_back({seconds, holdings});
}

std::vector<HoldingsChange> LeakWatch::Changes() const {
  std::map<std::string, HoldingsChange> changes;
  for (const auto& [pid, life] : lives_) {
    const double begin = life.samples.front().seconds + kStartSeconds;
    const double length = life.samples.back().seconds - begin;
    if (length < kSecondsMin) continue;
    HoldingsChange change;
    change.name = life.name;
    change.seconds = length;
    const auto median = [&, &samples = life.samples](int third, double Holdings::*what) {
      std::vector<double> values;
      for (const Sample& sample : samples) {
        const double at = 3 * (sample.seconds - begin) / length;
        if (at >= third && at <= third + 1) values.push_back(sample.holdings.*what);
      }
      return Median(std::move(values));
    };
    int third = 0;
    for (Holdings* const part : {&change.early, &change.middle, &change.late}) {
      *part = {median(third, &Holdings::files), median(third, &Holdings::threads),
               median(third, &Holdings::resident_mib)};
      ++third;
    }
    const auto& [early, middle, late] = std::tie(change.early, change.middle, change.late);
    if (Grows(early.files, middle.files, late.files, kFilesMin)) change.grows = "files";
    if (Grows(early.threads, middle.threads, late.threads, kThreadsMin)) change.grows = "threads";
    if (length >= kMemorySecondsMin &&
        Grows(early.resident_mib, middle.resident_mib, late.resident_mib,
              std::max(kResidentMin_mib, kResidentShare * early.resident_mib))) {
      change.grows = "memory";
    }
    HoldingsChange& known = changes[life.name];
    if (known.seconds < change.seconds) known = std::move(change);
  }
  std::vector<HoldingsChange> all;
  all.reserve(changes.size());
  for (auto& [name, change] : changes) all.push_back(std::move(change));
  return all;
}

}  // namespace shoal::client
