#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dataset/answer_records.h"
#include "dataset/line_error.h"
#include "dataset/stop_tokens.h"
#include "model/answer_match.h"
#include "model/run/chat_prompt.h"
#include "model/run/commands.h"
#include "model/run/json_text-inl.h"
#include "model/run/terminal.h"
#include "model/run/text_model.h"

namespace shoal::model {
namespace {

// Beyond as many tokens as the wanted answer has: a model may spell it otherwise, and what is wrong
// shows.
constexpr std::uint32_t kMoreTokens = 32;

struct Question {
  dataset::AnswerRecord record;
  std::vector<std::int32_t> prompt;  // ids
  std::uint32_t tokens = 0;          // most of the answer
};

class Questions {
 public:
  // Reads and checks all of them, so that nothing is wrong with one after an hour.
  static Result<Questions> Open(const AnswersOptions& options) {
    Questions made(options);
    SHOAL_ASSIGN_OR_RETURN(auto records, dataset::ReadAnswerRecords(options.answers));
    if (options.chat) {
      SHOAL_ASSIGN_OR_RETURN(made.chat_, ChatPrompt::Load(options.run.model, ""));
    }
    SHOAL_ASSIGN_OR_RETURN(made.model_, OpenTextModel(options.run));
    const dataset::Tokenizer& tokenizer = *made.model_.tokenizer;
    SHOAL_ASSIGN_OR_RETURN(made.stop_, made.chat_
                                           ? made.chat_->StopTokens(options.run.model, tokenizer)
                                           : dataset::LoadStopTokens(options.run.model, tokenizer));
    for (dataset::AnswerRecord& record : records) {
      const std::uint64_t line = record.line;
      Result<Question> question = made.Encode(std::move(record));
      if (!question.ok()) return dataset::LineError(options.answers, line, question.status());
      made.questions_.push_back(*std::move(question));
    }
    return made;
  }

  const std::vector<Question>& all() const { return questions_; }
  std::string device() const { return model_.stage->device_name(); }

  // What the model writes, trimmed and as many lines as the wanted answer has.
  Result<std::string> Answer(const Question& question) const {
    SamplingOptions greedy;
    greedy.temperature = 0;
    greedy.tokens = question.tokens;
    GenerationLimits limits;
    limits.stop = stop_;
    std::string written;
    const auto more = [&](std::string_view piece) {
      written += piece;
      return !TakeAnswer(written, question.record.answer).complete;
    };
    std::vector<std::int32_t> ids = question.prompt;
    SHOAL_RETURN_IF_ERROR(Generate(model_, greedy, limits, &ids, more).status());
    return std::string(TakeAnswer(written, question.record.answer).text);
  }

 private:
  explicit Questions(const AnswersOptions& options) : options_(options) {}

  Result<Question> Encode(dataset::AnswerRecord record) const {
    Question question;
    const dataset::Tokenizer& tokenizer = *model_.tokenizer;
    if (chat_) {
      const std::vector<dataset::ChatValue> turns = {
          dataset::ChatValue::Message("user", record.prompt)};
      SHOAL_ASSIGN_OR_RETURN(const std::string text, chat_->Render(turns));
      SHOAL_ASSIGN_OR_RETURN(question.prompt, IdsOf(tokenizer, text));
    } else {
      SHOAL_ASSIGN_OR_RETURN(question.prompt, IdsToContinue(tokenizer, record.prompt));
    }
    SHOAL_ASSIGN_OR_RETURN(const auto wanted, IdsOf(tokenizer, record.answer));
    const std::uint32_t positions = model_.stage->spec().positions;
    if (question.prompt.empty() || question.prompt.size() + wanted.size() > positions) {
      return InvalidArgument("prompt and answer have " +
                             std::to_string(question.prompt.size() + wanted.size()) +
                             " tokens, the model has " + std::to_string(positions) + " positions");
    }
    question.tokens = options_.tokens > 0 ? options_.tokens
                                          : static_cast<std::uint32_t>(wanted.size()) + kMoreTokens;
    question.record = std::move(record);
    return question;
  }

  const AnswersOptions& options_;
  TextModel model_;
  std::optional<ChatPrompt> chat_;
  std::vector<std::int32_t> stop_;
  std::vector<Question> questions_;
};

struct Score {
  std::size_t answers = 0, exact = 0;
  std::vector<WrongAnswer> wrong;
  double share() const { return static_cast<double>(exact) / static_cast<double>(answers); }
};

// "answered 3 of 10" on standard error; nothing where that is no terminal.
void ShowProgress(std::size_t done, std::size_t all) {
  if (IsTerminal(STDERR_FILENO)) std::fprintf(stderr, "\ranswered %zu of %zu", done, all);
}
void ClearProgress() {
  if (IsTerminal(STDERR_FILENO)) std::fprintf(stderr, "\r\033[K");
}

Result<Score> AnswerAll(const AnswersOptions& options, const Questions& questions) {
  Score score;
  const std::size_t width = TerminalWidth();
  for (const Question& question : questions.all()) {
    ShowProgress(score.answers, questions.all().size());
    Result<std::string> got = questions.Answer(question);
    ClearProgress();
    if (!got.ok()) {
      return dataset::LineError(options.answers, question.record.line, got.status());
    }
    ++score.answers;
    const std::string wanted(TrimSpaces(question.record.answer));
    if (*got == wanted) {
      ++score.exact;
      continue;
    }
    if (!options.show) continue;
    score.wrong.push_back({question.record.line, question.record.prompt, wanted, *std::move(got)});
    if (options.run.json) continue;
    std::printf("%s\n", Describe(score.wrong.back(), width).c_str());
    std::fflush(stdout);
  }
  return score;
}

void PrintJson(const AnswersOptions& options, const Score& score, const std::string& device) {
  nlohmann::ordered_json json = {{"schemaVersion", 1},
                                 {"answers", score.answers},
                                 {"exact", score.exact},
                                 {"share", score.share()},
                                 {"chat", options.chat}};
  if (options.show) {
    json["wrong"] = nlohmann::ordered_json::array();
    for (const WrongAnswer& wrong : score.wrong) {
      json["wrong"].push_back({{"line", wrong.line},
                               {"prompt", wrong.prompt},
                               {"wanted", wrong.wanted},
                               {"got", wrong.got}});
    }
  }
  json["device"] = device;
  std::printf("%s\n", JsonText(json).c_str());
}

// Instructed models do badly without their template, and nothing else would say why.
void NoteTemplate(const AnswersOptions& options) {
  if (options.chat) return;
  const auto chat = dataset::ChatTemplate::LoadFrom(options.run.model);
  if (!chat.ok() || !*chat) return;
  std::fprintf(stderr, "shoal-run: %s has a chat template; with --chat the prompts go through it\n",
               options.run.model.c_str());
}

}  // namespace

RunResult RunAnswers(const AnswersOptions& options) {
  const auto questions = Questions::Open(options);
  if (!questions.ok()) return RunResult::BadInput(questions.status());
  NoteTemplate(options);
  const auto score = AnswerAll(options, *questions);
  if (!score.ok()) return RunResult::Failure(score.status());
  if (options.run.json) {
    PrintJson(options, *score, questions->device());
  } else {
    std::printf("answers     %zu\nexact       %zu\nshare       %.4f\n", score->answers,
                score->exact, score->share());
  }
  return {};
}

}  // namespace shoal::model
