// The tests of Jinja: `value is NAME`.

#ifndef SHOAL_DATASET_CHAT_VALUE_TESTS_H_
#define SHOAL_DATASET_CHAT_VALUE_TESTS_H_

#include <string_view>

#include "common/status.h"
#include "dataset/chat/chat_value.h"
#include "dataset/chat/native_function.h"

namespace shoal::dataset {

// Null: there is none of this name. What it gives is a boolean.
const NativeFunction* FindTest(std::string_view name);

}  // namespace shoal::dataset

#endif  // SHOAL_DATASET_CHAT_VALUE_TESTS_H_
