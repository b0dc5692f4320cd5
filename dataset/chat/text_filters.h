// Filters that give a text or a number.

#ifndef SHOAL_DATASET_CHAT_TEXT_FILTERS_H_
#define SHOAL_DATASET_CHAT_TEXT_FILTERS_H_

#include <string_view>

#include "dataset/chat/native_function.h"

namespace shoal::dataset {

// Null: there is none of this name.
const NativeFunction* FindTextFilter(std::string_view name);

}  // namespace shoal::dataset

#endif  // SHOAL_DATASET_CHAT_TEXT_FILTERS_H_
