#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/text.h"
#include "dataset/chat/characters.h"
#include "dataset/chat/chat_template.h"
#include "dataset/stop_tokens.h"
#include "model/run/chat_prompt.h"
#include "model/run/commands.h"
#include "model/run/json_text-inl.h"
#include "model/run/terminal.h"
#include "model/run/text_model.h"

namespace shoal::model {
namespace {

using dataset::ChatValue;
using ShowPiece = std::function<bool(std::string_view piece)>;

struct Answer {
  std::string text;
  std::vector<std::int32_t> ids;
  std::size_t prompt_tokens = 0;
  std::size_t forgotten = 0;  // oldest turns, for which the row has no room
  GenerationEnd end = GenerationEnd::kStopToken;
};

// A conversation with a model. What its rendering shares with that of the turn before is not
// computed again (decoder.h).
class Conversation {
 public:
  static Result<Conversation> Open(const ChatCommand& command) {
    SHOAL_RETURN_IF_ERROR(storage::ReadModelConfig(command.run.model).status());
    SHOAL_ASSIGN_OR_RETURN(ChatPrompt prompt, ChatPrompt::Load(command.run.model, command.system));
    Conversation made(command, std::move(prompt));
    SHOAL_ASSIGN_OR_RETURN(made.model_, OpenTextModel(command.run));
    SHOAL_ASSIGN_OR_RETURN(made.stop_,
                           made.prompt_.StopTokens(command.run.model, *made.model_.tokenizer));
    return made;
  }

  void Reset() { turns_.clear(); }
  std::string device() const { return model_.stage->device_name(); }
  std::uint32_t positions() const { return model_.stage->spec().positions; }

  // An error leaves the conversation as it was.
  Result<Answer> Ask(const std::string& message, const ShowPiece& show) {
    std::vector<ChatValue> turns = turns_;
    turns.push_back(ChatValue::Message("user", message));
    Answer answer;
    SHOAL_ASSIGN_OR_RETURN(std::vector<std::int32_t> ids, Fit(&turns, &answer.forgotten));
    answer.prompt_tokens = ids.size();
    GenerationLimits limits;
    limits.stop = stop_;
    SHOAL_ASSIGN_OR_RETURN(answer.end, Generate(model_, command_.sampling, limits, &ids, show));
    SHOAL_ASSIGN_OR_RETURN(answer.text,
                           dataset::DecodeBehind(*model_.tokenizer, ids, answer.prompt_tokens));
    answer.ids.assign(ids.begin() + static_cast<std::ptrdiff_t>(answer.prompt_tokens), ids.end());
    // A template wants whole characters; the answer may have been stopped within one.
    turns.push_back(ChatValue::Message("assistant", WholeCharacters(answer.text)));
    turns_ = std::move(turns);
    return answer;
  }

 private:
  Conversation(ChatCommand command, ChatPrompt prompt)
      : command_(std::move(command)), prompt_(std::move(prompt)) {}

  // Ids of the conversation up to the answer to come. Forgets the oldest turns until the row has
  // room for that, too.
  Result<std::vector<std::int32_t>> Fit(std::vector<ChatValue>* turns, std::size_t* forgotten) {
    const std::size_t room = std::min(command_.sampling.tokens, positions() / 4);
    for (;;) {
      SHOAL_ASSIGN_OR_RETURN(const std::string text, prompt_.Render(*turns));
      SHOAL_ASSIGN_OR_RETURN(std::vector<std::int32_t> ids, IdsOf(*model_.tokenizer, text));
      if (!ids.empty() && ids.size() + room <= positions()) return ids;
      if (turns->size() > 1) {
        turns->erase(turns->begin(), turns->begin() + 2);  // a question with its answer
        ++*forgotten;
        continue;
      }
      if (!ids.empty() && ids.size() < positions()) return ids;
      return InvalidArgument("the message has " + std::to_string(ids.size()) +
                             " tokens with what the template adds; the model reads at most " +
                             std::to_string(positions()) + ": shorten it");
    }
  }

  ChatCommand command_;
  ChatPrompt prompt_;
  TextModel model_;
  std::vector<std::int32_t> stop_;
  std::vector<ChatValue> turns_;  // user and assistant by turns
};

const char* NameOf(GenerationEnd end) {
  switch (end) {
    case GenerationEnd::kStopToken: return "stop";
    case GenerationEnd::kTokens: return "tokens";
    case GenerationEnd::kFullRow: return "positions";
    case GenerationEnd::kByCaller: break;
  }
  return "interrupt";
}

// An answer on its way to standard output, without the spaces that many models begin with.
class AnswerWriter {
 public:
  void Write(std::string_view piece) {
    if (!begun_) piece.remove_prefix(std::min(piece.find_first_not_of(" \n"), piece.size()));
    if (piece.empty()) return;
    begun_ = true;
    WritePiece(piece);
  }
  void End() { WritePiece("\n"); }

