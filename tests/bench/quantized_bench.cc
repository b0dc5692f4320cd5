// Values per second of one core that quantises weights and decodes them, a matrix of 1024 x 4096
// and a row of it at a time.

#include <benchmark/benchmark.h>

#include <cstring>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "model/quantized/encode_weight.h"
#include "model/quantized/stored_weight.h"
#include "tests/bench/google_main.h"

namespace shoal::model {
namespace {

constexpr std::size_t kRows = 1024, kColumns = 4096;
const std::vector<std::int64_t> kShape = {kRows, kColumns};

std::vector<float> Values() {
  std::mt19937_64 random(1);
  std::normal_distribution<float> normal(0, 0.02F);
  std::vector<float> values(kRows * kColumns);
  for (float& value : values) value = normal(random);
  return values;
}

std::vector<EncodedTensor> Encoded(WeightFormat format) {
  const auto values = Values();
  return EncodeWeight("w", {storage::DType::kF32, kShape, std::as_bytes(std::span(values))}, format)
      .value();
}

void Encode(benchmark::State& state, WeightFormat format) {
  const auto values = Values();
  for (auto round : state) {
    const auto tensors =
        EncodeWeight("w", {storage::DType::kF32, kShape, std::as_bytes(std::span(values))}, format);
    if (!tensors.ok()) return state.SkipWithError(tensors.status().ToString().c_str());
    benchmark::DoNotOptimize(tensors->data());
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(kRows * kColumns) * state.iterations());
}

// `count` values at a time into the same buffer.
void Decode(benchmark::State& state, WeightFormat format, std::size_t count) {
  const auto tensors = Encoded(format);
  storage::TensorMap map;
  for (const EncodedTensor& tensor : tensors) map.emplace(tensor.stored.name, tensor.View());
  const StoredWeight weight = FindWeight(map, "w", kShape).value();
  std::vector<float> out(count);
  for (auto round : state) {
    for (std::size_t first = 0; first < weight.values; first += count) {
      weight.Decode(first, out);
      benchmark::DoNotOptimize(out.data());
      benchmark::ClobberMemory();
    }
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(weight.values) * state.iterations());
}

BENCHMARK_CAPTURE(Encode, bf16, WeightFormat::kBf16);
BENCHMARK_CAPTURE(Encode, int8, WeightFormat::kInt8);
BENCHMARK_CAPTURE(Encode, nf4, WeightFormat::kNf4);
BENCHMARK_CAPTURE(Decode, bf16_row, WeightFormat::kBf16, kColumns);
BENCHMARK_CAPTURE(Decode, int8_row, WeightFormat::kInt8, kColumns);
BENCHMARK_CAPTURE(Decode, nf4_row, WeightFormat::kNf4, kColumns);
BENCHMARK_CAPTURE(Decode, bf16_matrix, WeightFormat::kBf16, kRows* kColumns);
BENCHMARK_CAPTURE(Decode, int8_matrix, WeightFormat::kInt8, kRows* kColumns);
BENCHMARK_CAPTURE(Decode, nf4_matrix, WeightFormat::kNf4, kRows* kColumns);

}  // namespace
}  // namespace shoal::model

int main(int argc, char** argv) {
  return shoal::bench_command::RunGoogleBenchmarks(
      {.name = "quantized",
       .measures = "Values per second of one core that encodes weights of 1024 x 4096 values in "
                   "bf16, int8 and nf4, and that decodes them, a row at a time or all at once.",
       .needs = "nothing.",
       .takes = "half a minute.",
       .bounds = "all cases ran; it has no bounds"},
      argc, argv);
}
