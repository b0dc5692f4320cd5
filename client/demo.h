// `shoal demo`: a whole swarm on this machine: scheduler and stages x pipelines peers as real
// processes, every link capped, from fresh weights to an exported model.

#ifndef SHOAL_CLIENT_DEMO_H_
#define SHOAL_CLIENT_DEMO_H_

#include <cstdint>
#include <string>

#include "common/exit_code.h"

namespace shoal::client {

struct DemoOptions {
  std::uint32_t stages = 2;
  std::uint32_t pipelines = 2;
  std::string forward =
      "aqsgd:delta=dithered:step=0.6/klt=64/channels=on,"
      "first_visit=dithered:step=0.1/klt=64/channels=on";
  std::string backward = "dithered:step=0.4,klt=64,channels=on";
  std::string replica = "average";
  std::uint64_t steps = 200;
  std::string link = "100mbit";  // cap on each peer's upload and download; "off": none
  std::string model;             // Hugging Face directory; empty: fresh weights of examples/
  std::string data;              // text or prepared file; empty: the text of examples/
  std::string directory;         // everything goes there; empty: a temporary folder
  std::uint64_t seed = 1;
  bool json = false;
};

// Exit codes as documented; 130 after Ctrl-C. Nothing that was started is left running.
ExitCode Demo(const DemoOptions& options);

}  // namespace shoal::client

#endif  // SHOAL_CLIENT_DEMO_H_
