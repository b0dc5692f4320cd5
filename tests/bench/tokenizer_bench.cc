// Bytes per second of Tokenizer::Encode over tiny Shakespeare, with the demo's tokenizer and, where
// SHOAL_SHARED_DATA has it, GPT-2's. "cold" loads the tokenizer anew, so that no word is cached.
// Run from the root of the source tree, or set SHOAL_SOURCE_DIR.

#include <benchmark/benchmark.h>

#include <cstdlib>
#include <string>

#include "common/file.h"
#include "dataset/tokenizer.h"
#include "tests/bench/google_main.h"

namespace shoal::dataset {
namespace {

std::string Environment(const char* name, const char* otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr ? otherwise : value;
}

void EncodeShakespeare(benchmark::State& state, const std::string& directory, bool cold) {
  const auto text =
      ReadFile(Environment("SHOAL_SOURCE_DIR", ".") + "/examples/tinyshakespeare.txt", 1 << 24);
  auto tokenizer = LoadTokenizer(directory);
  if (!text.ok() || !tokenizer.ok()) {
    state.SkipWithError((text.ok() ? tokenizer.status() : text.status()).ToString().c_str());
    return;
  }
  std::vector<std::int32_t> ids;
  for (auto round : state) {
    if (cold) {
      state.PauseTiming();
      tokenizer = LoadTokenizer(directory);
      state.ResumeTiming();
    }
    ids.clear();
    (*tokenizer)->Encode(*text, &ids);
    benchmark::DoNotOptimize(ids.data());
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(text->size()) * state.iterations());
  state.counters["tokens"] = static_cast<double>(ids.size());
}

const std::string kTiny = Environment("SHOAL_SOURCE_DIR", ".") + "/examples/tiny-gpt2";
const std::string kGpt2 = Environment("SHOAL_SHARED_DATA", "../shared/data") + "/gpt2-bpe";

BENCHMARK_CAPTURE(EncodeShakespeare, tiny_warm, kTiny, false)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(EncodeShakespeare, tiny_cold, kTiny, true)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(EncodeShakespeare, gpt2_warm, kGpt2, false)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(EncodeShakespeare, gpt2_cold, kGpt2, true)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace shoal::dataset

int main(int argc, char** argv) {
  return shoal::bench_command::RunGoogleBenchmarks(
      {.name = "tokenizer",
       .measures = "Bytes per second of the tokenizer on tiny Shakespeare, with the demo's "
                   "vocabulary and GPT-2's; "
                   "cold: it is loaded anew, so that no word is cached.",
       .needs = "the source tree as the current folder, or SHOAL_SOURCE_DIR; GPT-2's files below "
                "SHOAL_SHARED_DATA, else its cases fail.",
       .takes = "about a minute.",
       .bounds = "all cases ran; it has no bounds"},
      argc, argv);
}
