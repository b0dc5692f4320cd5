// shoal-run: evaluates, samples from, makes and converts model directories.

#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>

#include "common/command_line/delivered.h"
#include "common/command_line/description.h"
#include "common/command_line/usage_error.h"
#include "common/process/waiting_threads.h"
#include "common/version.h"
#include "model/init_weights.h"
#include "model/run/commands.h"

namespace {

using shoal::model::RunOptions;
using shoal::model::RunResult;

constexpr const char* kExits =
    "Exit code: 0 done; 1 failed; 2 wrong usage; 78 model or data cannot be read or do not fit";

struct InitOptions {
  std::string config;
  std::string output;
  std::uint64_t seed = 0;
};

void AddRunOptions(CLI::App* command, RunOptions* options) {
  command->add_option("--model", options->model, "Hugging Face model directory")
      ->type_name(shoal::kFolderValue)
      ->required();
  command
      ->add_option("--adapter", options->adapter,
                   "adapter of that model: a folder as PEFT or shoal swarm export saves it")
      ->type_name(shoal::kFolderValue);
  command->add_option("--device", options->device, "device of the model: cpu, cuda, cuda:N or auto")
      ->type_name("DEVICE");
  command
      ->add_option("--compute", options->compute,
                   "number format of the layers' arithmetic: fp32 or bf16")
      ->check(CLI::IsMember({"fp32", "bf16"}));
  command->add_option("--threads", options->threads, "number of threads; 0: one per core")
      ->check(CLI::Range(0, 1024));
  command->add_flag("--json", options->json, "print one JSON object to standard output");
}

struct EvalCommand {
  shoal::model::EvalOptions rows;
  shoal::model::AnswersOptions answers;

