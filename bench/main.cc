// shoal-bench: measures what a swarm gives, for those who operate and develop it.

#include <CLI/CLI.hpp>

#include <functional>
#include <string>
#include <vector>

#include "bench/bench_pipeline.h"
#include "bench/bench_switch.h"
#include "client/base/command_line.h"
#include "common/log.h"
#include "common/version.h"

namespace {

using namespace shoal;
using namespace shoal::bench;

constexpr const char* kPipelineHelp =
    "Starts a scheduler and a peer per stage for each link rate, schedule and codec pair. The\n"
    "stages compute nothing and take the given times. A row tells sequences per second, as a part\n"
    "of a run with raw activations on unlimited links and of the simulated bound.\n"
    "Needs: shoald and shoal-scheduler beside this program; root and iproute2 for lines with a\n"
    "round trip (--rtt). Without them the peers' own caps shape the loopback.\n"
    "Takes: --warmup and --steps in real time for each row, times --dilation. That is seconds at\n"
    "10 Gbit/s, and several minutes of raw activations at 50 Mbit/s.\n"
    "Exit code: 0 all rows were measured and both ends of each boundary kept the same m; 1 a row\n"
    "failed or they did not; 2 wrong usage; 130 after Ctrl-C, with the rows measured so far.";

constexpr const char* kSwitchHelp =
    "Needs: root, and devices that are up. Prints \"ready\" once it carries frames.\n"
    "Takes: until it is ended, or the program that started it ends.\n"
    "Exit code: 1 it failed; 2 wrong usage.";

// Everything that options write into; lives as long as the parse.
struct Parsed {
  BenchArguments arguments;
  std::string delay;
  std::vector<std::string> devices;
  std::function<ExitCode()> run;
};

CLI::App* Add(CLI::App* app, Parsed* parsed, const char* name, const char* help,
              std::function<ExitCode()> run) {
  CLI::App* command = app->add_subcommand(name, help);
  command->final_callback([parsed, run = std::move(run)] { parsed->run = run; });
  return command;
}

void AddSwitch(CLI::App* app, Parsed* p) {
  CLI::App* lines =
      Add(app, p, "switch", "Carry frames between network devices, each after a delay (benches do)",
          [p] { return BenchSwitch(p->devices, p->delay); });
  lines->add_option("devices", p->devices, "Network devices to connect, up and without addresses")
      ->required()
      ->expected(2, 1024);
  lines->add_option("--delay", p->delay, "Delay of each frame between two devices, like 20ms")
      ->required();
  lines->footer(kSwitchHelp);
}

void AddPipeline(CLI::App* app, Parsed* p) {
  BenchArguments& b = p->arguments;
  CLI::App* pipeline = Add(app, p, "pipeline", "What a swarm gives over these links, without a GPU",
                           [p] { return BenchPipeline(p->arguments); });
  const auto option = [&](const char* name, auto& value, const char* help) {
    pipeline->add_option(name, value, help)->capture_default_str();
  };
  option("--stages", b.stages, "Stages of the pipeline, one peer each");
  option("--micro-batches", b.micro_batches, "Micro-batches per step");
  option("--shape", b.shape, "Shape of a micro-batch: ROWSxTOKENSxHIDDEN");
  option("--forward-ms", b.forward_ms, "Time of a micro-batch's forward");
  option("--backward-ms", b.backward_ms, "Time of a micro-batch's whole backward");
  pipeline->add_option("--weight-ms", b.weight_ms,
                       "Part of --backward-ms that computes weight gradients (default: half)");
  option("--weight-parts", b.weight_parts,
         "Pieces in which a stage computes weight gradients, one per layer");
  option("--links", b.links, "Line rates to measure, comma-separated; off: unlimited");
  option("--codecs", b.codecs, "FORWARD/BACKWARD codec pairs, separated by commas or semicolons");
  option("--schedules", b.schedules, "Schedules to measure, comma-separated: 1f1b, zero-bubble");
  option("--rtt", b.rtt, "Round trip added between machines, like 40ms; needs root");
  option("--epoch-steps", b.epoch_steps,
         "Steps in which every sample is visited once, from the first step on");
  option("--warmup", b.warmup, "Steps before the measured ones, including --epoch-steps");
  option("--steps", b.steps, "Steps that are measured");
  pipeline->add_option(
      "--step-limit", b.step_limit,
      "Time without a finished step after which a row fails (default: from simulation)");
  option("--in-flight", b.in_flight, "Micro-batches in flight per stage; 0: the peers choose");
  option("--change", b.change, "Relative change of activations between visits");
  option("--change-decay", b.change_decay, "Factor on --change at each further visit");
  option("--dilation", b.dilation,
         "Run everything N times slower and convert figures back: with 4, eight peers on two "
         "cores have a core each");
  pipeline->add_flag("--no-reference", b.no_reference,
                     "Compare with a simulated raw run instead of a measured one");
  pipeline->add_flag("--no-namespaces", b.no_namespaces,
                     "Shape lines by the peers' own caps, not by network namespaces");
  pipeline->add_option("--plot", b.plot, "File for an SVG plot");
  pipeline->add_option("--trace", b.trace, "File for a Perfetto trace of one step of the last row");
  pipeline->add_option("--dir", b.directory, "Empty folder for the swarms' files");
  pipeline->add_flag("--keep", b.keep, "Keep the folder of --dir afterwards");
  pipeline->add_flag("--json", b.json,
                     "Print one JSON object on standard output, and nothing else");
  pipeline->footer(kPipelineHelp);
}

}  // namespace

int main(int argc, char** argv) {
  SetLogLevel(LogLevel::kError);
  CLI::App app{"shoal-bench: measures what a swarm gives", "shoal-bench"};
  app.set_version_flag("--version", std::string("shoal-bench ") + kVersion);
  app.require_subcommand(1);
  app.footer(
      "Exit code: 0 what was measured holds; 1 it does not, or the bench failed; 2 wrong usage.");
  Parsed parsed;
  AddPipeline(&app, &parsed);
  AddSwitch(&app, &parsed);
  return static_cast<int>(client::RunCommandLine(&app, argc, argv, &parsed.run));
}
