// Which class each label is. Pure.

#ifndef SHOAL_DATASET_PREPARE_CLASS_LABELS_H_
#define SHOAL_DATASET_PREPARE_CLASS_LABELS_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/status.h"

namespace shoal::dataset {

struct SeenLabel {
  std::string text;
  std::string where;      // it was seen first: "a.tsv, line 3"
  bool training = false;  // it is in a training file
};

struct ClassLabels {
  std::vector<std::uint32_t> class_of;  // of each label given
  std::uint32_t classes = 0;
  std::vector<std::string> names;  // of each class; empty where labels are numbers
};

// Labels that are all whole numbers below kMaxClasses are the classes themselves, up to the
// largest; names are numbered in the order of their bytes. `labels` are all different. Refused:
// numbers and names mixed, numbers outside, fewer than two labels in training, labels that training
// lacks.
Result<ClassLabels> AssignClasses(std::span<const SeenLabel> labels);

}  // namespace shoal::dataset

#endif  // SHOAL_DATASET_PREPARE_CLASS_LABELS_H_
