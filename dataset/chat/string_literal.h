// What stands between the quotes of a string in a chat template.

#ifndef SHOAL_DATASET_CHAT_STRING_LITERAL_H_
#define SHOAL_DATASET_CHAT_STRING_LITERAL_H_

#include <string>
#include <string_view>

#include "common/status.h"

namespace shoal::dataset {

// Python's escapes replaced: \n, \x41, \u00e9 and so on; an unknown one stays as it is.
Result<std::string> Unescape(std::string_view text);

}  // namespace shoal::dataset

#endif  // SHOAL_DATASET_CHAT_STRING_LITERAL_H_
