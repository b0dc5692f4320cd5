#include "tests/bench/google_main.h"

#include <benchmark/benchmark.h>
#include <unistd.h>

#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "tests/bench/bench_json.h"

namespace shoal::bench_command {
namespace {

// Another reporter that remembers whether a benchmark failed.
template <typename Base>
class Watching : public Base {
 public:
  using Base::Base;
  void ReportRuns(const std::vector<benchmark::BenchmarkReporter::Run>& runs) override {
    for (const auto& run : runs) failed_ = failed_ || run.error_occurred;
    Base::ReportRuns(runs);
  }
  bool failed() const { return failed_; }

 private:
  bool failed_ = false;
};

template <typename Base>
bool Run(const Command& command, Watching<Base>* reporter) {
  const std::size_t ran = benchmark::RunSpecifiedBenchmarks(reporter);
  if (ran == 0) command.WrongUsage("no case matches --filter");
  return !reporter->failed();
}

}  // namespace

int RunGoogleBenchmarks(const About& about, int argc, char** argv) {
  Command command(about);
  std::string filter;
  std::vector<std::string> options;
  command.Text("--filter", "PATTERN", "only cases whose name matches the regular expression",
               &filter);
  command.PassOn("--benchmark_", &options);
  command.Parse(argc, argv);
  if (!filter.empty()) options.push_back("--benchmark_filter=" + filter);
  std::vector<char*> given = {argv[0]};
  for (std::string& option : options) given.push_back(option.data());
  int count = static_cast<int>(given.size());
  benchmark::Initialize(&count, given.data());
  if (count > 1) command.WrongUsage(std::string("Google Benchmark has no option ") + given[1]);
  if (!command.json()) {
    using Reporter = benchmark::ConsoleReporter;
    Watching<Reporter> console(::isatty(1) == 1 ? Reporter::OO_ColorTabular : Reporter::OO_Tabular);
    return ExitCodeOf(Run(command, &console));
  }
  std::ostringstream text;
  Watching<benchmark::JSONReporter> reporter;
  reporter.SetOutputStream(&text);
  reporter.SetErrorStream(&std::cerr);
  const bool held = Run(command, &reporter);
  const Json found = Json::parse(text.str(), nullptr, false);
  if (!found.is_object()) command.Fail("Google Benchmark printed no JSON object");
  PrintJson(found.value("benchmarks", Json::array()),
            {{"context", found.value("context", Json::object())}});
  return ExitCodeOf(held);
}

}  // namespace shoal::bench_command
