// What the peers of a plan are told of each other's lines, by which groups share out their
// reductions (replica/collective/shares.h). Pure; thread: control.

#ifndef SHOAL_SCHEDULER_STEPS_LINE_RATES_H_
#define SHOAL_SCHEDULER_STEPS_LINE_RATES_H_

#include <cstdint>
#include <vector>

namespace shoal::scheduler {

// Bits a second; 0: not known.
struct LineRate {
  std::uint64_t upload_bps = 0, download_bps = 0;
  bool operator==(const LineRate&) const = default;
};

// Rates that differ less are alike: shares need no more, and measured ones move.
inline constexpr double kLineRateRatio = 1.25;
// Between two changes of what is told: a change costs the groups what they kept of errors.
inline constexpr std::uint64_t kLineRateSteps = 20;

class LineRates {
 public:
  LineRates(std::uint32_t pipelines, std::uint32_t stages)
      : stages_(stages), pipelines_(pipelines) {}

  // A new generation of so many pipelines knows nothing.
  void Reset(std::uint32_t pipelines) {
    pipelines_ = pipelines;
    told_.clear();
  }
  // `known`: by pipeline, then stage. Rates to tell with the plan of `step`, which grows. Empty:
  // those told before still hold, or the members of each group have always been alike.
  std::vector<LineRate> Tell(std::uint64_t step, const std::vector<LineRate>& known);

 private:
  bool Uneven(const std::vector<LineRate>& rates) const;

  const std::uint32_t stages_;
  std::uint32_t pipelines_ = 0;
  std::vector<LineRate> told_;
  std::uint64_t told_step_ = 0;
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_STEPS_LINE_RATES_H_
