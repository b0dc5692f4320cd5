// RawSample: a sample as a file has it, before it is made of tokens.

#ifndef SHOAL_DATASET_PREPARE_RAW_SAMPLE_H_
#define SHOAL_DATASET_PREPARE_RAW_SAMPLE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"
#include "dataset/chat/chat_value.h"

namespace shoal::dataset {

// What the samples of a file are. The first one decides; all others of the file must be the same.
enum class SampleForm : std::uint8_t {
  kDocument,      // running text
  kCompletion,    // a prompt and what is to be learned behind it
  kConversation,  // messages
  kClass,         // a text and its label
};

// "conversations" and the like.
std::string_view NameOf(SampleForm form);

// Names of the fields or columns that have the text and the label of kClass, or numbers from 1 of a
// table's columns; empty: found by name. `pair` has a second text; empty: "text_pair", if there is
// one and `text` is empty, too.
struct SampleColumns {
  std::string text;
  std::string label;
  std::string pair = {};

  bool any() const { return !text.empty() || !label.empty() || !pair.empty(); }
};

struct RawSample {
  SampleForm form = SampleForm::kDocument;
  std::string text;                 // of a document, a class or a prompt
  std::string completion;           // of a completion
  std::vector<ChatValue> messages;  // of a conversation
  // The assistant's messages that the first ones of a conversation have and that are no answers.
  std::size_t prompt_answers = 0;
  std::map<std::string, ChatValue> variables;  // of the template, as "tools"
  std::string label;                           // of a class
  std::optional<std::string> pair;             // the second text of a class
};

// What the JSON object is: {"messages"}, {"conversations"} (ShareGPT), {"prompt", "completion"} (a
// conversation if they are lists of messages), {"text", "label"}, perhaps with "text_pair", or
// {"text"}. An invalid argument says what is wrong with it.
Result<SampleForm> FormOfObject(std::string_view json, const SampleColumns& columns);

// The sample of a JSON object that is to be of `form`.
Result<RawSample> ParseSample(std::string_view json, SampleForm form, const SampleColumns& columns);

}  // namespace shoal::dataset

#endif  // SHOAL_DATASET_PREPARE_RAW_SAMPLE_H_
