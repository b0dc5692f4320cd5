// What `shoal prepare` is asked for, and what it tells.

#ifndef SHOAL_DATASET_PREPARE_PREPARE_OPTIONS_H_
#define SHOAL_DATASET_PREPARE_PREPARE_OPTIONS_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "dataset/prepare/length_histogram.h"
#include "dataset/prepare/raw_sample.h"
#include "dataset/prepare/row_preview.h"
#include "dataset/prepare/sample_encoder.h"
#include "dataset/prepare/sample_store.h"
#include "dataset/prepared_data.h"

namespace shoal::dataset {

struct PrepareOptions {
  std::string tokenizer_directory;  // with the chat template of conversations
  // Plain text, JSON lines, JSON arrays and tables; all of running text, of samples (conversations,
  // completions), or of labelled texts.
  std::vector<std::string> text_files;
  std::vector<std::string> validation_files;  // if empty, the last fraction of rows or samples
  double validation_fraction = 0.05;          // [0, 0.9]
  std::uint32_t row_tokens = 128;             // 2 .. 65536
  std::string output;                         // replaced atomically
  LossOn loss = LossOn::kAnswers;
  bool pack = false;  // whole samples share rows; documents of running text are samples, too
  SampleColumns columns;
  std::optional<std::chrono::sys_seconds> now;  // for chat templates that write the date
  int threads = 0;                              // 0: one per core
  // Called now and then with (bytes done, bytes total); may be null. Thread: caller's.
  std::function<void(std::uint64_t, std::uint64_t)> progress;
};

struct PrepareReport {
  DataInfo info;
  std::uint64_t text_bytes = 0;
  std::uint64_t documents = 0;       // or samples
  bool separated = false;            // by an end token; without one, documents run into each other
  std::vector<std::string> notes;    // of the tokenizer, and what the user should know
  std::uint64_t used_tokens = 0;     // of all rows, without padding
  std::uint64_t loss_tokens = 0;     // labels that count
  CutCounts cuts;                    // nothing of running text is cut
  std::vector<LengthBar> lengths;    // of documents or samples
  std::vector<std::string> classes;  // names, by class; empty where labels are numbers
  std::vector<PreviewPiece> first_row;
  std::int32_t first_label = kIgnoreLabel;  // of the first row, of classes
  double seconds = 0;
};

}  // namespace shoal::dataset

#endif  // SHOAL_DATASET_PREPARE_PREPARE_OPTIONS_H_
