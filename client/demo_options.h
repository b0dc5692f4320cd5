// What a user chooses of a demo; the defaults are those of its command line.

#ifndef SHOAL_CLIENT_DEMO_OPTIONS_H_
#define SHOAL_CLIENT_DEMO_OPTIONS_H_

#include <cstdint>
#include <string>

namespace shoal::client {

struct DemoOptions {
  std::uint32_t stages = 2;
  std::uint32_t pipelines = 2;
  std::string forward =
      "aqsgd:delta=dithered:step=0.55/klt=64/channels=on,"
      "first_visit=dithered:step=0.1/klt=64/channels=on";
  std::string backward =
      "aqsgd:delta=dithered:step=0.36/channels=on/of=values,"
      "first_visit=dithered:step=0.4/klt=64/channels=on";
  std::string replica;           // empty: what the scheduler suggests for these lines
  std::string adapter = "none";  // lora: trains matrices beside the model
  std::uint64_t steps = 100;
  std::string link = "100mbit";  // cap on each peer's upload and download; "off": none
  std::string model;             // Hugging Face directory; empty: the small one of examples/
  bool fresh = false;            // instead: fresh weights of examples/tiny-gpt2, and its text
  std::string data;              // text, conversations or a prepared file; empty: one of examples/
  std::string answers;       // JSON lines that are asked before and after; empty: those of the data
  std::string directory;     // everything goes there; empty: a temporary folder
  double learning_rate = 0;  // the highest; 0: what suits what is trained
  std::uint64_t seed = 1;
  bool json = false;
};

}  // namespace shoal::client

#endif  // SHOAL_CLIENT_DEMO_OPTIONS_H_
