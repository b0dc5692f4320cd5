#include "dataset/prepare/made_rows.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <exception>
#include <thread>
#include <vector>

namespace shoal::dataset {

DataHeader HeaderFor(const PrepareOptions& options, const Tokenizer& tokenizer) {
  DataHeader header;
  header.row_tokens = options.row_tokens;
  header.vocabulary = tokenizer.vocabulary();
  header.padding = static_cast<std::uint32_t>(tokenizer.end_of_text().value_or(0));
  return header;
}

unsigned ThreadsOf(const PrepareOptions& options) {
  const unsigned cores = std::max(1U, std::thread::hardware_concurrency());
  return options.threads > 0 ? static_cast<unsigned>(options.threads)
                             : std::min<unsigned>(cores, kMaxThreads);
}

void ForEachOnThreads(std::size_t count, unsigned threads,
                      const std::function<void(std::size_t)>& work) {
  std::atomic<std::size_t> next = 0;
  std::atomic<bool> failed = false;
  std::exception_ptr thrown;  // of the first that failed; read when all have ended
  const auto run = [&] {
    try {
      for (std::size_t i; (i = next.fetch_add(1)) < count;) work(i);
    } catch (...) {
      next = count;  // nobody begins with another
      if (!failed.exchange(true)) thrown = std::current_exception();
    }
  };
  std::vector<std::jthread> helpers;
  for (std::size_t i = 1; i < std::min<std::size_t>(threads, count); ++i) helpers.emplace_back(run);
  run();
  helpers.clear();
  if (thrown) std::rethrow_exception(thrown);
}

std::uint64_t HeldOut(std::uint64_t count, double fraction) {
  if (fraction == 0 || count < 2) return 0;
  const double wanted = std::round(static_cast<double>(count) * fraction);
  return std::clamp<std::uint64_t>(static_cast<std::uint64_t>(wanted), 1, count - 1);
}

}  // namespace shoal::dataset
