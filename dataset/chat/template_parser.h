// From the text of a chat template to its tree.

#ifndef SHOAL_DATASET_CHAT_TEMPLATE_PARSER_H_
#define SHOAL_DATASET_CHAT_TEMPLATE_PARSER_H_

#include <string_view>

#include "common/status.h"
#include "dataset/chat/template_syntax.h"

namespace shoal::dataset {

// What a template may call by name, besides its macros; the index is that of a ChatFunction.
inline constexpr std::string_view kFunctionNames[] = {"raise_exception", "namespace", "range",
                                                      "strftime_now", "dict"};

// An invalid argument begins with the line: "line 12: the filter 'foo' is not supported".
Result<ParsedTemplate> ParseTemplate(std::string_view text);

}  // namespace shoal::dataset

#endif  // SHOAL_DATASET_CHAT_TEMPLATE_PARSER_H_
