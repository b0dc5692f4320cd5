// shoal-scheduler: opens a run and serves it until it is told to stop.

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "common/command_line/delivered.h"
#include "common/command_line/description.h"
#include "common/command_line/usage_error.h"
#include "common/exit_code.h"
#include "common/file.h"
#include "common/log.h"
#include "common/process/descriptor_limit.h"
#include "common/process/service_manager.h"
#include "common/process/stop_signal.h"
#include "common/trace.h"
#include "common/version.h"
#include "compression/api/codec_advice.h"
#include "dataset/prepared_data.h"
#include "dataset/tokenizer.h"
#include "net/base/host_port.h"
#include "net/identity/identity.h"
#include "replica/methods/replica_advice.h"
#include "scheduler/config/run_config_keys.h"
#include "scheduler/door/wall_clock.h"
#include "scheduler/mirror/run_restore.h"
#include "scheduler/server/replicated_server.h"
#include "scheduler/server/run_artefacts.h"
#include "scheduler/server/run_report.h"
#include "scheduler/server/server.h"
#include "scheduler/server/store_access.h"

namespace shoal::scheduler {
namespace {

struct Flags {
  std::string config, directory, listen, log_level = "info", port_file;
  std::vector<std::string> log_to;
  std::string link = "100mbit", step = "30s", memory;
  bool print_config = false, print_size = false, print_replica = false;
  bool forget_history = false, without_weights = false;
  bool print_audit = false, print_events = false;
  std::string restore, endpoint, region = "us-east-1";
  bool plain_http = false;
  std::optional<std::uint64_t> sample;
  std::size_t last = 0;

  bool report() const { return print_audit || print_events; }
};

ExitCode Fail(ExitCode code, const std::string& message) {
  std::cerr << "shoal-scheduler: " << message << "\n";
  return code;
}

// What looks back at a run, of which only the folder is needed.
void AddReports(CLI::App* app, Flags* flags) {
  CLI::Option* audit = app->add_flag(
      "--print-audit", flags->print_audit,
      "Print as JSON whether every sample of the run in --dir was counted once, then end");
  app->add_option("--sample", flags->sample, "Row of the data: --print-audit says who counted it")
      ->needs(audit);
  CLI::Option* events =
      app->add_flag("--print-events", flags->print_events,
                    "Print as JSON who came and went and what ended the generations, then end")
          ->excludes(audit);
  app->add_option("--last", flags->last, "So many of --print-events, the newest; 0: all")
      ->needs(events);
}

void AddRestore(CLI::App* app, Flags* flags) {
  CLI::Option* restore =
      app->add_option(
             "--restore", flags->restore,
             "Make the new folder --dir from the newest whole copy of a run in this store, "
             "s3://BUCKET/PREFIX or file:///FOLDER, then end")
          ->type_name("STORE");
  app->add_option("--endpoint", flags->endpoint,
                  "S3-compatible service of --restore; without it Amazon's of the region")
      ->type_name("URL")
      ->needs(restore);
  app->add_option("--region", flags->region, "Region that requests of --restore are signed for")
      ->capture_default_str()
      ->needs(restore);
  app->add_flag(
         "--plain-http", flags->plain_http,
         "Let --endpoint be http:// on another machine: whoever is on the way reads the model")
      ->needs(restore);
}

void AddLogs(CLI::App* app, Flags* flags) {
  app->add_option("--log-to", flags->log_to,
                  "Write losses, rates and events there, instead of run.log_to: "
                  "tensorboard:FOLDER or jsonl:FILE; may be given several times")
      ->type_name("LOG")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app->add_option("--log-level", flags->log_level,
                  "Level of the log: trace, debug, info, warning, error or off")
      ->type_name("LEVEL")
      ->capture_default_str();
}

// Nothing: go on. Otherwise the exit code of the program.
std::optional<ExitCode> ReadFlags(int argc, char** argv, Flags* flags) {
  CLI::App app("Serves a run of shoal: who takes part, which micro-batches count, checkpoints.",
               "shoal-scheduler");
  app.add_option("--config", flags->config, "Settings of the run (run.toml)")
      ->type_name(kFileValue)
      ->envname("SHOAL_RUN_CONFIG");
  app.add_option("--dir", flags->directory, "Folder of the run's state, instead of run.directory")
      ->type_name(kFolderValue);
  app.add_option("--listen", flags->listen, "host:port for peers, instead of network.listen")
      ->type_name("HOST:PORT");
  AddLogs(&app, flags);
  app.add_option("--port-file", flags->port_file, "File to write the port for peers to")
      ->type_name(kFileValue);
  app.add_flag("--print-config", flags->print_config, "Print the effective settings, then end");
  app.add_flag("--print-size", flags->print_size,
               "Print what stages, m and exchanges take, then end");
  app.add_flag("--print-replica", flags->print_replica,
               "Print the replica method that --print-size suggests, then end");
  app.add_flag(
      "--forget-history", flags->forget_history,
      "Start anew from the model's weights: history and artefacts in the run's folder move "
      "to set-aside-N there. Give it once, by hand");
  app.add_option("--link", flags->link,
                 "Line rate of a peer, for what --print-size says of exchanges")
      ->type_name("RATE")
      ->capture_default_str();
  app.add_option("--step", flags->step,
                 "Time of a step without its exchange, for what --print-size says of exchanges")
      ->type_name("TIME")
      ->capture_default_str();
  app.add_option("--memory", flags->memory,
                 "Memory of a peer for a stage, for what --print-size says")
      ->type_name("SIZE");
  app.footer(
      "Examples:\n  shoal-scheduler --config ./run/run.toml\n"
      "  shoal-scheduler --config ./run/run.toml --print-size --memory 8GiB\n"
      "Exit code: 0 told to stop; 1 failed; 2 wrong usage; 69 the store cannot be reached; 77 not "
      "permitted; 78 wrong settings, model or data");
  AddReports(&app, flags);
  AddRestore(&app, flags);
  // Not for people: who measures starts peers whose stages need no weights.
  app.add_flag("--without-weights", flags->without_weights, "The model is a config.json only")
      ->group("");
  app.set_version_flag("--version", std::string("shoal-scheduler ") + kVersion);
  if (PrintedDescription(app, {argv + 1, argv + argc})) return ExitCode::kOk;
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error), ExitCode::kOk;
    return Fail(ExitCode::kUsage, UsageError(app, error));
  }
  if (!flags->restore.empty()) {
    if (!flags->directory.empty()) return std::nullopt;
    return Fail(ExitCode::kUsage, "--restore needs --dir, the folder to make");
  }
  if (flags->config.empty() && !flags->print_config &&
      !(flags->report() && !flags->directory.empty())) {
    return Fail(ExitCode::kUsage,
                "--config is missing; make one with `shoal swarm init`, or see --print-config");
  }
  return std::nullopt;
}

