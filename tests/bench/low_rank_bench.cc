// Time of the low-rank codec and of one tensor's way through PowerSGD, 1024 x 1600 values of one
// core, by rank. Bytes per second are those of the values as fp32.

#include <benchmark/benchmark.h>

#include <random>
#include <string>
#include <utility>
#include <vector>

#include "compression/api/stateful_codec.h"
#include "replica/collective/power_sgd.h"
#include "tests/bench/google_main.h"

namespace shoal::compression {
namespace {

constexpr SampleShape kShape{1024, 1600};

std::vector<float> Values() {
  std::mt19937_64 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> values(kShape.values());
  for (float& v : values) v = normal(random);
  return values;
}

std::string Spec(const benchmark::State& state) {
  return "lowrank:rank=" + std::to_string(state.range(0)) +
         ",lazy=" + (state.range(1) == 0 ? "off" : "on");
}

void Count(benchmark::State& state) {
  state.SetBytesProcessed(static_cast<std::int64_t>(4 * kShape.values()) * state.iterations());
}

// A link's messages one after the other, all of them in the epilogue.
void Encode(benchmark::State& state) {
  const auto codec = MakeCodec(Spec(state), kShape.hidden).value();
  const auto values = Values();
  const std::span<const float> view = values;
  std::vector<std::byte> out(codec->EncodedBytesMax(kShape, 1));
  LowRankState memory, next;
  for (auto round : state) {
    const auto bytes = codec->stateful()->EncodeOnLink({{&view, 1}, kShape, {}, {2, 1, 1, 0}, {}},
                                                       memory, out, &next, nullptr);
    if (!bytes.ok()) return state.SkipWithError(bytes.status().ToString().c_str());
    std::swap(memory, next);
  }
  Count(state);
}

void Decode(benchmark::State& state) {
  const auto codec = MakeCodec(Spec(state), kShape.hidden).value();
  auto values = Values();
  const std::span<const float> view = values;
  std::vector<std::byte> out(codec->EncodedBytesMax(kShape, 1));
  LowRankState next;
  const auto bytes = codec->stateful()->EncodeOnLink({{&view, 1}, kShape, {}, {2, 1, 1, 0}, {}}, {},
                                                     out, &next, nullptr);
  if (!bytes.ok()) return state.SkipWithError(bytes.status().ToString().c_str());
  const SampleToDecode sample{values, false, {}};
  for (auto round : state) {
    const Status status = codec->Decode(std::span(out).first(*bytes), {&sample, 1}, kShape, {}, {});
    if (!status.ok()) return state.SkipWithError(status.ToString().c_str());
  }
  Count(state);
}

// All that one member computes for a step of one tensor.
void PowerSgd(benchmark::State& state) {
  auto values = Values();
  const MatrixShape shape{kShape.tokens, kShape.hidden};
  const collective::FactorKey key;
  auto memory =
      collective::NewPowerSgdState(shape, static_cast<std::uint32_t>(state.range(0)), key);
  std::vector<float> mean(values.size());
  std::uint64_t step = 0;
  for (auto round : state) {
    auto way = collective::PowerSgdStep::Begin(values, memory, key, step++).value();
    const std::vector<float> p(way.p().begin(), way.p().end());
    const auto q = way.Continue(p).value();
    memory = way.Finish(q, mean).value();
  }
  Count(state);
}

BENCHMARK(Encode)->ArgsProduct({{4, 16, 32}, {0, 1}})->Unit(benchmark::kMillisecond);
BENCHMARK(Decode)->ArgsProduct({{4, 16, 32}, {0}})->Unit(benchmark::kMillisecond);
BENCHMARK(PowerSgd)->ArgsProduct({{4, 16, 32}})->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace shoal::compression

int main(int argc, char** argv) {
  return shoal::bench_command::RunGoogleBenchmarks(
      {.name = "low_rank",
       .measures = "The low-rank codec, and all that PowerSGD computes for one tensor, at 1024 x "
                   "1600 values on "
                   "one core, by rank. Bytes per second are those of the values as fp32.",
       .needs = "nothing beyond its build.",
       .takes = "about a minute.",
       .bounds = "all cases ran; it has no bounds"},
      argc, argv);
}
