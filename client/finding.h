// What `shoal doctor` found in one place.

#ifndef SHOAL_CLIENT_FINDING_H_
#define SHOAL_CLIENT_FINDING_H_

#include <optional>
#include <string>
#include <vector>

namespace shoal::client {

enum class Verdict { kGood, kHint, kBad };

struct Finding {
  Verdict verdict;
  std::string check;
  std::string text;
  std::string fix;  // empty when good
};

struct GpuFacts {
  bool card = false;         // an NVIDIA card is in the machine
  bool driver = false;       // and has its device file
  bool accessible = false;   // which this user may open
  std::string devices_json;  // what `shoald --print-devices` said
};
// Whether training will use the card that is there.
Finding JudgeGpu(const GpuFacts& facts);

// Of a program that ended with an error when it was only asked for its version, and what it wrote.
Finding JudgeStart(const std::string& program, const std::string& written);

// What the running peer says of itself in its status (JSON): whether it reaches the scheduler and
// its neighbours, its store, and whether AQ-SGD does its work.
std::vector<Finding> JudgePeer(const std::string& status_json);

}  // namespace shoal::client

#endif  // SHOAL_CLIENT_FINDING_H_