Result<RunConfig> EffectiveConfig(const Flags& flags) {
  RunConfig config;
  if (!flags.config.empty()) {
    SHOAL_ASSIGN_OR_RETURN(config, ReadRunConfig(flags.config));
  }
  if (!flags.directory.empty()) config.directory = flags.directory;
  if (!flags.listen.empty()) config.listen = flags.listen;
  if (!flags.log_to.empty()) config.log_to = flags.log_to;
  config.without_weights = flags.without_weights;
  SHOAL_RETURN_IF_ERROR(CheckRunConfig(config));
  return config;
}

Result<ReplicaNeeds> NeedsOf(const Flags& flags) {
  ReplicaNeeds needs;
  auto link = ParseRate(flags.link);
  if (!link.ok()) return link.status().WithContext("--link");
  auto step = ParseDuration(flags.step);
  if (!step.ok()) return step.status().WithContext("--step");
  needs.link = *link;
  needs.step = *step;
  if (flags.memory.empty()) return needs;
  auto memory = ParseBytesWithUnit(flags.memory);
  if (!memory.ok()) return memory.status().WithContext("--memory");
  needs.memory_bytes = *memory;
  return needs;
}

// What is known to cost quality or bytes; a run file that is not complete yet gets what can be
// said.
void Advise(const RunConfig& config) {
  std::uint64_t train_rows = config.train_rows;
  if (train_rows == 0) {
    const auto data = dataset::OpenPreparedData(config.data);
    if (data.ok()) train_rows = (*data)->info().train_rows;
  }
  compression::CodecChoice choice;
  choice.forward = config.forward;
  choice.backward = config.backward;
  choice.boundaries = config.stages - 1;
  if (train_rows > 0) {
    choice.epochs = static_cast<double>(config.steps) * config.micro_batches *
                    config.micro_batch_rows / static_cast<double>(train_rows);
  }
  choice.fresh_masks = config.dropout > 0 && config.dropout_masks == "fresh";
  std::vector<std::string> lines = compression::CodecAdvice(choice);
  std::ranges::copy(replica::ReplicaCautions(config.replica_method, config.pipelines),
                    std::back_inserter(lines));
  std::error_code error;
  const bool model =
      !config.without_weights && std::filesystem::exists(config.model + "/config.json", error);
  if (model && !dataset::HasTokenizer(config.model)) {
    lines.push_back("the model in " + config.model +
                    " has no tokenizer: what the run exports cannot be tried with text, nor be "
                    "made a GGUF file; copy its tokenizer's files there before the run begins");
  }
  for (const std::string& line : lines) {
    std::cerr << "shoal-scheduler: warning: " << line << "\n";
  }
}

