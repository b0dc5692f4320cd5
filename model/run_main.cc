// shoal-run: evaluates, samples from, and makes model directories.

#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>

#include "common/process/waiting_threads.h"
#include "common/version.h"
#include "model/init_weights.h"
#include "model/run_commands.h"

namespace {

using shoal::model::RunOptions;
using shoal::model::RunResult;

struct InitOptions {
  std::string config;
  std::string output;
  std::uint64_t seed = 0;
};

void AddRunOptions(CLI::App* command, RunOptions* options) {
  command->add_option("--model", options->model, "Hugging Face model directory")->required();
  command->add_option("--device", options->device,
                      "device of the model: cpu, cuda, cuda:N or auto");
  command
      ->add_option("--compute", options->compute,
                   "number format of the layers' arithmetic: fp32 or bf16")
      ->check(CLI::IsMember({"fp32", "bf16"}));
  command->add_option("--threads", options->threads, "number of threads; 0: one per core")
      ->check(CLI::Range(0, 1024));
  command->add_flag("--json", options->json, "print one JSON object to standard output");
}

CLI::App* AddEval(CLI::App* app, shoal::model::EvalOptions* options) {
  CLI::App* command = app->add_subcommand(
      "eval", "mean loss and perplexity, or how well a classifier does, on prepared data");
  AddRunOptions(command, &options->run);
  command->add_option("--data", options->data, "file made by shoal prepare")->required();
  command->add_option("--split", options->split, "rows to evaluate: validation or train")
      ->check(CLI::IsMember({"validation", "train"}));
  command->add_option("--rows", options->rows, "rows per forward")->check(CLI::Range(1, 65536));
  command->add_option("--max-rows", options->max_rows, "evaluate only the first N rows; 0: all");
  return command;
}

CLI::App* AddGenerate(CLI::App* app, shoal::model::GenerateOptions* options) {
  CLI::App* command = app->add_subcommand("generate", "continue a prompt");
  AddRunOptions(command, &options->run);
  command->add_option("--prompt", options->prompt, "text to continue")->required();
  command->add_option("--tokens", options->tokens, "most tokens to add")
      ->check(CLI::Range(0, 1'000'000));
  command
      ->add_option("--temperature", options->temperature,
                   "temperature of sampling; 0: always the most probable token")
      ->check(CLI::Range(0.0, 1000.0));
  command->add_option("--top-k", options->top_k,
                      "sample from the k most probable tokens; 0: from all");
  command->add_option("--seed", options->seed, "seed of the sampling");
  return command;
}

CLI::App* AddLogits(CLI::App* app, shoal::model::LogitsOptions* options) {
  CLI::App* command = app->add_subcommand("logits", "ids of a text and logits at each position");
  AddRunOptions(command, &options->run);
  command->add_option("--text", options->text, "text to compute logits for")->required();
  return command;
}

CLI::App* AddInit(CLI::App* app, InitOptions* options) {
  CLI::App* command = app->add_subcommand("init-model", "fresh weights for a config.json");
  command
      ->add_option("--config", options->config,
                   "config.json; tokenizer files beside it are "
                   "copied")
      ->required();
  command->add_option("--out", options->output, "model directory to make")->required();
  command->add_option("--seed", options->seed, "seed of the weights");
  return command;
}

CLI::App* AddPrepare(CLI::App* app, shoal::model::PrepareCommand* command) {
  shoal::dataset::PrepareOptions& options = command->options;
  CLI::App* prepare = app->add_subcommand(
      "prepare", "turn text, conversations or labelled texts into token rows for training");
  prepare
      ->add_option("--tokenizer", options.tokenizer_directory,
                   "folder of the tokenizer's files; the model's, for its chat template")
      ->required();
  prepare
      ->add_option(
          "--text", options.text_files,
          "text files in UTF-8; JSON lines or a JSON array of objects with \"text\", "
          "\"messages\" (each with role and content), \"conversations\" (ShareGPT: from "
          "and value), \"prompt\" and \"completion\", or "
          "\"text\" and \"label\", perhaps with \"text_pair\"; CSV and TSV of labelled texts")
      ->required();
  prepare->add_option("--validation", options.validation_files,
                      "held-out text files, in the same formats");
  prepare
      ->add_option("--validation-fraction", options.validation_fraction,
                   "share of the rows or samples that is held out if --validation names no file")
      ->check(CLI::Range(0.0, 0.9));
  prepare->add_option("--row", options.row_tokens, "tokens per row")->check(CLI::Range(2, 65536));
  prepare->add_option("--out", options.output, "file to make")->required();
  prepare
      ->add_option("--loss", command->loss,
                   "what the loss counts on in conversations and completions: answers or all")
      ->check(CLI::IsMember({"answers", "all"}));
  prepare->add_flag("--pack", options.pack,
                    "several whole samples, or documents, share a row; they do not see each other");
  prepare->add_option("--text-column", options.columns.text,
                      "field or column of labelled texts: its name, or its number from 1");
  prepare->add_option("--pair-column", options.columns.pair,
                      "field or column of a second text that stands behind the first one; without "
                      "these two options \"text_pair\", if there is one");
  prepare->add_option("--label-column", options.columns.label,
                      "field or column of their labels: whole numbers from 0, or names");
  prepare->add_option("--threads", options.threads, "number of threads; 0: one per core")
      ->check(CLI::Range(0, 1024));
  prepare->add_flag("--json", command->json, "print one JSON object to standard output");
  return prepare;
}

RunResult RunInit(const InitOptions& options) {
  const shoal::Status status =
      shoal::model::InitModelDirectory(options.config, options.output, options.seed);
  if (status.ok()) std::printf("%s\n", options.output.c_str());
  return {shoal::ExitCodeForInput(status), status};
}

int Main(int argc, char** argv) {
  CLI::App app("Evaluates, samples from, and makes model directories.", "shoal-run");
  app.require_subcommand(1);
  app.set_version_flag("--version", std::string("shoal-run ") + shoal::kVersion);
  shoal::model::EvalOptions eval;
  shoal::model::GenerateOptions generate;
  shoal::model::LogitsOptions logits;
  shoal::model::PrepareCommand prepare;
  InitOptions init;
  const CLI::App* const eval_command = AddEval(&app, &eval);
  const CLI::App* const generate_command = AddGenerate(&app, &generate);
  const CLI::App* const logits_command = AddLogits(&app, &logits);
  const CLI::App* const prepare_command = AddPrepare(&app, &prepare);
  AddInit(&app, &init);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    // Asking for help is no error; everything else here is wrong usage.
    return app.exit(error) == 0 ? 0 : static_cast<int>(shoal::ExitCode::kUsage);
  }
  const RunResult result = eval_command->parsed()       ? RunEval(eval)
                           : generate_command->parsed() ? RunGenerate(generate)
                           : logits_command->parsed()   ? RunLogits(logits)
                           : prepare_command->parsed()  ? RunPrepare(prepare)
                                                        : RunInit(init);
  if (!result.status.ok()) {
    std::fprintf(stderr, "shoal-run: %s\n", result.status.message().c_str());
  }
  return static_cast<int>(result.exit);
}

}  // namespace

int main(int argc, char** argv) {
  shoal::LetWaitingThreadsSleep(argv);
  return Main(argc, argv);
}
