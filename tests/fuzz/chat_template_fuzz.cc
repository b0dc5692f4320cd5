// A chat template and messages, with a NUL between: whatever they say, rendering ends, and what is
// written is UTF-8 within its limits. Turns stand in the text, one behind the other.

#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "dataset/chat/characters.h"
#include "dataset/chat/chat_template.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using shoal::dataset::ChatValue;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const std::size_t middle = bytes.find('\0');
  const auto parsed = shoal::dataset::ChatTemplate::Parse(bytes.substr(0, middle), "fuzz");
  std::vector<ChatValue> messages = {ChatValue::Message("user", "a"),
                                     ChatValue::Message("assistant", "b")};
  if (middle != std::string_view::npos) {
    const auto given = shoal::dataset::ParseMessages(bytes.substr(middle + 1));
    if (given.ok()) messages = *given;
  }
  if (!parsed.ok()) return 0;
  const auto model = parsed->With({{"eos_token", ChatValue("</s>")}});
  shoal::dataset::ChatOptions options;
  options.now = std::chrono::sys_seconds(std::chrono::seconds(1'741'529'107));
  options.limits = {20'000, 1 << 20, 1 << 16};
  std::vector<shoal::dataset::ByteRange> generated;
  const auto text = model.Render(messages, options, &generated);
  if (!text.ok()) return 0;
  if (text->size() > options.limits.text_bytes || !shoal::dataset::IsUtf8(*text)) std::abort();
  for (const auto& range : generated) {
    if (range.begin >= range.end || range.end > text->size()) std::abort();
  }
  constexpr std::size_t kMessagesMax = 8;
  if (messages.size() > kMessagesMax) return 0;
  const auto chat = shoal::dataset::RenderTurns(model, messages, options);
  if (!chat.ok()) return 0;
  std::size_t done = 0;
  for (const auto& range : chat->answers) {
    if (range.begin < done || range.begin >= range.end) std::abort();
    done = range.end;
  }
  if (chat->text != *text || done > text->size()) std::abort();
  return 0;
}
