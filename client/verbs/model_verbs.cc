#include "client/verbs/verb.h"

namespace shoal::client {
namespace {

constexpr const char* kRunProgram = "shoal-run";
constexpr const char* kDaemonProgram = "shoald";

// `examples` are in the help of the program that does it.
Verb Of(const char* path, const char* about, const char* program) {
  Verb verb;
  verb.path = path;
  verb.about = about;
  verb.program = program;
  return verb;
}

}  // namespace

std::vector<Verb> ModelVerbs() {
  return {
      Of("prepare", "Turn a text into token rows", kRunProgram),
      Of("init-model", "Make a model directory with fresh weights from a config.json", kRunProgram),
      Of("convert", "Write a model directory as a GGUF file, or in another number format",
         kRunProgram),
      Of("eval", "Measure a model directory: perplexity on a prepared file, or exact answers",
         kRunProgram),
      Of("try", "Let a model continue a prompt", kRunProgram),
      Of("chat", "Talk with a model in its chat template", kRunProgram),
      {"bench",
       "Measure, without a swarm, what one would do",
       {},
       {},
       "shoal bench churn --kill-every 5m --machines 8 --for 1h\nshoal bench churn --help"},
      Of("bench churn",
         "Replay machines that come and go: what is left of a run's pace, and where it goes",
         kDaemonProgram)};
}

}  // namespace shoal::client
