// What text rows and sample rows have in common while a prepared file is made.

#ifndef SHOAL_DATASET_PREPARE_MADE_ROWS_H_
#define SHOAL_DATASET_PREPARE_MADE_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "dataset/data_header.h"
#include "dataset/prepare/prepare_options.h"
#include "dataset/tokenizer.h"

namespace shoal::dataset {

// A batch is long enough to drown the cost of a thread's start and short enough for progress.
inline constexpr std::size_t kBatchBytes = std::size_t{256} << 10;
inline constexpr int kBatchesPerThread = 8;
inline constexpr int kMaxThreads = 256;

// A file's bytes with an empty place for the header, and what is told of them. The report has no
// preview yet.
struct MadeRows {
  DataHeader header;
  std::string bytes;
  PrepareReport report;
};

// What is known before any text is read.
DataHeader HeaderFor(const PrepareOptions& options, const Tokenizer& tokenizer);

// 1 .. kMaxThreads.
unsigned ThreadsOf(const PrepareOptions& options);

// Calls work(0) .. work(count - 1), each once, on up to `threads` threads; returns when all are
// done. What work throws ends the work and comes out here, whatever thread it was on.
void ForEachOnThreads(std::size_t count, unsigned threads,
                      const std::function<void(std::size_t)>& work);

// How many of `count` rows or samples are held out: as many as the fraction says, but where there
// are two or more, each side gets one.
std::uint64_t HeldOut(std::uint64_t count, double fraction);

}  // namespace shoal::dataset

#endif  // SHOAL_DATASET_PREPARE_MADE_ROWS_H_
