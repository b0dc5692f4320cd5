#include "dataset/line_error.h"

namespace shoal::dataset {

Status LineError(const std::string& path, std::uint64_t line, const Status& status) {
  return Status(status.code(), path + ", line " + std::to_string(line) + ": " + status.message() +
                                   "; mend or remove the line");
}

}  // namespace shoal::dataset
