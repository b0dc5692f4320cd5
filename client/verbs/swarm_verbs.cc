#include <CLI/CLI.hpp>

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "client/base/paths.h"
#include "client/verbs/verb.h"
#include "common/command_line/description.h"
#include "common/units.h"

namespace shoal::client {
namespace {

// As run.toml takes them.
constexpr int kStagesMax = 256, kPipelinesMax = 64;

// Of steps, micro-batches and rows on the command line.
const CLI::Range kCount(std::uint64_t{1}, std::uint64_t{1'000'000'000});

// Rows of data, of which there are fewer than 2^32, and lines.
const CLI::Range kRow(std::uint64_t{0}, std::uint64_t{0xffffffff});

void OfRun(CLI::App* command, Given* g) {
  command->add_option("--dir", g->swarm.directory, "Folder of the run")
      ->required()
      ->type_name(kFolderValue);
  command->add_flag("--json", g->swarm.json, "Print one JSON object to standard output");
}

void InitShape(CLI::App* init, Given* g) {
  init->add_option("--stages", g->init.stages,
                   "Stages of each pipeline: peers that the layers are divided among")
      ->check(CLI::Range(1, kStagesMax))
      ->capture_default_str();
  init->add_option("--pipelines", g->init.pipelines, "Pipelines that train side by side")
      ->check(CLI::Range(1, kPipelinesMax))
      ->capture_default_str();
  // Of the others run.toml has the defaults.
  init->add_option("--steps", g->init.steps, "Optimizer steps of the run")
      ->check(kCount)
      ->default_str("100");
  init->add_option("--micro-batches", g->init.micro_batches,
                   "Micro-batches per step, over all pipelines")
      ->check(kCount)
      ->default_str("8");
  init->add_option("--rows", g->init.micro_batch_rows, "Samples per micro-batch")
      ->check(kCount)
      ->default_str("2");
}

void InitOptions(CLI::App* init, Given* g) {
  init->add_option("--model", g->init.model, "Hugging Face directory of the model")
      ->required()
      ->type_name(kFolderValue);
  init->add_option("--data", g->init.data, "Training data: a file made by `shoal prepare`")
      ->required()
      ->type_name(kFileValue);
  init->add_option("--dir", g->init.directory, "Folder of the run")
      ->required()
      ->type_name(kFolderValue);
  init->add_option("--name", g->init.name, "Name of the run, shown to its peers")
      ->type_name("NAME");
  InitShape(init, g);
  init->add_option("--forward", g->init.forward, "Codec of activations, like aqsgd:bits=4")
      ->type_name("CODEC");
  init->add_option("--backward", g->init.backward, "Codec of gradients, like direct:bits=8")
      ->type_name("CODEC");
  init->add_option("--replica", g->init.replica,
                   "How pipelines combine gradients, like average:codec=dithered:step=0.3")
      ->type_name("METHOD");
  CLI::Option* adapter = init->add_option(
      "--adapter", g->init.adapter,
      "lora: train small matrices beside the model, which stays as it is; none: all of the model");
  init->add_option("--rank", g->init.rank, "Width of an adapter")
      ->check(kCount)
      ->needs(adapter)
      ->default_str("16");
  init->add_option(
          "--base", g->init.base,
          "How peers keep the model beside adapters: source, fp32, bf16, fp16, int8 or nf4")
      ->needs(adapter);
  init->add_option("--link", g->init.link,
                   "Line rate of a peer, from which init suggests a replica method")
      ->type_name("RATE")
      ->capture_default_str();
  init->add_option("--step", g->init.step,
                   "Time of a step without its exchange, from which init suggests a replica method")
      ->type_name("TIME")
      ->capture_default_str();
  init->add_option(
          "--memory", g->init.memory,
          "Memory of a peer for a stage: init says whether it is enough, and suggests cuts "
          "and a replica method")
      ->type_name("SIZE");
}

void RestoreOptions(CLI::App* restore, Given* g) {
  restore
      ->add_option("store", g->restore.store,
                   "What run.toml has as [checkpoint] store: s3://BUCKET/PREFIX or file:///FOLDER")
      ->required()
      ->type_name("STORE");
  restore->add_option("--dir", g->restore.directory, "Folder to make")
      ->required()
      ->type_name(kFolderValue);
  restore
      ->add_option("--endpoint", g->restore.endpoint,
                   "S3-compatible service, like https://s3.example.org; without it Amazon's")
      ->type_name("URL");
  restore->add_option("--region", g->restore.region,
                      "Region that requests are signed for; without it us-east-1");
  restore->add_flag("--plain-http", g->restore.plain_http,
                    "Let --endpoint be http:// on another machine");
}

void ExportOptions(CLI::App* save, Given* g) {
  save->add_option("--out", g->export_path, "New folder")->required()->type_name(kFolderValue);
  save->add_option(
      "--as", g->export_as,
      "directory: a Hugging Face one (if not given), with the adapters' sums in it where adapters "
      "were trained; merged: the same, of adapters alone; adapter: a folder for PEFT; gguf: a file "
      "for llama.cpp, with a Modelfile for Ollama");
  save->add_option(
      "--dtype", g->export_dtype,
      "Number format of a directory: fp32, bf16 or fp16; the first model's if not given");
  save->add_option("--type", g->export_type,
                   "Number format of matrices in a GGUF file: f16 (if not given) or q8_0");
  OfRun(save, g);
}

ExitCode ExportNow(Given* g) {
  std::map<std::string, std::string> arguments = {{"path", AbsolutePath(g->export_path)}};
  for (const auto& [name, value] :
       {std::pair("as", &g->export_as), {"dtype", &g->export_dtype}, {"type", &g->export_type}}) {
    if (!value->empty()) arguments[name] = *value;
  }
  return SwarmCommand(g->swarm, "export", arguments);
}

void AuditOptions(CLI::App* audit, Given* g) {
  audit
      ->add_option("--sample", g->sample,
                   "Row of the data: also print in which steps it was counted, and by whom")
      ->check(kRow);
  OfRun(audit, g);
}

void EventsOptions(CLI::App* events, Given* g) {
  events->add_option("--last", g->last, "Only so many, the newest; 0: all")
      ->check(kRow)
      ->capture_default_str();
  OfRun(events, g);
}

// Verbs that the scheduler carries out without arguments.
std::vector<Verb> OrderVerbs() {
  using enum ExitCode;
  return {{"swarm start",
           "Start the run as soon as enough peers are there; after 15 s with fewer pipelines",
           OfRun,
           [](Given* g) { return SwarmCommand(g->swarm, "start", {}); },
           "shoal swarm start --dir ./run",
           {kDaemonNotRunning}},
          {"swarm pause",
           "Save a checkpoint and pause the run until `shoal swarm resume`",
           OfRun,
           [](Given* g) { return SwarmCommand(g->swarm, "pause", {}); },
           "shoal swarm pause --dir ./run",
           {kDaemonNotRunning}},
          {"swarm resume",
           "Continue the run from its last checkpoint",
           OfRun,
           [](Given* g) { return SwarmCommand(g->swarm, "resume", {}); },
           "shoal swarm resume --dir ./run",
           {kDaemonNotRunning}},
          {"swarm stop",
           "Stop the scheduler; the run can continue later",
           OfRun,
           [](Given* g) { return SwarmCommand(g->swarm, "stop", {}); },
           "shoal swarm stop --dir ./run",
           {kDaemonNotRunning}}};
}

void InviteOptions(CLI::App* invite, Given* g) {
  CLI::Option* uses =
      invite->add_option("--uses", g->uses, "How many machines may join with it, each once")
          ->check(CLI::Range(1, 10'000))
          ->capture_default_str();
  CLI::Option* expires =
      invite->add_option("--expires", g->expires, "When it ends, from now: 30m, 12h, 7d")
          ->type_name("TIME")
          ->capture_default_str();
  CLI::Option* name = invite
                          ->add_option("--name", g->invite_name,
                                       "Whom it is for, as `shoal swarm invites` shows it")
                          ->type_name("NAME");
  invite
      ->add_flag("--standing", g->standing,
                 "Print the run's standing invite, without limits, and make none")
      ->excludes(uses)
      ->excludes(expires)
      ->excludes(name);
  OfRun(invite, g);
}

ExitCode InviteNow(Given* g) {
  if (const auto lasts = ParseDuration(g->expires); !lasts.ok()) {
    return Fail(ExitCode::kUsage, "--expires: " + lasts.status().message());
  }
  std::map<std::string, std::string> arguments = {{"uses", std::to_string(g->uses)},
                                                  {"expires", g->expires}};
  if (!g->invite_name.empty()) arguments["name"] = g->invite_name;
  if (g->standing) arguments = {{"standing", ""}};
  return SwarmCommand(g->swarm, "invite", arguments);
}

void RevokeOptions(CLI::App* revoke, Given* g) {
  revoke->add_option("id", g->id, "Name, or begin of the id, of `shoal swarm invites`")
      ->required()
      ->type_name("ID");
  revoke->add_flag("--members", g->members_too, "Also remove all who joined with it");
  OfRun(revoke, g);
}

ExitCode RevokeNow(Given* g) {
  std::map<std::string, std::string> arguments = {{"id", g->id}};
  if (g->members_too) arguments["members"] = "";
  return SwarmCommand(g->swarm, "revoke", arguments);
}

void KickOptions(CLI::App* kick, Given* g) {
  kick->add_option("member", g->id, "Name, or begin of the key, of `shoal swarm members`")
      ->required()
      ->type_name("MEMBER");
  CLI::Option* reason =
      kick->add_option("--reason", g->kick_reason, "Why; its owner reads it")->type_name("TEXT");
  kick->add_flag("--undo", g->undo, "Let a removed member join again")->excludes(reason);
  OfRun(kick, g);
}

ExitCode KickNow(Given* g) {
  std::map<std::string, std::string> arguments = {{"member", g->id}};
  if (!g->kick_reason.empty()) arguments["reason"] = g->kick_reason;
  if (g->undo) arguments["undo"] = "";
  return SwarmCommand(g->swarm, "kick", arguments);
}

void ReleaseOptions(CLI::App* release, Given* g) {
  release->add_option("member", g->id, "Name, or begin of the key, of `shoal swarm members`")
      ->required()
      ->type_name("MEMBER");
  OfRun(release, g);
}

// Who may take part.
std::vector<Verb> DoorVerbs() {
  using enum ExitCode;
  return {{"swarm invite",
           "Make an invite and print its line",
           InviteOptions,
           InviteNow,
           "shoal swarm invite --dir ./run --name Ana\n"
           "shoal swarm invite --dir ./run --uses 20 --expires 2d",
           {kDaemonNotRunning},
           "The scheduler keeps no secret of it: copy the line now, it is not shown again."},
          {"swarm invites",
           "List invites: uses left, expiry, who used them",
           OfRun,
           [](Given* g) { return SwarmList(g->swarm, "invites"); },
           "shoal swarm invites --dir ./run",
           {kDaemonNotRunning}},
          {"swarm revoke",
           "End an invite: nobody new joins with it, its members stay",
           RevokeOptions,
           RevokeNow,
           "shoal swarm revoke 0a1b2c3d --dir ./run\n"
           "shoal swarm revoke 0a1b2c3d --members --dir ./run",
           {kDaemonNotRunning}},
          {"swarm members",
           "List who has joined, by which invite, and when seen",
           OfRun,
           [](Given* g) { return SwarmList(g->swarm, "members"); },
           "shoal swarm members --dir ./run",
           {kDaemonNotRunning}},
          {"swarm kick",
           "Remove a member at once and for good; another peer takes its stage",
           KickOptions,
           KickNow,
           "shoal swarm kick Ana --reason \"your results differ\" --dir ./run\n"
           "shoal swarm kick Ana --undo --dir ./run",
           {kDaemonNotRunning}},
          {"swarm release",
           "End a member's quarantine: it may have a stage again",
           ReleaseOptions,
           [](Given* g) {
             return SwarmCommand(g->swarm, "release", {{"member", g->id}});
           },
           "shoal swarm release Ana --dir ./run",
           {kDaemonNotRunning},
           "In quarantine is whose results failed checks; `shoal swarm members` says which."}};
}

}  // namespace

std::vector<Verb> SwarmVerbs() {
  using enum ExitCode;
  std::vector<Verb> verbs = {
      {"swarm",
       "Manage a run, on the scheduler's machine",
       {},
       {},
       "shoal swarm init --dir ./run --model ./gpt2 --data corpus.shoal --stages 2\n"
       "shoal swarm status --dir ./run"},
      {"swarm init",
       "Write run.toml for a new run",
       InitOptions,
       [](Given* g) { return SwarmInit(g->init); },
       "shoal swarm init --dir ./run --model ./gpt2 --data corpus.shoal --stages 2\n"
       "shoal swarm init --dir ./run --model ./llama --data corpus.shoal --adapter lora --base nf4 "
       "--memory 8GiB",
       {kBadConfig}},
      {"swarm restore",
       "Make a new folder of a run from its copy in a store, to go on with it on this machine",
       RestoreOptions,
       [](Given* g) { return SwarmRestore(g->restore); },
       "shoal swarm restore s3://bucket/run --dir ./run --endpoint https://s3.example.org",
       {kUnreachable, kPermission, kBadConfig}},
      {"swarm status",
       "Show what the run and its peers do",
       OfRun,
       [](Given* g) { return SwarmStatus(g->swarm); },
       "shoal swarm status --dir ./run\nshoal swarm status --dir ./run --json | jq .peers",
       {kDaemonNotRunning}},
      {"swarm audit",
       "Recompute from the history whether every sample was counted exactly once: exit code 0",
       AuditOptions,
       [](Given* g) { return SwarmAudit(g->swarm, g->sample); },
       "shoal swarm audit --dir ./run\nshoal swarm audit --dir ./run --sample 17",
       {kPermission},
       "Reads the folder, whether the scheduler runs or not; one that runs stores steps after 10 s "
       "at most."},
      {"swarm events",
       "Show who came and went, what ended each generation, and what that cost",
       EventsOptions,
       [](Given* g) { return SwarmEvents(g->swarm, g->last); },
       "shoal swarm events --dir ./run --last 20\nshoal swarm events --dir ./run --json",
       {kPermission},
       "Reads the folder, whether the scheduler runs or not."}};
  for (Verb& verb : OrderVerbs()) verbs.push_back(std::move(verb));
  for (Verb& verb : DoorVerbs()) verbs.push_back(std::move(verb));
  verbs.push_back({"swarm export",
                   "Write the newest weights as a model directory or a file",
                   ExportOptions,
                   ExportNow,
                   "shoal swarm export --dir ./run --out ./tuned\n"
                   "shoal swarm export --dir ./run --out ./tuned-gguf --as gguf --type q8_0",
                   {kDaemonNotRunning, kBadConfig}});
  return verbs;
}

}  // namespace shoal::client
