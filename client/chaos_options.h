// What a user chooses of `shoal chaos`; the defaults are those of its command line.

#ifndef SHOAL_CLIENT_CHAOS_OPTIONS_H_
#define SHOAL_CLIENT_CHAOS_OPTIONS_H_

#include <cstdint>
#include <string>
#include <vector>

namespace shoal::client {

struct ChaosOptions {
  double minutes = 3;
  std::uint64_t seed = 1;
  std::uint32_t stages = 4;
  std::uint32_t pipelines = 2;
  std::uint32_t spares = 1;
  std::vector<std::string> kinds = {"kill",     "stop", "scheduler", "pause",
                                    "throttle", "cut",  "disk-full"};
  std::string directory;  // everything goes there; empty: a temporary folder, gone if all held
  bool json = false;
};

}  // namespace shoal::client

#endif  // SHOAL_CLIENT_CHAOS_OPTIONS_H_
