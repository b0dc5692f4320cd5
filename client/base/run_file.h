// RunFile: the keys of run.toml that the CLI sets; the scheduler knows them all and checks them.

#ifndef SHOAL_CLIENT_BASE_RUN_FILE_H_
#define SHOAL_CLIENT_BASE_RUN_FILE_H_

#include <cstdint>
#include <string>

namespace shoal::client {

// Empty texts and zeros are left out: the scheduler's defaults hold.
struct RunFile {
  std::string name, model, data, directory;
  std::uint64_t steps = 0, seed = 0, checkpoint_every = 0, warmup_steps = 0;
  std::uint32_t stages = 0, pipelines = 0, micro_batches = 0, micro_batch_rows = 0;
  std::string forward, backward;
  std::string replica = {};
  std::string adapter = {}, base = {};
  std::uint32_t rank = 0;
  double learning_rate = 0;
  std::string schedule = {};
  std::uint32_t in_flight_max = 0;
  std::string listen, status_listen, advertise;
};

std::string FormatRunFile(const RunFile& file);

}  // namespace shoal::client

#endif  // SHOAL_CLIENT_BASE_RUN_FILE_H_