  RunResult Run() {
    if (answers.answers.empty()) return RunEval(rows);
    answers.run = rows.run;
    return RunAnswers(answers);
  }
};

CLI::App* AddEval(CLI::App* app, EvalCommand* options) {
  CLI::App* command = app->add_subcommand(
      "eval",
      "mean loss and perplexity, or how well a classifier does, on prepared data; or how many "
      "answers are exactly right");
  AddRunOptions(command, &options->rows.run);
  CLI::Option* data =
      command->add_option("--data", options->rows.data, "file made by shoal prepare")
          ->type_name(shoal::kFileValue);
  command->add_option("--split", options->rows.split, "rows to evaluate: validation or train")
      ->check(CLI::IsMember({"validation", "train"}))
      ->capture_default_str()
      ->needs(data);
  command->add_option("--rows", options->rows.rows, "rows per forward")
      ->check(CLI::Range(1, 65536))
      ->capture_default_str()
      ->needs(data);
  command
      ->add_option("--max-rows", options->rows.max_rows, "evaluate only the first N rows; 0: all")
      ->needs(data);
  CLI::Option* answers =
      command
          ->add_option("--answers", options->answers.answers,
                       "JSON lines of objects with \"prompt\" and \"answer\", in place of --data")
          ->type_name(shoal::kFileValue);
  answers->excludes(data);
  command
      ->add_option("--tokens", options->answers.tokens,
                   "most tokens of an answer; 0: 32 more than the wanted one has")
      ->check(CLI::Range(0, 1'000'000))
      ->needs(answers);
  command->add_flag("--chat", options->answers.chat, "prompts go through the model's chat template")
      ->needs(answers);
  command->add_flag("--show", options->answers.show, "print a line for each wrong answer")
      ->needs(answers);
  command->callback([data, answers] {
    if (data->count() + answers->count() > 0) return;
    throw CLI::ValidationError("one of --data and --answers is needed");
  });
  command->footer(
      std::string("Examples:\n  shoal eval --model ./tuned --data corpus.shoal\n  shoal eval "
                  "--model ./tuned --answers questions.jsonl --chat --show\n") +
      kExits);
  return command;
}

void AddSamplingOptions(CLI::App* command, shoal::model::SamplingOptions* options) {
  command->add_option("--tokens", options->tokens, "most tokens to add")
      ->check(CLI::Range(0, 1'000'000))
      ->capture_default_str();
  command
      ->add_option("--temperature", options->temperature,
                   "temperature of sampling; 0: always the most probable token")
      ->check(CLI::Range(0.0, 1000.0))
      ->capture_default_str();
  command
      ->add_option("--top-k", options->top_k, "sample from the k most probable tokens; 0: from all")
      ->capture_default_str();
  command->add_option("--seed", options->seed, "seed of the sampling")->capture_default_str();
}

CLI::App* AddGenerate(CLI::App* app, shoal::model::GenerateOptions* options) {
  CLI::App* command = app->add_subcommand("try", "continue a prompt")->alias("generate");
  AddRunOptions(command, &options->run);
  command->add_option("--prompt,prompt", options->prompt, "text to continue")->required();
  AddSamplingOptions(command, &options->sampling);
  command->footer(
      std::string("Examples:\n  shoal try --model ./tuned \"Once upon a time\"\n  shoal try "
                  "--model ./llama --adapter ./adapter \"Hello\" --tokens 50\n") +
      kExits);
  return command;
}

CLI::App* AddChat(CLI::App* app, shoal::model::ChatCommand* options) {
  CLI::App* command = app->add_subcommand(
      "chat", "talk with a model in its chat template, a line a message; /reset, /quit");
  AddRunOptions(command, &options->run);
  command->add_option("--system", options->system, "message before all others");
  CLI::Option* message = command->add_option(
      "--message", options->message, "answer this message and end, in place of a conversation");
  command->get_option("--json")->needs(message);
  AddSamplingOptions(command, &options->sampling);
  command->footer(std::string("Examples:\n  shoal chat --model ./tuned\n  shoal chat --model "
                              "./tuned --message \"Who are you?\" --json\n") +
                  kExits);
  return command;
}

CLI::App* AddLogits(CLI::App* app, shoal::model::LogitsOptions* options) {
  CLI::App* command = app->add_subcommand("logits", "ids of a text and logits at each position");
  AddRunOptions(command, &options->run);
  command->add_option("--text", options->text, "text to compute logits for")->required();
  command->footer(
      std::string("Examples:\n  shoal-run logits --model ./tuned --text \"Hello\" --json\n") +
      kExits);
  return command;
}

CLI::App* AddInit(CLI::App* app, InitOptions* options) {
  CLI::App* command = app->add_subcommand("init-model", "fresh weights for a config.json");
  command
      ->add_option("--config", options->config,
                   "config.json; tokenizer files beside it are "
                   "copied")
      ->type_name(shoal::kFileValue)
      ->required();
  command->add_option("--out", options->output, "model directory to make")
      ->type_name(shoal::kFolderValue)
      ->required();
  command->add_option("--seed", options->seed, "seed of the weights");
  command->footer(
      std::string("Examples:\n  shoal init-model --config ./small/config.json --out ./fresh\n") +
      kExits);
  return command;
}

CLI::App* AddPrepare(CLI::App* app, shoal::model::PrepareCommand* command) {
  shoal::dataset::PrepareOptions& options = command->options;
  CLI::App* prepare = app->add_subcommand(
      "prepare", "turn text, conversations or labelled texts into token rows for training");
  prepare
      ->add_option("--tokenizer", options.tokenizer_directory,
                   "folder of the tokenizer's files; the model's, for its chat template")
      ->type_name(shoal::kFolderValue)
      ->required();
  prepare
      ->add_option(
          "--text", options.text_files,
          "text files in UTF-8; JSON lines or a JSON array of objects with \"text\", "
          "\"messages\" (each with role and content), \"conversations\" (ShareGPT: from "
          "and value), \"prompt\" and \"completion\", or "
          "\"text\" and \"label\", perhaps with \"text_pair\"; CSV and TSV of labelled texts")
      ->type_name(shoal::kFileValue)
      ->required();
  prepare
      ->add_option("--validation", options.validation_files,
                   "held-out text files, in the same formats")
      ->type_name(shoal::kFileValue);
  prepare
      ->add_option("--validation-fraction", options.validation_fraction,
                   "share of the rows or samples that is held out if --validation names no file")
      ->check(CLI::Range(0.0, 0.9))
      ->capture_default_str();
  prepare->add_option("--row", options.row_tokens, "tokens per row")
      ->check(CLI::Range(2, 65536))
      ->capture_default_str();
  prepare->add_option("--out", options.output, "file to make")
      ->type_name(shoal::kFileValue)
      ->required();
  prepare
      ->add_option("--loss", command->loss,
                   "what the loss counts on in conversations and completions: answers or all")
      ->check(CLI::IsMember({"answers", "all"}))
      ->capture_default_str();
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
  prepare->footer(std::string("Examples:\n  shoal prepare --tokenizer ./gpt2 --text corpus.txt "
                              "--row 1024 --out corpus.shoal\n  shoal prepare --tokenizer ./llama "
                              "--text talks.jsonl --out talks.shoal --pack\n") +
                  kExits);
  return prepare;
}

CLI::App* AddConvert(CLI::App* app, shoal::model::ConvertOptions* options) {
  CLI::App* command =
      app->add_subcommand("convert", "write a model directory in another form or number format");
  command->add_option("--model", options->model, "Hugging Face model directory")
      ->type_name(shoal::kFolderValue)
      ->required();
  command->add_option("--out", options->output, "folder to make")
      ->type_name(shoal::kFolderValue)
      ->required();
  command->add_option("--as", options->as,
                      "directory, or gguf: a file for llama.cpp, with a Modelfile for Ollama");
  command->add_option("--dtype", options->dtype,
                      "number format of a directory: fp32, bf16 or fp16; the model's own if not "
                      "given");
  command->add_option("--type", options->type,
                      "number format of matrices in a GGUF file: f16 (if not given) or q8_0");
  command->add_flag("--json", options->json, "print one JSON object to standard output");
  command->footer(
      std::string("Examples:\n  shoal convert --model ./tuned --out ./tuned-gguf --as gguf --type "
                  "q8_0\n  shoal convert --model ./tuned --out ./half --dtype bf16\n") +
      kExits);
  return command;
}

RunResult RunInit(const InitOptions& options) {
  const shoal::Status status =
      shoal::model::InitModelDirectory(options.config, options.output, options.seed);
  if (status.ok()) std::printf("%s\n", options.output.c_str());
  return {shoal::ExitCodeForInput(status), status};
}

int Main(int argc, char** argv) {
  CLI::App app("Evaluates, samples from, makes and converts model directories.", "shoal-run");
  app.require_subcommand(1);
  app.set_version_flag("--version", std::string("shoal-run ") + shoal::kVersion);
  EvalCommand eval;
  shoal::model::ChatCommand chat;
  shoal::model::GenerateOptions generate;
  shoal::model::LogitsOptions logits;
  shoal::model::PrepareCommand prepare;
  shoal::model::ConvertOptions convert;
  InitOptions init;
  const CLI::App* const eval_command = AddEval(&app, &eval);
  const CLI::App* const chat_command = AddChat(&app, &chat);
  const CLI::App* const generate_command = AddGenerate(&app, &generate);
  const CLI::App* const logits_command = AddLogits(&app, &logits);
  const CLI::App* const prepare_command = AddPrepare(&app, &prepare);
  const CLI::App* const convert_command = AddConvert(&app, &convert);
  AddInit(&app, &init);
  if (shoal::PrintedDescription(app, {argv + 1, argv + argc})) return 0;
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) {
      return static_cast<int>(shoal::Delivered(static_cast<shoal::ExitCode>(app.exit(error))));
    }
    std::fprintf(stderr, "shoal-run: %s\n", shoal::UsageError(app, error).c_str());
    return static_cast<int>(shoal::ExitCode::kUsage);
  }
  const RunResult result = eval_command->parsed()       ? eval.Run()
                           : chat_command->parsed()     ? RunChat(chat)
                           : generate_command->parsed() ? RunGenerate(generate)
                           : logits_command->parsed()   ? RunLogits(logits)
                           : prepare_command->parsed()  ? RunPrepare(prepare)
                           : convert_command->parsed()  ? RunConvert(convert)
                                                        : RunInit(init);
  if (!result.status.ok()) {
    std::fprintf(stderr, "shoal-run: %s\n", result.status.message().c_str());
  } else if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
    std::fprintf(stderr, "shoal-run: standard output cannot be written\n");
    return static_cast<int>(shoal::ExitCode::kFailure);
  }
  return static_cast<int>(result.exit);
}

}  // namespace

int main(int argc, char** argv) {
  shoal::LetWaitingThreadsSleep(argv);
  return Main(argc, argv);
}
