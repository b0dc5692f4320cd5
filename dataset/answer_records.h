// Prompts with the answers that a model should give to them, from a file of JSON lines.

#ifndef SHOAL_DATASET_ANSWER_RECORDS_H_
#define SHOAL_DATASET_ANSWER_RECORDS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"

namespace shoal::dataset {

struct AnswerRecord {
  std::string prompt, answer;  // neither is blank
  std::uint64_t line = 0;      // of the file, from 1
};

// A JSON object with the strings "prompt" and "answer"; other fields do not count. The error says
// what is wrong with it. Sets no line.
Result<AnswerRecord> ParseAnswerRecord(std::string_view json);

// All records of `path`: JSON lines, or one JSON array. A record that is wrong is an error that
// names its line; so is a file without any. Thread: any.
Result<std::vector<AnswerRecord>> ReadAnswerRecords(const std::string& path);

}  // namespace shoal::dataset

#endif  // SHOAL_DATASET_ANSWER_RECORDS_H_