bool NamesOnlyThisMachine(const std::string& line) {
  const Result<net::Invite> invite = net::ParseInvite(line);
  if (!invite.ok()) return false;
  return std::ranges::all_of(invite->addresses, [](const std::string& address) {
    const auto parsed = net::ParseHostPort(address);
    return parsed.ok() && (parsed->host.starts_with("127.") || parsed->host == "::1" ||
                           parsed->host == "localhost");
  });
}

void Greet(SchedulerServer& server) {
  const RunConfig& config = server.config();
  const std::uint64_t needed = std::uint64_t{config.stages} * config.pipelines;
  std::cout << "run \"" << config.name << "\" (" << config.run.ToHex() << "): " << config.steps
            << " steps, " << config.stages << " stages x " << config.pipelines
            << " pipelines, forward " << config.forward << ", backward " << config.backward << "\n";
  if (config.adapter_kind != "none") {
    std::cout << "adapters of rank " << config.adapter_rank
              << " are trained; the model stays as it is, kept "
              << (config.base == "source" ? "as its files have it" : "in " + config.base) << "\n";
  }
  std::cout << DescribeDeltaSize(config, server.delta_size());
  std::cout << "status page: http://" << server.status_address() << "/\n";
  if (server.finished()) {
    std::cout << "the run is finished; take the model with\n\n  " << ExportCommand(config) << "\n"
              << std::endl;
    return;
  }
  if (server.invite().empty()) {
    std::cout << "next: make an invite for each of " << needed << " machines with\n\n"
              << "  shoal swarm invite --dir " << config.directory << "\n"
              << std::endl;
    return;
  }
  std::cout << "next: on each of " << needed << (needed == 1 ? " machine" : " machines")
            << ", type\n\n  shoal join " << server.invite() << "\n"
            << std::endl;
  if (NamesOnlyThisMachine(server.invite())) {
    std::cout << "note: that invite leads to this machine from itself alone; for others name its "
                 "address as [network] advertise in run.toml, and let listen be 0.0.0.0\n"
              << std::endl;
  }
}

std::string Variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// Keys are in no file of ours.
StoreAccess ReadStoreAccess() {
  StoreAccess access;
  access.credentials.key_id = Variable("AWS_ACCESS_KEY_ID");
  access.credentials.secret_key = Variable("AWS_SECRET_ACCESS_KEY");
  access.credentials.session_token = Variable("AWS_SESSION_TOKEN");
  access.ca_file = Variable("AWS_CA_BUNDLE");
  return access;
}

ExitCode Restore(const Flags& flags) {
  RunConfig config;
  config.store = flags.restore;
  config.store_endpoint = flags.endpoint;
  config.store_region = flags.region;
  config.store_plain_http = flags.plain_http;
  if (const Status status = CheckRunConfig(config); !status.ok()) {
    return Fail(ExitCode::kUsage, status.message());
  }
  const auto store = OpenStoreOf(config, ReadStoreAccess(), {});
  if (!store.ok()) return Fail(ExitCode::kBadConfig, store.status().message());
  RestoreRequest request;
  request.directory = std::filesystem::absolute(flags.directory).lexically_normal().string();
  request.endpoint = flags.endpoint;
  request.region = flags.region;
  request.plain_http = flags.plain_http;
  request.now_ms = UnixMilliseconds();
  const auto restored = RestoreRun(request, store->get(), [](const std::string& line) {
    std::cerr << "shoal-scheduler: " << line << "\n";
  });
  if (restored.status().code() == StatusCode::kUnavailable) {
    return Fail(ExitCode::kUnreachable, restored.status().message());
  }
  if (!restored.ok()) return Fail(ExitCodeFor(restored.status()), restored.status().message());
  const std::string path = request.directory + "/run.toml";
  std::cout << "restored run " << restored->run.ToHex() << " after step " << restored->step
            << " into " << request.directory << "\n"
            << "see that listen and advertise in " << path << " are right for this machine\n"
            << "next: shoal-scheduler --config " << path
            << "\n      it prints a new invite line, with which the peers join again\n";
  return ExitCode::kOk;
}

Status WritePort(const Flags& flags, const SchedulerServer& server) {
  if (flags.port_file.empty()) return Status::Ok();
  return WriteFileAtomic(flags.port_file, std::to_string(server.port()) + "\n");
}