 private:
  bool begun_ = false;
};

// What the reader of an answer should know of it, on standard error.
void PrintNotes(const Answer& answer, const Conversation& conversation) {
  if (answer.forgotten > 0) {
    std::fprintf(stderr, "(forgot the oldest of what was said: the model reads %u tokens)\n",
                 conversation.positions());
  }
  if (answer.end == GenerationEnd::kTokens) {
    std::fprintf(stderr, "(stopped after %zu tokens; --tokens N allows more)\n", answer.ids.size());
  } else if (answer.end == GenerationEnd::kFullRow) {
    std::fprintf(stderr, "(stopped: the model's %u positions are full)\n",
                 conversation.positions());
  } else if (answer.end == GenerationEnd::kByCaller) {
    std::fprintf(stderr, "(stopped)\n");
  } else if (answer.ids.empty()) {
    std::fprintf(stderr, "(the model says nothing)\n");
  }
}

Status CheckMessage(const std::string& message) {
  if (dataset::IsUtf8(message)) return Status::Ok();
  return InvalidArgument("the message is not UTF-8; set the terminal or the file to it");
}

// One message, on the command line.
Status AnswerOne(const ChatCommand& command, Conversation* conversation) {
  SHOAL_RETURN_IF_ERROR(CheckMessage(*command.message));
  AnswerWriter writer;
  const auto show = [&](std::string_view piece) {
    if (!command.run.json) writer.Write(piece);
    return true;
  };
  SHOAL_ASSIGN_OR_RETURN(const Answer answer, conversation->Ask(*command.message, show));
  if (!command.run.json) {
    writer.End();
    PrintNotes(answer, *conversation);
    return Status::Ok();
  }
  std::printf("%s\n", JsonText({{"schemaVersion", 1},
                                {"message", *command.message},
                                {"text", answer.text},
                                {"ids", answer.ids},
                                {"promptTokens", answer.prompt_tokens},
                                {"end", NameOf(answer.end)},
                                {"device", conversation->device()}})
                          .c_str());
  return Status::Ok();
}

// Messages line by line, with a prompt in front where a person types them.
class Session {
 public:
  Session(const ChatCommand& command, Conversation* conversation)
      : command_(command), conversation_(conversation), terminal_(IsTerminal(STDIN_FILENO)) {}

  Status Run() {
    if (terminal_) {
      interrupts_.emplace();
      std::fprintf(stderr, "%s on %s. /reset forgets the conversation, /quit or Ctrl-D ends it.\n",
                   command_.run.model.c_str(), conversation_->device().c_str());
    }
    for (bool go_on = true; go_on;) {
      if (terminal_) std::fprintf(stderr, "> ");
      std::string line;
      SHOAL_ASSIGN_OR_RETURN(const LineReader::Read read, lines_.Next(&line));
      if (read == LineReader::Read::kEnd) {
        if (terminal_) std::fprintf(stderr, "\n");
        return Status::Ok();
      }
      if (read == LineReader::Read::kInterrupted) {
        if (terminal_) std::fprintf(stderr, "\n(/quit or Ctrl-D ends the chat)\n");
        continue;
      }
      SHOAL_ASSIGN_OR_RETURN(go_on, Take(line));
    }
    return Status::Ok();
  }

 private:
  // False: it was the last one.
  Result<bool> Take(const std::string& line) {
    const std::size_t begin = line.find_first_not_of(" \t");
    if (begin == std::string::npos) return true;
    if (line == "/quit" || line == "/exit") return false;
    if (line == "/reset") {
      conversation_->Reset();
      if (terminal_) std::fprintf(stderr, "(a new conversation)\n");
      return true;
    }
    if (line.front() == '/') {
      std::fprintf(stderr, "(unknown command %s; %s)\n", CleanText(line, kCommandShown).c_str(),
                   kCommands);
      return true;
    }
    Status status = Answer(line);
    if (status.ok()) return true;
    // A person tries again; a file goes on with answers to questions that were not asked.
    if (!terminal_) return status;
    std::fprintf(stderr, "(%s)\n", status.message().c_str());
    return true;
  }

  Status Answer(const std::string& line) {
    SHOAL_RETURN_IF_ERROR(CheckMessage(line));
    if (terminal_) Interrupts::Take();  // of the time before
    AnswerWriter writer;
    const auto show = [&](std::string_view piece) {
      writer.Write(piece);
      return !Interrupts::Take();
    };
    SHOAL_ASSIGN_OR_RETURN(const auto answer, conversation_->Ask(line, show));
    writer.End();
    PrintNotes(answer, *conversation_);
    return Status::Ok();
  }

  static constexpr std::size_t kCommandShown = 40;
  static constexpr char kCommands[] =
      "known commands are /reset and /quit; a message that begins with / has a space in front";

  const ChatCommand& command_;
  Conversation* const conversation_;
  const bool terminal_;
  std::optional<Interrupts> interrupts_;
  LineReader lines_;
};

}  // namespace

RunResult RunChat(const ChatCommand& command) {
  Result<Conversation> conversation = Conversation::Open(command);
  if (!conversation.ok()) return RunResult::BadInput(conversation.status());
  const Status status =
      command.message ? AnswerOne(command, &*conversation) : Session(command, &*conversation).Run();
  if (!status.ok()) return RunResult::Failure(status);
  return {};
}

}  // namespace shoal::model
