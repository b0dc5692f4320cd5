// The words of a chat template, as Jinja2 cuts them with trim_blocks and lstrip_blocks.

#ifndef SHOAL_DATASET_CHAT_TEMPLATE_LEXER_H_
#define SHOAL_DATASET_CHAT_TEMPLATE_LEXER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"

namespace shoal::dataset {

inline constexpr std::size_t kTemplateBytesMax = std::size_t{1} << 20;
inline constexpr std::size_t kTemplateTokensMax = 200'000;

enum class TemplateTokenKind : std::uint8_t {
  kText,         // outside of tags, as it is written into the result; `text`
  kOutputBegin,  // {{
  kOutputEnd,    // }}
  kTagBegin,     // {%
  kTagEnd,       // %}
  kName,         // `text`
  kString,       // `text`, without escapes
  kInteger,      // `integer`
  kFloat,        // `number`
  kOperator,     // `text`: "+", "//", "(" and so on
  kEnd,          // of the template
};

struct Token {
  TemplateTokenKind kind = TemplateTokenKind::kEnd;
  std::int32_t line = 1;
  std::string text;
  std::int64_t integer = 0;
  double number = 0;
};

// An error that names the line, "line 3: ...".
Status TemplateError(std::int32_t line, std::string_view message);

// The last token is kEnd. Any bytes may come in.
Result<std::vector<Token>> LexTemplate(std::string_view text);

}  // namespace shoal::dataset

#endif  // SHOAL_DATASET_CHAT_TEMPLATE_LEXER_H_
