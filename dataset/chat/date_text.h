// Dates as strftime writes them.

#ifndef SHOAL_DATASET_CHAT_DATE_TEXT_H_
#define SHOAL_DATASET_CHAT_DATE_TEXT_H_

#include <chrono>
#include <string>
#include <string_view>

#include "common/status.h"

namespace shoal::dataset {

// In UTC, with English names. An unknown directive is an error that names it.
Result<std::string> DateText(std::chrono::sys_seconds time, std::string_view format);

}  // namespace shoal::dataset

#endif  // SHOAL_DATASET_CHAT_DATE_TEXT_H_
