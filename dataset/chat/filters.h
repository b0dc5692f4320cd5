// The filters of Jinja: `value | NAME(...)`.

#ifndef SHOAL_DATASET_CHAT_FILTERS_H_
#define SHOAL_DATASET_CHAT_FILTERS_H_

#include <string_view>

#include "common/status.h"
#include "dataset/chat/chat_value.h"
#include "dataset/chat/native_function.h"

namespace shoal::dataset {

bool IsFilter(std::string_view name);

// IsFilter(name) need not hold: `map` names filters at run time. An unknown one is an error.
Result<ChatValue> ApplyFilter(std::string_view name, const ChatValue& value,
                              const CallArguments& arguments, ChatWork* work);

}  // namespace shoal::dataset

#endif  // SHOAL_DATASET_CHAT_FILTERS_H_
