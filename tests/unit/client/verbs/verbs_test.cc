// Help, completions and man pages of all verbs, by the program itself.

#include <utility>

#include "client/base/process.h"
#include "client/verbs/verb.h"
#include "tests/unit/client/shoal_program.h"

namespace shoal::client {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

TEST_F(Shoal, EveryVerbsHelpStandsAlone) {
  for (const Verb& verb : AllVerbs()) {
    const std::string path = verb.path;
    const Outcome help = Start(path + " --help");
    EXPECT_EQ(help.exit, 0) << path << help.error;
    EXPECT_THAT(help.out, AllOf(HasSubstr("Examples:\n  shoal "), HasSubstr("Exit code"))) << path;
    EXPECT_THAT(help.out, testing::Not(HasSubstr(folder_))) << "a folder of this machine";
  }
}

TEST_F(Shoal, EveryVerbIsInEachCompletionAndInTheManPage) {
  const std::string bash = Start("completion bash").out, zsh = Start("completion zsh").out;
  const std::string fish = Start("completion fish").out, man = Start("man").out;
  for (const Verb& verb : AllVerbs()) {
    const std::string path = verb.path;
    EXPECT_THAT(bash, HasSubstr("\n    ' " + path + "') flags='-h --help")) << path;
    EXPECT_THAT(zsh, HasSubstr("\n    (' " + path + "')\n      flags=('-h:")) << path;
    EXPECT_THAT(fish, HasSubstr("\"shoal " + path + "\"' -s h -l help")) << path;
    std::string roff;
    for (const char letter : path) roff += letter == '-' ? "\\-" : std::string(1, letter);
    EXPECT_THAT(man, HasSubstr("\n.SS \"shoal " + roff + "\"\n")) << path;
  }
  EXPECT_EQ(Start("completion tcsh").exit, 2);
}

TEST_F(Shoal, BashCompletesARealCommandLine) {
  const std::string script = At("completion");
  ASSERT_TRUE(WriteFileAtomic(script, Start("completion bash").out, 0600).ok());
  ASSERT_TRUE(WriteFileAtomic(At("my corpus.shoal"), "", 0600).ok());
  const auto complete = [&](const std::string& words) {
    const std::string line = "source '" + script + "'; cd '" + folder_ + "'; COMP_WORDS=(" + words +
                             "); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); compopt() { :; }; _shoal; "
                             "printf '%s|' \"${COMPREPLY[@]}\"";
    const auto ran = RunAndCapture({"/bin/bash", "-c", line}, 1 << 16);
    return ran.ok() ? ran->output : ran.status().message();
  };
  EXPECT_EQ(complete("shoal sw"), "swarm|");
  EXPECT_EQ(complete("shoal swarm st"), "status|start|stop|");
  EXPECT_EQ(complete("shoal swarm init --da"), "--data|");
  EXPECT_EQ(complete("shoal swarm init --data my"), "my corpus.shoal|");
  EXPECT_EQ(complete("shoal set up"), "upload=|");
  EXPECT_EQ(complete("shoal eval --split ''"), "validation|train|") << "what shoal-run takes";
  EXPECT_EQ(complete("shoal bench churn --kil"), "--kill-every|") << "what shoald takes";
  EXPECT_EQ(complete("shoal demo --adapter = l"), "lora|");
  EXPECT_EQ(complete("shoal help sw"), "swarm|");
  EXPECT_EQ(complete("shoal join --upload ''"), "|") << "a rate is none of our words";
}

TEST_F(Shoal, ManPagesHaveWhatTroffTakes) {
  for (const char* page : {"", "swarm init", "shoald", "shoal-scheduler", "shoal-run"}) {
    const Outcome man = Start(std::string("man ") + page);
    EXPECT_EQ(man.exit, 0) << page << man.error;
    EXPECT_THAT(man.out, AllOf(StartsWith(".TH \"SHOAL"), HasSubstr("\n.SH SYNOPSIS\n"),
                               HasSubstr(" 1 \"\" \"shoal ")))
        << page;
    EXPECT_THAT(man.out, testing::Not(HasSubstr(folder_))) << "a folder of this machine";
    if (std::system("command -v groff >/dev/null") != 0) continue;
    ASSERT_TRUE(WriteFileAtomic(At("page.1"), man.out, 0600).ok());
    const auto troff =
        RunAndCaptureAll({"/bin/sh", "-c", "groff -man -ww -z -Tutf8 " + At("page.1")}, 1 << 16);
    ASSERT_TRUE(troff.ok());
    EXPECT_EQ(troff->output, "") << page;
  }
  EXPECT_EQ(Start("man fly").exit, 2);
}

TEST_F(Shoal, SaysWhatWasProbablyMeant) {
  EXPECT_THAT(Start("statsu").error, HasSubstr("did you mean 'status'?"));
  EXPECT_THAT(Start("swarm exprot").error, HasSubstr("did you mean 'export'?"));
  EXPECT_THAT(Start("status --jsn").error, HasSubstr("did you mean '--json'?"));
  EXPECT_THAT(Start("swarm --hlep").error, HasSubstr("did you mean '--help'?"));
  EXPECT_THAT(Start("bench churn --kill 5m").error, HasSubstr("did you mean '--kill-every'?"));
  EXPECT_THAT(Start("prepare --tokeniser t").error, HasSubstr("did you mean '--tokenizer'?"));
  const Outcome set = Start("set uplod=5mbit");
  EXPECT_EQ(set.exit, 2);
  ExpectOneLine(set);
  EXPECT_THAT(set.error, HasSubstr("did you mean 'upload'?"));
  EXPECT_THAT(Start("export --out x").error, HasSubstr("did you mean 'swarm export'?"));
  EXPECT_THAT(Start("start").error, HasSubstr("did you mean 'swarm start'?"));
  EXPECT_THAT(Start("frobnicate").error, testing::Not(HasSubstr("did you mean")));
}

TEST_F(Shoal, WhatCannotBeWrittenIsAFailureOfEachProgram) {
  for (const char* words :
       {"shoal man", "shoald --help", "shoald --print-config", "shoald store --help",
        "shoal-scheduler --help", "shoal-scheduler --print-config", "shoal-run --help",
        "shoal-run prepare --help"}) {
    const std::string command =
        std::string(std::getenv("SHOAL_BIN")) + "/" + words + " >/dev/full 2>" + At("error");
    EXPECT_EQ(WEXITSTATUS(std::system(command.c_str())), 1) << words;
    EXPECT_THAT(ReadFile(At("error"), 1 << 20).value(),
                HasSubstr("standard output cannot be written"));
  }
}

TEST_F(Shoal, HelpSaysWhatHoldsWhereAnOptionIsNotGiven) {
  const std::string init = Start("swarm init --help").out;
  const auto defaults = RunAndCapture(
      {std::string(std::getenv("SHOAL_BIN")) + "/shoal-scheduler", "--print-config"}, 1 << 20);
  ASSERT_TRUE(defaults.ok());
  const std::pair<const char*, const char*> keys[] = {
      {"--stages", "stages"},         {"--pipelines", "pipelines"},
      {"--steps", "steps"},           {"--micro-batches", "micro_batches"},
      {"--rows", "micro_batch_rows"}, {"--rank", "rank"}};
  for (const auto& [flag, key] : keys) {
    const std::string line = std::string("\n") + key + " = ";
    const std::size_t at = defaults->output.find(line);
    ASSERT_NE(at, std::string::npos) << key;
    const std::size_t from = at + line.size();
    const std::string value =
        defaults->output.substr(from, defaults->output.find('\n', from) - from);
    EXPECT_THAT(init,
                testing::ContainsRegex(std::string(flag) + " UINT:[^\n]*=" + value + "[ \n]"));
  }
  EXPECT_THAT(Start("prepare --help").out, testing::ContainsRegex("--row UINT:[^\n]*=128"));
  EXPECT_THAT(Start("top --help").out, testing::ContainsRegex("--interval [^\n]*=1"));
  EXPECT_THAT(Start("logs --help").out, testing::ContainsRegex("--lines [^\n]*=50"));
  EXPECT_THAT(Start("man swarm init").out, HasSubstr("Samples per micro\\-batch; if not given: 2"));
}

TEST_F(Shoal, JoinSaysWhatANumberLacks) {
  const std::pair<const char*, const char*> wrong[] = {
      {"--upload 20", "20mbit"},
      {"--listen 8782",
       "'8782' has no host, and must be host:port; write for example 0.0.0.0:8782"},
      {"--listen attic",
       "'attic' has no port, and must be host:port; write for example attic:9000"},
      {"--status-listen 8790", "has no host"}};
  for (const auto& [arguments, said] : wrong) {
    const Outcome run = Start(std::string("join shoal1_AAAA ") + arguments);
    EXPECT_EQ(run.exit, 2) << arguments;
    ExpectOneLine(run);
    EXPECT_THAT(run.error, HasSubstr(said));
  }
}

}  // namespace
}  // namespace shoal::client
