// The keys of run.toml: one table for reading, checking, printing and documenting.

#ifndef SHOAL_SCHEDULER_CONFIG_RUN_CONFIG_KEYS_H_
#define SHOAL_SCHEDULER_CONFIG_RUN_CONFIG_KEYS_H_

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "scheduler/config/run_config.h"

namespace shoal::scheduler {

struct RunConfigKey {
  using Target = std::variant<std::string*, std::uint64_t*, std::uint32_t*, double*, bool*,
                              Duration*, std::vector<std::uint32_t>*, std::vector<std::string>*>;
  std::string_view section, name;
  Target target;
  double min = 0, max = 0;   // of numbers and durations (seconds)
  std::string_view allowed;  // of texts: "a|b|c"; empty: any
  std::string_view help;
};

// In the order of the documented file; pointers into `config`.
std::vector<RunConfigKey> RunConfigKeys(RunConfig* config);

// What several keys together must fulfil. Each message names the keys.
Status CheckRunConfig(const RunConfig& config);

// "name" or "name:key=value,...", of small letters, digits and _.-; whether the codec exists is
// for the peers to say.
Status CheckCodecText(std::string_view key, std::string_view text);
// A method that fits stages and pipelines.
Status CheckReplicaMethod(const RunConfig& config);

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_CONFIG_RUN_CONFIG_KEYS_H_