// One of several schedulers, which greets when it leads.
ExitCode ServeReplicated(const Flags& flags, const RunConfig& config) {
  if (flags.forget_history) {
    return Fail(ExitCode::kUsage,
                "--forget-history does not work on etcd; give the new run another [scheduler] "
                "prefix and another folder");
  }
  StopSignal stop;
  ReplicatedServer::Handlers handlers;
  handlers.on_stop = [&stop](Status status) { stop.Request(std::move(status)); };
  handlers.on_lead = [&](SchedulerServer& server) {
    const Status status = WritePort(flags, server);
    if (!status.ok()) stop.Request(status);
    Greet(server);
  };
  auto server = ReplicatedServer::Open(config, ReadStoreAccess(), std::move(handlers));
  if (!server.ok()) return Fail(ExitCodeForInput(server.status()), server.status().message());
  Advise(config);
  TellReady();
  const Status status = stop.Wait();
  TellStopping();
  std::move(server).value().reset();
  return status.ok() ? ExitCode::kOk : Fail(ExitCodeFor(status), status.message());
}

ExitCode Serve(const Flags& flags, const RunConfig& config) {
  StopSignal stop;
  auto server = SchedulerServer::Open(
      config, [&stop](Status status) { stop.Request(std::move(status)); },
      flags.forget_history ? History::kForget : History::kKeep, ReadStoreAccess());
  if (!server.ok()) return Fail(ExitCodeForInput(server.status()), server.status().message());
  if (Status status = WritePort(flags, **server); !status.ok()) {
    return Fail(ExitCode::kFailure, status.message());
  }
  Advise((*server)->config());
  Greet(**server);
  TellReady();
  const Status status = stop.Wait();
  TellStopping();
  std::move(server).value().reset();
  return status.ok() ? ExitCode::kOk : Fail(ExitCodeFor(status), status.message());
}

Result<std::string> DescribeSize(const RunConfig& config, const ReplicaNeeds& needs) {
  SHOAL_ASSIGN_OR_RETURN(const auto size, ReadDeltaSize(config));
  SHOAL_ASSIGN_OR_RETURN(const std::string replica, DescribeReplica(config, needs));
  SHOAL_ASSIGN_OR_RETURN(const std::string stages, DescribeStages(config, needs.memory_bytes));
  return stages + DescribeDeltaSize(config, size) + replica;
}

// The folder is read without its scheduler, which may run.
ExitCode PrintReport(const Flags& flags) {
  std::string directory = flags.directory;
  if (directory.empty()) {
    const auto config = EffectiveConfig(flags);
    if (!config.ok()) return Fail(ExitCode::kBadConfig, config.status().message());
    directory = config->directory;
  }
  const auto events = ReadEvents(directory);
  if (!events.ok()) return Fail(ExitCodeFor(events.status()), events.status().message());
  if (flags.print_events) {
    std::cout << ReportEvents(*events, flags.last) << "\n";
    return ExitCode::kOk;
  }
  const auto audit = ReportAudit(*events, flags.sample);
  if (audit.status().code() == StatusCode::kOutOfRange) {
    return Fail(ExitCode::kUsage, audit.status().message());
  }
  if (!audit.ok()) return Fail(ExitCodeFor(audit.status()), audit.status().message());
  std::cout << audit->json << "\n";
  return audit->right ? ExitCode::kOk : ExitCode::kFailure;
}

ExitCode Main(int argc, char** argv) {
  SetThreadName("main");
  RaiseDescriptorLimit();
  Flags flags;
  if (const auto code = ReadFlags(argc, argv, &flags)) return Delivered(*code);
  const auto level = ParseLogLevel(flags.log_level);
  if (!level.ok()) return Fail(ExitCode::kUsage, "--log-level: " + level.status().message());
  SetLogLevel(*level);
  if (flags.report()) return Delivered(PrintReport(flags));
  if (!flags.restore.empty()) return Restore(flags);
  const auto config = EffectiveConfig(flags);
  if (!config.ok()) return Fail(ExitCode::kBadConfig, config.status().message());
  if (flags.print_config) {
    if (const Status status = CheckAgainstModel(*config); !status.ok()) {
      return Fail(ExitCode::kBadConfig, status.message());
    }
    if (!flags.config.empty()) Advise(*config);
    std::cout << FormatRunConfig(*config);
    return Delivered(ExitCode::kOk);
  }
  if (flags.print_size || flags.print_replica) {
    const auto needs = NeedsOf(flags);
    if (!needs.ok()) return Fail(ExitCode::kUsage, needs.status().message());
    const auto text =
        flags.print_size ? DescribeSize(*config, *needs) : SuggestReplica(*config, *needs);
    if (!text.ok()) return Fail(ExitCodeForInput(text.status()), text.status().message());
    std::cout << *text << (flags.print_size ? "" : "\n");
    return Delivered(ExitCode::kOk);
  }
  return config->etcd.empty() ? Serve(flags, *config) : ServeReplicated(flags, *config);
}

}  // namespace
}  // namespace shoal::scheduler

int main(int argc, char** argv) { return static_cast<int>(shoal::scheduler::Main(argc, argv)); }
