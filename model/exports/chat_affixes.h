// ChatAffixes: a chat template as the texts around each turn, which simpler languages of templates
// can say. Found by rendering conversations, and checked against others. Thread: any.

#ifndef SHOAL_MODEL_EXPORTS_CHAT_AFFIXES_H_
#define SHOAL_MODEL_EXPORTS_CHAT_AFFIXES_H_

#include <optional>
#include <string>
#include <string_view>

#include "dataset/chat/chat_template.h"

namespace shoal::model {

// A conversation is: before_system, system, behind_system; then for each turn before_user, user,
// before_answer, answer, behind_answer. With `system_within` the system's text and behind_system
// stand behind the first before_user instead.
struct ChatAffixes {
  std::string before_system, behind_system, before_user, before_answer, behind_answer;
  bool system_within = false;
  std::string default_system;  // what stands in for a missing system's text; may be empty
};

// `begin`: text of the token that stands in front of all and is no part of the affixes. Nothing:
// the template's conversations are not of this form.
std::optional<ChatAffixes> FindChatAffixes(const dataset::ChatTemplate& chat_template,
                                           std::string_view begin);

}  // namespace shoal::model

#endif  // SHOAL_MODEL_EXPORTS_CHAT_AFFIXES_H_
