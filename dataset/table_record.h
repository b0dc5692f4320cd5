// Records of tables: CSV as RFC 4180 has it, and TSV, whose fields hold neither tabs nor line ends.

#ifndef SHOAL_DATASET_TABLE_RECORD_H_
#define SHOAL_DATASET_TABLE_RECORD_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"

namespace shoal::dataset {

enum class TableForm : std::uint8_t { kCsv, kTsv };

// Takes a record and its line end from the start of *text, which is not empty. A quote only has a
// meaning at the start of a field of CSV. An invalid argument says what is wrong with the record.
Result<std::vector<std::string>> TakeTableRecord(TableForm form, std::string_view* text);

}  // namespace shoal::dataset

#endif  // SHOAL_DATASET_TABLE_RECORD_H_
