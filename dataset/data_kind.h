// What the rows of prepared data are made of.

#ifndef SHOAL_DATASET_DATA_KIND_H_
#define SHOAL_DATASET_DATA_KIND_H_

#include <cstdint>

namespace shoal::dataset {

// The values are in files (docs/STORAGE.md).
enum class DataKind : std::uint32_t {
  kText = 0,     // running text: a row's last label may be the next row's first token
  kSamples = 1,  // whole conversations, completions or documents
  kClasses = 2,  // one text a row, whose label is a class
};

}  // namespace shoal::dataset

#endif  // SHOAL_DATASET_DATA_KIND_H_
