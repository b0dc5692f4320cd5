// Which columns of a table have the text, a second one perhaps, and the label. Pure.

#ifndef SHOAL_DATASET_PREPARE_TABLE_COLUMNS_H_
#define SHOAL_DATASET_PREPARE_TABLE_COLUMNS_H_

#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include "common/status.h"
#include "dataset/prepare/raw_sample.h"

namespace shoal::dataset {

struct TableColumns {
  std::size_t text = 0;
  std::size_t label = 0;
  std::optional<std::size_t> pair;  // of a second text
  std::size_t count = 0;
  bool header = false;  // the first record names columns
};

// Of a table's first record. It is a header if its fields differ, none is a number, and one is a
// name that texts and labels often have, or a wanted one. An invalid argument names the columns
// that there are.
Result<TableColumns> FindColumns(std::span<const std::string> first, const SampleColumns& wanted);

}  // namespace shoal::dataset

#endif  // SHOAL_DATASET_PREPARE_TABLE_COLUMNS_H_
