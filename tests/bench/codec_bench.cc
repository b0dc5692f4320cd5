// Codec speed against the fastest thing one can do with the same input: reading and adding it up.
// The counter `of_sum` is the codec's rate of fp32 input bytes divided by that of the sum.

#include <benchmark/benchmark.h>

#include <ctime>
#include <random>
#include <string>
#include <vector>

#include "compression/codec.h"

namespace shoal::compression {
namespace {

constexpr SampleShape kShape{1024, 1600};  // one sample of GPT2-XL, 6.5 MB
constexpr std::size_t kSamples = 16;       // 105 MB: more than the caches hold

const char* const kSpecs[] = {"raw:dtype=fp32", "raw:dtype=fp16", "raw:dtype=bf16", "direct:bits=2",
                              "direct:bits=3",  "direct:bits=4",  "direct:bits=6",  "direct:bits=8",
                              "aqsgd:bits=2",   "aqsgd:bits=3",   "aqsgd:bits=4",   "aqsgd:bits=8"};

// CPU time, so that other work on the machine does not count.
double CpuSeconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

struct Input {
  std::vector<std::vector<float>> samples;
  double sum_bytes_per_second = 0;
};

float Sum(const std::vector<float>& values) {
  // 64 partial sums: the adds must not be what takes the time.
  float sums[64] = {};
  for (std::size_t i = 0; i + 64 <= values.size(); i += 64) {
    for (std::size_t j = 0; j < 64; ++j) sums[j] += values[i + j];
  }
  float sum = 0;
  for (const float s : sums) sum += s;
  return sum;
}

const Input& SharedInput() {
  static const Input input = [] {
    Input made;
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    std::vector<float> sample(kShape.values());
    for (float& v : sample) v = normal(random);
    made.samples.assign(kSamples, sample);
    for (int round = 0; round < 5; ++round) {
      const double start = CpuSeconds();
      for (const auto& s : made.samples) benchmark::DoNotOptimize(Sum(s));
      const double took = CpuSeconds() - start;
      const double rate = static_cast<double>(kSamples * kShape.values() * 4) / took;
      made.sum_bytes_per_second = std::max(made.sum_bytes_per_second, rate);
    }
    return made;
  }();
  return input;
}

void Finish(benchmark::State& state, double seconds) {
  const double bytes = static_cast<double>(state.iterations()) * kShape.values() * 4;
  state.SetBytesProcessed(static_cast<std::int64_t>(bytes));
  state.counters["of_sum"] = bytes / seconds / SharedInput().sum_bytes_per_second;
}

void BM_Sum(benchmark::State& state) {
  const Input& input = SharedInput();
  std::size_t at = 0;
  const double start = CpuSeconds();
  for (auto _ : state) benchmark::DoNotOptimize(Sum(input.samples[at++ % kSamples]));
  const double took = CpuSeconds() - start;
  Finish(state, took);
}
BENCHMARK(BM_Sum)->Unit(benchmark::kMillisecond);

// One visit per iteration, of a sample that has an m where the codec keeps one.
void BM_Codec(benchmark::State& state, bool decode) {
  const Input& input = SharedInput();
  const auto codec = MakeCodec(kSpecs[state.range(0)], kShape.hidden).value();
  state.SetLabel(codec->spec());
  std::vector<std::byte> out(codec->EncodedBytesMax(kShape, 1));
  Buffer m;
  Buffer next;
  const auto encode = [&](std::size_t i, std::span<const std::byte> base, Buffer* made) {
    const SampleToEncode sample{input.samples[i], base};
    return codec->Encode({&sample, 1}, kShape, {}, DeltaMode::kDelta, out, {made, 1}, nullptr);
  };
  if (codec->keeps_m() && !encode(0, {}, &m).ok()) {
    return state.SkipWithError("first visit failed");
  }
  const auto bytes = encode(0, m.bytes(), &next);
  std::vector<std::vector<float>> values(decode ? kSamples : 0,
                                         std::vector<float>(kShape.values()));
  std::size_t at = 0;
  bool ok = bytes.ok();
  const double start = CpuSeconds();
  for (auto _ : state) {
    const std::size_t i = at++ % kSamples;
    if (decode) {
      const SampleToDecode sample{values[i], !m.empty(), m.bytes()};
      ok &= codec->Decode(std::span(out).first(*bytes), {&sample, 1}, kShape, {}, {&next, 1}).ok();
    } else {
      ok &= encode(i, m.bytes(), &next).ok();
    }
  }
  const double took = CpuSeconds() - start;
  if (!ok) return state.SkipWithError("coding failed");
  Finish(state, took);
}
BENCHMARK_CAPTURE(BM_Codec, encode, false)
    ->DenseRange(0, std::size(kSpecs) - 1)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(BM_Codec, decode, true)
    ->DenseRange(0, std::size(kSpecs) - 1)
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace shoal::compression
