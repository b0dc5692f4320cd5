// RenderTurns: where the turns of the assistant stand in the text of a conversation.

#include <algorithm>
#include <utility>

#include "dataset/chat/characters.h"
#include "dataset/chat/chat_template.h"

namespace shoal::dataset {
namespace {

constexpr char kAssistant[] = "assistant";
// Each turn takes up to four renderings of what stands before it.
constexpr std::size_t kTurnsMax = 1024;
constexpr std::size_t kEndTokenBytesMax = 64;

bool IsAnswer(const ChatValue& message) {
  const ChatDict* dict = message.dict();
  const ChatValue* role = dict == nullptr ? nullptr : dict->Find("role");
  return role != nullptr && role->string() != nullptr && *role->string() == kAssistant;
}

std::size_t CommonPrefix(std::string_view a, std::string_view b) {
  return static_cast<std::size_t>(
      std::mismatch(a.begin(),
                    a.begin() + static_cast<std::ptrdiff_t>(std::min(a.size(), b.size())),
                    b.begin())
          .first -
      a.begin());
}

class TurnFinder {
 public:
  TurnFinder(const ChatTemplate& chat_template, std::span<const ChatValue> messages,
             const ChatOptions& options)
      : template_(chat_template), messages_(messages), options_(options) {}

  Result<RenderedChat> Run() {
    options_.add_generation_prompt = false;
    std::vector<ByteRange> marked;
    SHOAL_ASSIGN_OR_RETURN(whole_, template_.Render(messages_, options_, &marked));
    RenderedChat chat;
    for (std::size_t i = 0; i < messages_.size(); ++i) {
      if (!IsAnswer(messages_[i])) continue;
      if (chat.answers.size() == kTurnsMax) {
        return InvalidArgument("the conversation has more than " + std::to_string(kTurnsMax) +
                               " turns of the assistant");
      }
      std::optional<ByteRange> answer = ByBeginning(i);
      if (!answer && template_.marks_generation() && !marked.empty()) {
        chat.answers = std::move(marked);
        break;
      }
      if (!answer) {
        SHOAL_ASSIGN_OR_RETURN(answer, ByMarkers(i, chat.answers.size() + 1));
      }
      chat.answers.push_back(*answer);
    }
    if (chat.answers.empty()) {
      return InvalidArgument("the conversation has no turn of the assistant");
    }
    for (std::size_t i = 1; i < chat.answers.size(); ++i) {
      if (chat.answers[i].begin < chat.answers[i - 1].end) return NoTurn(i + 1);
    }
    chat.text = std::move(whole_);
    return chat;
  }

 private:
  // The text before turn `i` with the generation prompt, if the whole begins with it.
  std::optional<std::size_t> Opening(std::size_t i) const {
    ChatOptions options = options_;
    options.add_generation_prompt = true;
    const auto open = template_.Render(messages_.first(i), options);
    if (!open.ok() || !whole_.starts_with(*open)) return std::nullopt;
    return open->size();
  }

  std::optional<ByteRange> ByBeginning(std::size_t i) const {
    const auto begin = Opening(i);
    if (!begin) return std::nullopt;
    if (i + 1 == messages_.size()) {
      return *begin < whole_.size() ? std::optional(ByteRange{*begin, whole_.size()})
                                    : std::nullopt;
    }
    const auto closed = template_.Render(messages_.first(i + 1), options_);
    if (!closed.ok() || closed->size() <= *begin || !whole_.starts_with(*closed)) {
      return std::nullopt;
    }
    return ByteRange{*begin, closed->size()};
  }

  Status NoTurn(std::size_t turn) const {
    return InvalidArgument(template_.name() + ": turn " + std::to_string(turn) +
                           " of the assistant cannot be found in the text of the conversation");
  }

  // A word that does not stand in the text, between two letters.
  std::string Marker(char first, char last) const {
    std::string marker = std::string(1, first) + "shoalAnswer" + last;
    for (int i = 0; whole_.find(marker) != std::string::npos; ++i) {
      marker = std::string(1, first) + "shoalAnswer" + std::to_string(i) + last;
    }
    return marker;
  }

  // The whole with another content of message `i`, and without its calls of tools.
  Result<std::string> RenderWith(std::size_t i, const std::string& content) const {
    std::vector<std::pair<ChatValue, ChatValue>> items;
    for (const auto& item : messages_[i].dict()->items) {
      const std::string* key = item.first.string();
      const bool replaced = key != nullptr && (*key == "content" || *key == "tool_calls");
      if (!replaced) items.push_back(item);
    }
    items.emplace_back(ChatValue("content"), ChatValue(content));
    std::vector<ChatValue> messages(messages_.begin(), messages_.end());
    messages[i] = ChatValue::Dict(std::move(items));
    return template_.Render(messages, options_);
  }

  // `turn`: the number of the answer, from 1.
  Result<std::optional<ByteRange>> ByMarkers(std::size_t i, std::size_t turn) const {
    const std::string one = Marker('Q', 'X'), other = Marker('Z', 'J');
    const auto with_one = RenderWith(i, one), with_other = RenderWith(i, other);
    if (!with_one.ok() || !with_other.ok()) return NoTurn(turn);
    const std::size_t begin = CommonPrefix(*with_one, *with_other);
    const std::string_view rest = std::string_view(*with_one).substr(begin);
    if (!rest.starts_with(one)) return NoTurn(turn);
    const std::string_view behind = rest.substr(one.size());
    const std::string_view whole = whole_;
    const bool fits = with_other->size() == begin + other.size() + behind.size() &&
                      with_other->ends_with(behind) &&
                      whole.starts_with(std::string_view(*with_one).substr(0, begin)) &&
                      whole.size() >= begin + behind.size() && whole.ends_with(behind);
    if (!fits) return NoTurn(turn);
    ByteRange range{begin, whole.size() - behind.size()};
    range.end += EndTokenBytes(behind);
    if (const auto opening = Opening(i); opening && *opening <= range.begin) range.begin = *opening;
    if (range.begin >= range.end) return NoTurn(turn);
    return std::optional(range);
  }

  // How far the token that ends the turn reaches into `behind`; 0: none begins there, but for white
  // space.
  std::size_t EndTokenBytes(std::string_view behind) const {
    const std::string_view text = StripSpaces(behind, Side::kLeft);
    const std::size_t spaces = behind.size() - text.size();
    const std::string_view end_token = Token("eos_token"), begin_token = Token("bos_token");
    if (!end_token.empty() && text.starts_with(end_token)) return spaces + end_token.size();
    if (!text.starts_with('<')) return 0;
    const std::size_t close = text.substr(0, kEndTokenBytesMax).find('>');
    if (close == std::string_view::npos) return 0;
    const std::string_view token = text.substr(0, close + 1);
    const bool begins_turn = token == begin_token || token.find("start") != std::string_view::npos;
    const bool is_word = token.find_first_of(" \t\n\r") == std::string_view::npos;
    return !begins_turn && is_word ? spaces + token.size() : 0;
  }

  std::string_view Token(const char* name) const {
    const auto found = template_.variables().find(name);
    const bool is_text = found != template_.variables().end() && found->second.string() != nullptr;
    return is_text ? std::string_view(*found->second.string()) : std::string_view();
  }

  const ChatTemplate& template_;
  const std::span<const ChatValue> messages_;
  ChatOptions options_;
  std::string whole_;
};

}  // namespace

Result<RenderedChat> RenderTurns(const ChatTemplate& chat_template,
                                 std::span<const ChatValue> messages, const ChatOptions& options) {
  return TurnFinder(chat_template, messages, options).Run();
}

}  // namespace shoal::dataset
