// Errors of a line of a text file.

#ifndef SHOAL_DATASET_LINE_ERROR_H_
#define SHOAL_DATASET_LINE_ERROR_H_

#include <cstdint>
#include <string>

#include "common/status.h"

namespace shoal::dataset {

// "PATH, line N: <message>; mend or remove the line". Lines count from 1.
Status LineError(const std::string& path, std::uint64_t line, const Status& status);

}  // namespace shoal::dataset

#endif  // SHOAL_DATASET_LINE_ERROR_H_
