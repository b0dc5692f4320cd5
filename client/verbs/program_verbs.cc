#include <CLI/CLI.hpp>

#include <algorithm>
#include <iostream>
#include <iterator>
#include <string>

#include "client/manual/completion.h"
#include "client/manual/man_page.h"
#include "client/verbs/descriptions.h"
#include "client/verbs/verb.h"
#include "common/command_line/spelling.h"
#include "common/command_line/usage_error.h"
#include "common/version.h"
#include "net/control/live_settings.h"

namespace shoal::client {
namespace {

void WordOptions(CLI::App* command, Given* g) {
  command->add_option("verb", g->words, "Verb, like: swarm init")->type_name(kVerbValue);
}

void ShellOptions(CLI::App* command, Given* g) {
  command->add_option("shell", g->shell, "Shell to complete in")
      ->required()
      ->check(CLI::IsMember(std::vector<std::string>(std::begin(kShells), std::end(kShells))));
}

ExitCode CompletionNow(Given* g) {
  std::vector<std::string> settings;
  for (const net::LiveSetting& setting : net::kLiveSettings) settings.emplace_back(setting.name);
  std::cout << CompletionScript(g->shell, DescribeVerbs(*g->app), settings);
  return ExitCode::kOk;
}

void PageOptions(CLI::App* command, Given* g) {
  command
      ->add_option("page", g->words,
                   "Verb, like: swarm init; or shoald, shoal-scheduler, shoal-relay, shoal-run")
      ->type_name(kVerbValue);
}

// The page of a sibling program, of a verb, or of all verbs.
Result<std::string> PageOf(const Given& given) {
  std::vector<std::string> path = given.words;
  if (path.size() == 1 && path[0].starts_with("shoal") && path[0] != "shoal") {
    SHOAL_ASSIGN_OR_RETURN(const CommandDescription program, DescribeProgram({path[0]}));
    return ManPage(program, path, kVersion);
  }
  if (path.empty() || path[0] != "shoal") path.insert(path.begin(), "shoal");
  CommandDescription command = DescribeVerbs(*given.app);
  for (std::size_t i = 1; i < path.size(); ++i) {
    const auto found = std::ranges::find(command.commands, path[i], &CommandDescription::name);
    if (found == command.commands.end()) {
      return InvalidArgument("there is no page of '" + path[i] + "'; see `shoal man --help`");
    }
    command = CommandDescription(*found);
  }
  return ManPage(command, path, kVersion);
}

ExitCode ManNow(Given* g) {
  const Result<std::string> page = PageOf(*g);
  if (page.status().code() == StatusCode::kInvalidArgument) {
    return Fail(ExitCode::kUsage, page.status().message());
  }
  if (!page.ok()) return Fail(page.status());
  std::cout << *page;
  return ExitCode::kOk;
}

// Of a verb that another program carries out; null: shoal does it.
const char* ProgramOf(const std::string& path) {
  for (const Verb& verb : AllVerbs()) {
    if (verb.path == path) return verb.program;
  }
  return nullptr;
}

// `shoal help swarm init` is `shoal swarm init --help`.
ExitCode HelpNow(Given* g) {
  const CLI::App* command = g->app;
  std::string path;
  for (const std::string& word : g->words) {
    const std::vector<std::string> known = CommandsOf(*command);
    if (std::find(known.begin(), known.end(), word) == known.end()) {
      return Fail(ExitCode::kUsage, "there is no command '" + word + "'" + DidYouMean(word, known) +
                                        "; see `shoal " + path + (path.empty() ? "" : " ") +
                                        "--help`");
    }
    command = command->get_subcommand(word);
    path += (path.empty() ? "" : " ") + word;
  }
  if (const char* program = ProgramOf(path); program != nullptr) {
    return RunProgram({g->words.back(), "--help"}, program);
  }
  // Not help(), which would show that of this command while it is the one that was parsed.
  std::cout << command->get_formatter()->make_help(
      command, path.empty() ? "shoal" : "shoal " + path, CLI::AppFormatMode::Normal);
  return ExitCode::kOk;
}

}  // namespace

std::vector<Verb> ProgramVerbs() {
  return {{"help", "The help of a verb", WordOptions, HelpNow, "shoal help swarm init"},
          {"completion", "Print a script with which a shell completes verbs, options and files",
           ShellOptions, CompletionNow,
           "shoal completion bash >~/.local/share/bash-completion/completions/shoal\n"
           "shoal completion zsh >~/.zfunc/_shoal\n"
           "shoal completion fish >~/.config/fish/completions/shoal.fish"},
          {"man", "Print a man page of all verbs, of one, or of another program", PageOptions,
           ManNow, "shoal man swarm init | man -l -\nshoal man shoald >shoald.1"},
          {"version", "Version of the programs",
           [](CLI::App* version, Given* g) {
             version->add_flag("--json", g->json, "Print one JSON object to standard output");
           },
           [](Given* g) { return Version(g->json); }, "shoal version\nshoal version --json"}};
}

}  // namespace shoal::client
