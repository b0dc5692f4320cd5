// What a demo found out, and how it says so: as text and as JSON. Thread: main.

#ifndef SHOAL_CLIENT_DEMO_REPORT_H_
#define SHOAL_CLIENT_DEMO_REPORT_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "client/demo_options.h"
#include "client/demo_swarm.h"

namespace shoal::client {

// A question that a model was asked before and after training.
struct AskedQuestion {
  std::string prompt, wanted;
  std::string before, after;
};

struct AnswerScore {
  std::size_t answers = 0, exact = 0;
};

struct DemoReport {
  double held_out_before = 0, held_out_after = 0;
  AnswerScore exact_before, exact_after;         // of 0 answers: nothing was asked
  std::map<std::uint64_t, AskedQuestion> asked;  // by line of the file
  RunProgress progress;
  SwarmTotals totals;
  double training_s = 0;
  double samples_per_second = 0;
  double relative_delta = 0;  // the last one that was seen
  std::string replica;        // the method
  bool chat = false;          // the model has a chat template
  std::string base_model;     // that was trained
  std::string model_directory, adapter_directory;
  std::string prompt, sample;  // what the model writes behind the prompt; where nothing was asked
};

// The first of those that were learned, then of the others; at most `count`.
std::vector<AskedQuestion> QuestionsToShow(const std::map<std::uint64_t, AskedQuestion>& asked,
                                           std::size_t count);

void PrintDemoJson(const DemoOptions& options, const DemoReport& report);
void PrintDemo(const DemoOptions& options, const DemoReport& report);

}  // namespace shoal::client

#endif  // SHOAL_CLIENT_DEMO_REPORT_H_
