// shoal: the command line of the swarm.

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include "client/base/paths.h"
#include "client/base/programs.h"
#include "client/chaos.h"
#include "client/command_line.h"
#include "client/commands.h"
#include "client/demo.h"
#include "client/usage.h"
#include "common/log.h"
#include "common/units.h"
#include "common/version.h"

namespace {

using namespace shoal;
using namespace shoal::client;

constexpr const char* kDaemonProgram = "shoald";

// Everything that options write into; lives as long as the parse.
struct Parsed {
  Target peer, swarm;
  DemoOptions demo;
  ChaosOptions chaos;
  SwarmInitOptions init;
  SwarmRestoreOptions restore;
  std::string export_as, export_dtype, export_type;
  std::string id, invite_name, expires = "7d", kick_reason;
  std::uint64_t uses = 1;
  bool standing = false, members_too = false, undo = false;
  std::string invite, upload, download, name, device, listen, status_listen, config, export_path,
      store_run;
  std::vector<std::string> settings, words;
  std::optional<std::uint64_t> sample;
  std::uint64_t last = 0;
  int lines = 50, rounds = 0;
  double interval_s = 1;
  bool follow = false, json = false, no_start = false, store_all = false, now = false;
  std::function<ExitCode()> run;
};

CLI::App* Add(CLI::App* app, Parsed* parsed, const char* name, const char* help,
              std::function<ExitCode()> run) {
  CLI::App* command = app->add_subcommand(name, help);
  command->final_callback([parsed, run = std::move(run)] { parsed->run = run; });
  return command;
}

void PeerOptions(CLI::App* command, Parsed* parsed, bool json) {
  command->add_option("--dir", parsed->peer.directory, "Folder of shoald's state")
      ->capture_default_str();
  if (json)
    command->add_flag("--json", parsed->peer.json, "Print one JSON object to standard output");
}

ExitCode JoinNow(Parsed* p) {
  for (const auto& [flag, rate] :
       {std::pair{"--upload", &p->upload}, {"--download", &p->download}}) {
    if (rate->empty()) continue;
    if (const auto parsed = ParseRate(*rate); !parsed.ok()) {
      return Fail(ExitCode::kUsage, std::string(flag) + ": " + parsed.status().message());
    }
  }
  std::vector<std::string> options;
  const std::pair<const char*, const std::string*> given[] = {
      {"--upload", &p->upload}, {"--download", &p->download},
      {"--name", &p->name},     {"--device", &p->device},
      {"--listen", &p->listen}, {"--status-listen", &p->status_listen},
      {"--config", &p->config}};
  for (const auto& [flag, value] : given) {
    if (!value->empty()) options.insert(options.end(), {flag, *value});
  }
  return Join(p->peer, p->invite, !p->no_start, options);
}

ExitCode SetNow(Parsed* p) {
  std::map<std::string, std::string> values;
  for (const std::string& setting : p->settings) {
    const std::size_t equals = setting.find('=');
    if (equals == std::string::npos) {
      return Fail(ExitCode::kUsage, "'" + setting + "' is not key=value; try upload=20mbit");
    }
    values[setting.substr(0, equals)] = setting.substr(equals + 1);
  }
  return PeerCommand(p->peer, "set", values);
}

void AddPeerCommands(CLI::App* app, Parsed* p) {
  CLI::App* join =
      Add(app, p, "join", "Join a swarm with an invite line", [p] { return JoinNow(p); });
  join->add_option("invite", p->invite, "shoal1_..., file:PATH, or - for standard input")
      ->required();
  join->add_option("--upload", p->upload, "Cap on uploads, like 20mbit");
  join->add_option("--download", p->download, "Cap on downloads, like 80mbit");
  join->add_option("--name", p->name, "Name of this peer, shown to the organiser");
  join->add_option("--device", p->device, "Where the stage computes: cpu, cuda, cuda:N or auto");
  join->add_option("--listen", p->listen, "host:port that neighbours connect to");
  join->add_option("--status-listen", p->status_listen, "host:port of the status page");
  join->add_option("--config", p->config, "Settings file of shoald");
  join->add_flag("--no-start", p->no_start, "Give the invite to a running shoald; start none");
  PeerOptions(join, p, false);
  PeerOptions(Add(app, p, "status", "Show what this machine's peer does",
                  [p] { return PeerStatus(p->peer); }),
              p, true);
  CLI::App* top = Add(app, p, "top", "Show the peer's status again and again until Ctrl-C",
                      [p] { return Top(p->peer, p->interval_s, p->rounds); });
  top->add_option("--interval", p->interval_s, "Seconds between two refreshes")
      ->check(CLI::Range(0.1, 3600.0));
  top->add_option("--rounds", p->rounds, "Refreshes before the end; 0: until Ctrl-C");
  PeerOptions(top, p, false);
  const std::pair<const char*, const char*> plain[] = {
      {"pause", "Give this peer's stage back and rest until `shoal resume`"},
      {"resume", "End a pause: take part in the run again"},
      {"leave", "Leave the swarm for good and stop shoald"}};
  for (const auto& [name, help] : plain) {
    CLI::App* command = Add(app, p, name, help, [p, name = name] {
      return PeerCommand(p->peer, name,
                         p->now ? std::map<std::string, std::string>{{"now", "true"}}
                                : std::map<std::string, std::string>{});
    });
    if (std::string_view(name) != "resume") {
      command->add_flag("--now", p->now,
                        "Do not wait until the run has saved a checkpoint: it may lose the steps "
                        "since the last one");
    }
    PeerOptions(command, p, false);
  }
  CLI::App* set = Add(app, p, "set", "Change limits while training: upload=20mbit download=off",
                      [p] { return SetNow(p); });
  set->add_option("settings", p->settings, "Limits as key=value: upload=20mbit, download=off")
      ->required();
  PeerOptions(set, p, false);
  CLI::App* logs =
      Add(app, p, "logs", "Print shoald's log", [p] { return Logs(p->peer, p->lines, p->follow); });
  logs->add_option("-n,--lines", p->lines, "Number of lines, from the end")
      ->check(CLI::Range(1, 1000000));
  logs->add_flag("-f,--follow", p->follow, "Keep printing new lines until Ctrl-C");
  PeerOptions(logs, p, false);
  PeerOptions(Add(app, p, "health", "Exit with 0 if shoald answers (for health checks)",
                  [p] { return Health(p->peer); }),
              p, false);
  PeerOptions(Add(app, p, "doctor", "Check this machine and say what to mend",
                  [p] { return Doctor(p->peer); }),
              p, true);
}

ExitCode DropNow(Parsed* p) {
  if (p->store_run.empty() && !p->store_all) {
    return Fail(ExitCode::kUsage,
                "which records? give --run RUN (see `shoal store stats`) or --all");
  }
  return StoreCommand(p->peer, "drop",
                      p->store_all ? std::vector<std::string>{"--all"}
                                   : std::vector<std::string>{"--run", p->store_run});
}

void AddStoreCommands(CLI::App* app, Parsed* p) {
  CLI::App* store = app->add_subcommand(
      "store", "Look into the delta store of this machine's peer while shoald is stopped");
  store->require_subcommand(1);
  const std::pair<const char*, const char*> plain[] = {
      {"stats", "Print what the delta store holds, by run and boundary"},
      {"verify", "Read every record of the delta store and drop damaged ones"},
      {"compact", "Free the disk space that no record uses"}};
  for (const auto& [name, help] : plain) {
    PeerOptions(
        Add(store, p, name, help, [p, name = name] { return StoreCommand(p->peer, name, {}); }), p,
        true);
  }
  CLI::App* drop = Add(store, p, "drop", "Drop records and checkpoints of one run, or of all runs",
                       [p] { return DropNow(p); });
  CLI::Option* all = drop->add_flag("--all", p->store_all, "Drop all runs");
  drop->add_option("--run", p->store_run, "Id of the run to drop: 16 hexadecimal digits")
      ->excludes(all);
  PeerOptions(drop, p, true);
}

// As run.toml takes them.
constexpr int kStagesMax = 256, kPipelinesMax = 64;

// Of steps, micro-batches and rows on the command line.
const CLI::Range kCount(std::uint64_t{1}, std::uint64_t{1'000'000'000});

void AddSwarmInit(CLI::App* swarm, Parsed* p) {
  CLI::App* init =
      Add(swarm, p, "init", "Write run.toml for a new run", [p] { return SwarmInit(p->init); });
  init->add_option("--model", p->init.model, "Hugging Face directory of the model")->required();
  init->add_option("--data", p->init.data, "Training data: a file made by `shoal prepare`")
      ->required();
  init->add_option("--dir", p->init.directory, "Folder of the run")->required();
  init->add_option("--name", p->init.name, "Name of the run, shown to its peers");
  init->add_option("--stages", p->init.stages,
                   "Stages of each pipeline: peers that the layers are divided among")
      ->check(CLI::Range(1, kStagesMax));
  init->add_option("--pipelines", p->init.pipelines, "Pipelines that train side by side")
      ->check(CLI::Range(1, kPipelinesMax));
  init->add_option("--steps", p->init.steps, "Optimizer steps of the run")->check(kCount);
  init->add_option("--micro-batches", p->init.micro_batches,
                   "Micro-batches per step, over all pipelines")
      ->check(kCount);
  init->add_option("--rows", p->init.micro_batch_rows, "Samples per micro-batch")->check(kCount);
  init->add_option("--forward", p->init.forward, "Codec of activations, like aqsgd:bits=4");
  init->add_option("--backward", p->init.backward, "Codec of gradients, like direct:bits=8");
  init->add_option("--replica", p->init.replica,
                   "How pipelines combine gradients, like average:codec=dithered:step=0.3");
  CLI::Option* adapter = init->add_option(
      "--adapter", p->init.adapter,
      "lora: train small matrices beside the model, which stays as it is; none: all of the model");
  init->add_option("--rank", p->init.rank, "Width of an adapter")->check(kCount)->needs(adapter);
  init->add_option(
          "--base", p->init.base,
          "How peers keep the model beside adapters: source, fp32, bf16, fp16, int8 or nf4")
      ->needs(adapter);
  init->add_option("--link", p->init.link,
                   "Line rate of a peer, from which init suggests a replica method")
      ->capture_default_str();
  init->add_option("--step", p->init.step,
                   "Time of a step without its exchange, from which init suggests a replica method")
      ->capture_default_str();
  init->add_option(
      "--memory", p->init.memory,
      "Memory of a peer for a stage: init says whether it is enough, and suggests cuts "
      "and a replica method");
}

CLI::App* AddExport(CLI::App* swarm, Parsed* p) {
  CLI::App* save =
      Add(swarm, p, "export", "Write the newest weights as a model directory or a file", [p] {
        std::map<std::string, std::string> arguments = {{"path", AbsolutePath(p->export_path)}};
        for (const auto& [name, value] : {std::pair("as", &p->export_as),
                                          {"dtype", &p->export_dtype},
                                          {"type", &p->export_type}}) {
          if (!value->empty()) arguments[name] = *value;
        }
        return SwarmCommand(p->swarm, "export", arguments);
      });
  save->add_option("--out", p->export_path, "New folder")->required();
  save->add_option(
      "--as", p->export_as,
      "directory: a Hugging Face one (if not given), with the adapters' sums in it where adapters "
      "were trained; merged: the same, of adapters alone; adapter: a folder for PEFT; gguf: a file "
      "for llama.cpp, with a Modelfile for Ollama");
  save->add_option(
      "--dtype", p->export_dtype,
      "Number format of a directory: fp32, bf16 or fp16; the first model's if not given");
  save->add_option("--type", p->export_type,
                   "Number format of matrices in a GGUF file: f16 (if not given) or q8_0");
  return save;
}

// Rows of data, of which there are fewer than 2^32, and lines.
const CLI::Range kRow(std::uint64_t{0}, std::uint64_t{0xffffffff});

// Those that look back at the run.
std::vector<CLI::App*> AddReports(CLI::App* swarm, Parsed* p) {
  CLI::App* audit =
      Add(swarm, p, "audit",
          "Recompute from the history whether every sample was counted exactly once: exit code 0",
          [p] { return SwarmAudit(p->swarm, p->sample); });
  audit
      ->add_option("--sample", p->sample,
                   "Row of the data: also print in which steps it was counted, and by whom")
      ->check(kRow);
  audit->footer(
      "Reads the folder, whether the scheduler runs or not; one that runs stores steps after 10 s "
      "at most.\nExamples:\n  shoal swarm audit --dir ./run\n"
      "  shoal swarm audit --dir ./run --sample 17");
  CLI::App* events = Add(swarm, p, "events",
                         "Show who came and went, what ended each generation, and what that cost",
                         [p] { return SwarmEvents(p->swarm, p->last); });
  events->add_option("--last", p->last, "Only so many, the newest; 0: all")
      ->check(kRow)
      ->capture_default_str();
  events->footer(
      "Reads the folder, whether the scheduler runs or not.\nExamples:\n"
      "  shoal swarm events --dir ./run --last 20\n  shoal swarm events --dir ./run --json");
  return {audit, events};
}

CLI::App* AddInvite(CLI::App* swarm, Parsed* p) {
  CLI::App* invite = Add(swarm, p, "invite", "Make an invite and print its line", [p] {
    std::map<std::string, std::string> arguments = {{"uses", std::to_string(p->uses)},
                                                    {"expires", p->expires}};
    if (!p->invite_name.empty()) arguments["name"] = p->invite_name;
    if (p->standing) arguments = {{"standing", ""}};
    if (const auto lasts = ParseDuration(p->expires); !lasts.ok()) {
      return Fail(ExitCode::kUsage, "--expires: " + lasts.status().message());
    }
    return SwarmCommand(p->swarm, "invite", arguments);
  });
  CLI::Option* uses =
      invite->add_option("--uses", p->uses, "How many machines may join with it, each once")
          ->check(CLI::Range(1, 10'000))
          ->capture_default_str();
  CLI::Option* expires =
      invite->add_option("--expires", p->expires, "When it ends, from now: 30m, 12h, 7d")
          ->capture_default_str();
  CLI::Option* name = invite->add_option("--name", p->invite_name,
                                         "Whom it is for, as `shoal swarm invites` shows it");
  invite
      ->add_flag("--standing", p->standing,
                 "Print the run's standing invite, without limits, and make none")
      ->excludes(uses)
      ->excludes(expires)
      ->excludes(name);
  invite->footer(
      "The scheduler keeps no secret of it: copy the line now, it is not shown again.\n"
      "Examples:\n  shoal swarm invite --dir ./run --name Ana\n"
      "  shoal swarm invite --dir ./run --uses 20 --expires 2d");
  return invite;
}

// Those about who may join.
std::vector<CLI::App*> AddDoor(CLI::App* swarm, Parsed* p) {
  CLI::App* invites = Add(swarm, p, "invites", "List invites: uses left, expiry, who used them",
                          [p] { return SwarmList(p->swarm, "invites"); });
  CLI::App* members =
      Add(swarm, p, "members", "List who has joined, by which invite, and when seen",
          [p] { return SwarmList(p->swarm, "members"); });
  CLI::App* revoke =
      Add(swarm, p, "revoke", "End an invite: nobody new joins with it, its members stay", [p] {
        std::map<std::string, std::string> arguments = {{"id", p->id}};
        if (p->members_too) arguments["members"] = "";
        return SwarmCommand(p->swarm, "revoke", arguments);
      });
  revoke->add_option("id", p->id, "Id of `shoal swarm invites`, or its begin")->required();
  revoke->add_flag("--members", p->members_too, "Also remove all who joined with it");
  CLI::App* kick = Add(swarm, p, "kick",
                       "Remove a member at once and for good; another peer takes its stage", [p] {
                         std::map<std::string, std::string> arguments = {{"member", p->id}};
                         if (!p->kick_reason.empty()) arguments["reason"] = p->kick_reason;
                         if (p->undo) arguments["undo"] = "";
                         return SwarmCommand(p->swarm, "kick", arguments);
                       });
  kick->add_option("member", p->id, "Name, or begin of the key, of `shoal swarm members`")
      ->required();
  CLI::Option* reason = kick->add_option("--reason", p->kick_reason, "Why; its owner reads it");
  kick->add_flag("--undo", p->undo, "Let a removed member join again")->excludes(reason);
  return {AddInvite(swarm, p), invites, members, revoke, kick};
}

void AddSwarmRestore(CLI::App* swarm, Parsed* p) {
  CLI::App* restore =
      Add(swarm, p, "restore",
          "Make a new folder of a run from its copy in a store, to go on with it on this machine",
          [p] { return SwarmRestore(p->restore); });
  restore
      ->add_option("store", p->restore.store,
                   "What run.toml has as [checkpoint] store: s3://BUCKET/PREFIX or file:///FOLDER")
      ->required();
  restore->add_option("--dir", p->restore.directory, "Folder to make")->required();
  restore->add_option("--endpoint", p->restore.endpoint,
                      "S3-compatible service, like https://s3.example.org; without it Amazon's");
  restore->add_option("--region", p->restore.region,
                      "Region that requests are signed for; without it us-east-1");
  restore->add_flag("--plain-http", p->restore.plain_http,
                    "Let --endpoint be http:// on another machine");
}

void AddSwarmCommands(CLI::App* app, Parsed* p) {
  CLI::App* swarm = app->add_subcommand("swarm", "Manage a run, on the scheduler's machine");
  swarm->require_subcommand(1);
  AddSwarmInit(swarm, p);
  AddSwarmRestore(swarm, p);
  const auto of_run = [p](CLI::App* command) {
    command->add_option("--dir", p->swarm.directory, "Folder of the run")->required();
    command->add_flag("--json", p->swarm.json, "Print one JSON object to standard output");
  };
  of_run(Add(swarm, p, "status", "Show what the run and its peers do",
             [p] { return SwarmStatus(p->swarm); }));
  for (CLI::App* command : AddReports(swarm, p)) of_run(command);
  const std::pair<const char*, const char*> plain[] = {
      {"start", "Start the run as soon as enough peers are there; after 15 s with fewer pipelines"},
      {"pause", "Save a checkpoint and pause the run until `shoal swarm resume`"},
      {"resume", "Continue the run from its last checkpoint"},
      {"stop", "Stop the scheduler; the run can continue later"}};
  for (const auto& [name, help] : plain) {
    of_run(
        Add(swarm, p, name, help, [p, name = name] { return SwarmCommand(p->swarm, name, {}); }));
  }
  of_run(AddExport(swarm, p));
  for (CLI::App* command : AddDoor(swarm, p)) of_run(command);
}

void AddDemo(CLI::App* app, Parsed* p) {
  DemoOptions& o = p->demo;
  CLI::App* demo = Add(app, p, "demo", "Fine-tune a small model with a whole swarm on this machine",
                       [p] { return Demo(p->demo); });
  demo->add_option("--stages", o.stages,
                   "Stages of each pipeline: peers that the layers are divided among")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  demo->add_option("--pipelines", o.pipelines, "Pipelines that train side by side")
      ->check(CLI::Range(1, 8))
      ->capture_default_str();
  demo->add_option("--forward", o.forward, "Codec of activations")->capture_default_str();
  demo->add_option("--backward", o.backward, "Codec of gradients of activations")
      ->capture_default_str();
  demo->add_option(
      "--replica", o.replica,
      "How pipelines combine gradients: average, average:codec=dithered:step=0.3, qadam:bits=4, "
      "onebit, powersgd:rank=16, qsdp:weights=8,gradients=8 and others; not given: what suits the "
      "lines");
  demo->add_option("--adapter", o.adapter,
                   "lora: train small matrices beside the model, which stays as it is; none: all "
                   "of the model")
      ->check(CLI::IsMember({"none", "lora"}))
      ->capture_default_str();
  demo->add_option("--steps", o.steps, "Optimizer steps of the run")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  demo->add_option("--link", o.link, "Cap of each peer's line, or off")->capture_default_str();
  CLI::Option* model = demo->add_option("--model", o.model,
                                        "Hugging Face directory to fine-tune; not given: a Llama "
                                        "of 0.9 million parameters that knows "
                                        "small facts");
  demo->add_flag("--fresh", o.fresh,
                 "Train a GPT-2 of 0.9 million parameters from fresh weights instead")
      ->excludes(model);
  demo->add_option("--data", o.data,
                   "Conversations (JSON lines) or text to train on, or a file made by `shoal "
                   "prepare`; not given: a pirate's answers, or Shakespeare for a model without a "
                   "chat template");
  demo->add_option("--answers", o.answers,
                   "JSON lines with prompt and answer, asked before and after training");
  demo->add_option("--learning-rate", o.learning_rate,
                   "Highest rate of the optimizer; 0: what suits what is trained")
      ->check(CLI::Range(0.0, 1.0));
  demo->add_option("--dir", o.directory, "Empty folder for everything that the demo makes");
  demo->add_option("--seed", o.seed, "Seed of fresh weights and of the order of samples")
      ->capture_default_str();
  demo->add_flag("--json", o.json, "Print one JSON object");
}

void AddChaos(CLI::App* app, Parsed* p) {
  ChaosOptions& o = p->chaos;
  CLI::App* chaos =
      Add(app, p, "chaos", "Disturb a whole swarm on this machine: does its run survive?",
          [p] { return Chaos(p->chaos); });
  chaos->add_option("--minutes", o.minutes, "How long faults come, one after another")
      ->check(CLI::Range(0.01, 10'000.0))
      ->capture_default_str();
  chaos->add_option("--seed", o.seed, "Seed of the faults, the weights and the samples")
      ->capture_default_str();
  chaos->add_option("--stages", o.stages, "Stages, at most the model's 4 layers")
      ->check(CLI::Range(1, 4))
      ->capture_default_str();
  chaos->add_option("--pipelines", o.pipelines, "Pipelines; with one, steps may be lost")
      ->check(CLI::Range(1, 8))
      ->capture_default_str();
  chaos->add_option("--spares", o.spares, "Peers without a stage")
      ->check(CLI::Range(0, 8))
      ->capture_default_str();
  chaos
      ->add_option("--faults", o.kinds,
                   "Kinds of faults: kill, stop, cut off and slow down (throttle) peers, let them "
                   "pause, fill their disks, kill the scheduler. cut and disk-full need root, else "
                   "they are left out")
      ->delimiter(',')
      ->capture_default_str();
  chaos->add_option("--dir", o.directory,
                    "Empty folder for everything, which stays, but for disks that were filled");
  chaos->add_flag("--json", o.json, "Print one JSON object");
}

// A command that another program carries out gets all further arguments unread, so that its own
// help and messages hold.
void AddUnread(CLI::App* app, Parsed* p, const char* name, const char* help, const char* program) {
  CLI::App* command = app->add_subcommand(name, help);
  command->prefix_command();
  command->set_help_flag();
  command->final_callback([p, command, name, program] {
    p->run = [command, name, program] {
      std::vector<std::string> arguments = {name};
      const std::vector<std::string> rest = command->remaining();
      arguments.insert(arguments.end(), rest.begin(), rest.end());
      return RunProgram(arguments, program);
    };
  });
}

void AddRunCommands(CLI::App* app, Parsed* p) {
  const std::pair<const char*, const char*> names[] = {
      {"prepare", "Turn a text into token rows"},
      {"init-model", "Make a model directory with fresh weights from a config.json"},
      {"convert", "Write a model directory as a GGUF file, or in another number format"},
      {"eval", "Measure a model directory: perplexity on a prepared file, or exact answers"},
      {"try", "Let a model continue a prompt"},
      {"chat", "Talk with a model in its chat template"}};
  for (const auto& [name, help] : names) AddUnread(app, p, name, help, "shoal-run");
}

void AddBench(CLI::App* app, Parsed* p) {
  CLI::App* bench = app->add_subcommand("bench", "Measure, without a swarm, what one would do");
  bench->require_subcommand(1);
  AddUnread(bench, p, "churn",
            "Replay machines that come and go: what is left of a run's pace, and where it goes",
            kDaemonProgram);
}

// `shoal help swarm init` is `shoal swarm init --help`.
ExitCode Help(const CLI::App& app, const std::vector<std::string>& words) {
  const CLI::App* command = &app;
  std::string name = "shoal";
  for (const std::string& word : words) {
    const std::vector<std::string> known = CommandsOf(*command);
    if (std::find(known.begin(), known.end(), word) == known.end()) {
      return Fail(ExitCode::kUsage, "there is no command '" + word + "'" + DidYouMean(word, known) +
                                        "; see `" + name + " --help`");
    }
    command = command->get_subcommand(word);
    name += " " + word;
  }
  if (command->get_help_ptr() == nullptr) {
    const bool bench = words.front() == "bench";
    return RunProgram({words.back(), "--help"}, bench ? kDaemonProgram : "shoal-run");
  }
  // Not help(), which would show that of this command while it is the one that was parsed.
  std::cout << command->get_formatter()->make_help(command, name, CLI::AppFormatMode::Normal);
  return ExitCode::kOk;
}

void AddHelp(CLI::App* app, Parsed* p) {
  CLI::App* help =
      Add(app, p, "help", "The help of a command", [app, p] { return Help(*app, p->words); });
  help->add_option("command", p->words, "Command, like: swarm init");
}

}  // namespace

int main(int argc, char** argv) {
  SetLogLevel(LogLevel::kError);
  CLI::App app{"shoal: home GPUs fine-tune language models together", "shoal"};
  app.set_version_flag("--version", std::string("shoal ") + kVersion);
  app.require_subcommand(1);
  app.footer("To measure what a swarm gives over given lines: shoal-bench --help");
  Parsed parsed;
  parsed.peer.directory = DefaultDirectory();
  AddDemo(&app, &parsed);
  AddChaos(&app, &parsed);
  AddPeerCommands(&app, &parsed);
  AddStoreCommands(&app, &parsed);
  AddSwarmCommands(&app, &parsed);
  AddRunCommands(&app, &parsed);
  AddBench(&app, &parsed);
  AddHelp(&app, &parsed);
  Add(&app, &parsed, "version", "Version of the programs", [&parsed] {
    return Version(parsed.json);
  })->add_flag("--json", parsed.json, "Print one JSON object to standard output");
  return static_cast<int>(RunCommandLine(&app, argc, argv, &parsed.run));
}
