#include <CLI/CLI.hpp>

#include "client/chaos.h"
#include "client/demo.h"
#include "client/verbs/verb.h"
#include "common/command_line/description.h"

namespace shoal::client {
namespace {

void DemoFlags(CLI::App* demo, Given* g) {
  DemoOptions& o = g->demo;
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

void ChaosFlags(CLI::App* chaos, Given* g) {
  ChaosOptions& o = g->chaos;
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

}  // namespace

std::vector<Verb> LabVerbs() {
  return {
      {"demo", "Fine-tune a small model with a whole swarm on this machine", DemoFlags,
       [](Given* g) { return Demo(g->demo); },
       "shoal demo\nshoal demo --adapter lora --stages 3\nshoal demo --link 20mbit --steps 200"},
      {"chaos", "Disturb a whole swarm on this machine: does its run survive?", ChaosFlags,
       [](Given* g) { return Chaos(g->chaos); },
       "shoal chaos --minutes 3\nshoal chaos --faults kill,pause --seed 7"}};
}

}  // namespace shoal::client
