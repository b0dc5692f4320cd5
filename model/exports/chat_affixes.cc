#include "model/exports/chat_affixes.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace shoal::model {
namespace {

using dataset::ChatValue;

// Texts that no template has.
constexpr std::string_view kSystem = "qsysq", kUser = "qaskq", kAnswer = "qansq", kNext = "qnextq",
                           kLast = "qlastq";

using Turn = std::pair<std::string_view, std::string_view>;  // role, text

std::optional<std::string> Render(const dataset::ChatTemplate& chat_template,
                                  std::string_view begin, const std::vector<Turn>& turns) {
  std::vector<ChatValue> messages;
  messages.reserve(turns.size());
  for (const auto& [role, text] : turns) messages.push_back(ChatValue::Message(role, text));
  dataset::ChatOptions options;
  options.add_generation_prompt = true;
  Result<std::string> text = chat_template.Render(messages, options);
  if (!text.ok()) return std::nullopt;
  if (!begin.empty() && text->starts_with(begin)) text->erase(0, begin.size());
  return std::move(*text);
}

// What stands around `words`, which must come once each and in order.
std::optional<std::vector<std::string>> Around(const std::optional<std::string>& text,
                                               const std::vector<std::string_view>& words) {
  if (!text) return std::nullopt;
  std::vector<std::string> pieces;
  std::size_t at = 0;
  for (const std::string_view word : words) {
    const std::size_t found = text->find(word, at);
    if (found == std::string::npos || text->find(word, found + 1) != std::string::npos) {
      return std::nullopt;
    }
    pieces.push_back(text->substr(at, found - at));
    at = found + word.size();
  }
  pieces.push_back(text->substr(at));
  return pieces;
}

// Removes the end of `text`; false if that is not `end`.
bool Strip(std::string* text, const std::string& end) {
  if (!text->ends_with(end)) return false;
  text->erase(text->size() - end.size());
  return true;
}

std::string CommonEnd(const std::string& a, const std::string& b) {
  std::size_t size = 0;
  while (size < std::min(a.size(), b.size()) && a[a.size() - 1 - size] == b[b.size() - 1 - size]) {
    ++size;
  }
  return a.substr(a.size() - size);
}

// Where the user's turn begins in `text`, what lies between an answer and the user's next text: as
// the system's turn begins.
std::string TurnIn(const std::string& text, std::string begin) {
  while (text.rfind(begin) == std::string::npos) begin.pop_back();
  return begin.empty() ? text : text.substr(text.rfind(begin));
}

std::string Compose(const ChatAffixes& affixes, const std::vector<Turn>& turns) {
  std::string text, system;
  for (const auto& [role, words] : turns) {
    const std::string said(words);
    if (role == "system") {
      system = said + affixes.behind_system;
      if (!affixes.system_within) text = affixes.before_system + std::exchange(system, "");
    } else if (role == "user") {
      text += affixes.before_user + std::exchange(system, "") + said + affixes.before_answer;
    } else {
      text += said + affixes.behind_answer;
    }
  }
  return text;
}

}  // namespace

std::optional<ChatAffixes> FindChatAffixes(const dataset::ChatTemplate& chat_template,
                                           std::string_view begin) {
  const auto render = [&](const std::vector<Turn>& turns) {
    return Render(chat_template, begin, turns);
  };
  const auto alone = Around(render({{"user", kUser}}), {kUser});
  const auto talk = Around(render({{"user", kUser}, {"assistant", kAnswer}, {"user", kNext}}),
                           {kUser, kAnswer, kNext});
  const auto with = Around(render({{"system", kSystem}, {"user", kUser}}), {kSystem, kUser});
  if (!alone || !talk) return std::nullopt;
  ChatAffixes affixes;
  affixes.before_user = (*alone)[0];
  affixes.before_answer = (*alone)[1];
  affixes.behind_answer = (*talk)[2];
  if (with && (*with)[0] == (*alone)[0]) {
    affixes.system_within = true;
    affixes.behind_system = (*with)[1];
  } else if (with) {
    affixes.before_system = (*with)[0];
    affixes.behind_system = (*with)[1];
    // A template with a system's text of its own begins as one with a given text does.
    std::string own = (*alone)[0];
    if (!Strip(&affixes.behind_system, affixes.before_user) &&
        own.starts_with(affixes.before_system) && Strip(&own, affixes.behind_system)) {
      affixes.default_system = own.substr(affixes.before_system.size());
      affixes.before_user =
          TurnIn(CommonEnd((*with)[1], affixes.behind_answer), affixes.before_system);
      Strip(&affixes.behind_system, affixes.before_user);
    }
  }
  if (!Strip(&affixes.behind_answer, affixes.before_user)) return std::nullopt;
  std::vector<Turn> checked = {{"user", kLast},
                               {"assistant", kNext},
                               {"user", kAnswer},
                               {"assistant", kUser},
                               {"user", kSystem}};
  if (!affixes.default_system.empty()) checked.insert(checked.begin(), {"system", kNext});
  if (render(checked) != Compose(affixes, checked)) return std::nullopt;
  if (!with || !affixes.default_system.empty()) return affixes;
  checked.insert(checked.begin(), {"system", kNext});
  if (render(checked) != Compose(affixes, checked)) return std::nullopt;
  return affixes;
}

}  // namespace shoal::model
