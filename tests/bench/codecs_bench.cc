// Codec speed, size and error, run by ./x bench codecs.
//
// Speed is a ratio within one run: a codec's rate of fp32 input bytes over that of one pass of
// adding the same values up, a loop that memory bounds. Both take turns on one core, in CPU time,
// so that other work on the machine does not decide. Values of 16 samples of GPT2-XL's shape are
// used in turn: more than the caches hold.

#include <hwy/highway.h>
#include <hwy/targets.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "compression/api/codec.h"
#include "tests/bench/bench_command.h"
#include "tests/bench/bench_json.h"

namespace shoal::compression {
namespace {

constexpr SampleShape kShape{1024, 1600};
constexpr std::size_t kSamples = 16;
constexpr int kRounds = 7;

const char* const kSpecs[] = {
    "raw:dtype=fp16",
    "raw:dtype=bf16",
    "direct:bits=1",
    "direct:bits=2",
    "direct:bits=3",
    "direct:bits=4",
    "direct:bits=5",
    "direct:bits=6",
    "direct:bits=7",
    "direct:bits=8",
    "direct:bits=4,levels=midtread",
    "direct:bits=4,levels=affine",
    "direct:bits=4,scale=optimal",
    "direct:bits=4,rounding=stochastic",
    "direct:bits=4,bucket=channel",
    "direct+zstd:bits=4",
    "direct+rans:bits=4",
    "tiles:bits=2",
    "tiles:bits=2,levels=midrise",
    "tiles:bits=3",
    "tiles:bits=4",
    "tiles:bits=8",
    "tiles:bits=4,adaptive=on",
    "tiles+rans:bits=4",
    "topk:ratio=0.2,bits=8",
    "topk:ratio=0.05,bits=4",
    "dithered:step=0.5",
    "dithered:step=0.5,channels=on",
    "dithered:step=0.5,klt=16",
    "dithered:step=0.5,klt=32",
    "dithered:step=0.7",
    "dithered:step=1",
    "dithered:step=1.5",
    "aqsgd:bits=2",
    "aqsgd:bits=3",
    "aqsgd:bits=4",
    "aqsgd:bits=5",
    "aqsgd:bits=6",
    "aqsgd:bits=7",
    "aqsgd:bits=8",
    "aqsgd+zstd:bits=2",
    "aqsgd+rans:bits=2",
    "aqsgd+rans:bits=3",
    "aqsgd:bits=3,m=8",
    "aqsgd:bits=3,channels=on",
    "aqsgd+rans:bits=3,channels=on",
    "aqsgd+zstd:bits=3",
    "aqsgd+zstd:bits=3,channels=on",
    "aqsgd+zstd:bits=4,step=0.7,channels=on",
    "aqsgd:delta=dithered:step=1",
    "aqsgd:delta=dithered:step=0.7/channels=on",
    "aqsgd:delta=dithered:step=0.6/klt=64/channels=on",
    "aqsgd:delta=tiles:bits=2,first_visit=tiles:bits=4",
    "aqsgd:delta=topk:ratio=0.2/bits=8",
    "aqsgd:delta=lowrank:rank=16",
    "aqsgd:delta=lowrank:rank=16/channels=on",
    "aqsgd:delta=lowrank:rank=64",
};

struct Row {
  std::string codec, simd;
  double encode_over_sum = 0, decode_over_sum = 0;
  double encode_rate = 0, decode_rate = 0;  // million values per second
  double bits_per_value = 0, relative_error = 0;
};

double CpuSeconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

float Sum(std::span<const float> values) {
  // 64 partial sums: the adds must not be what takes the time.
  float sums[64] = {};
  for (std::size_t i = 0; i + 64 <= values.size(); i += 64) {
    for (std::size_t j = 0; j < 64; ++j) sums[j] += values[i + j];
  }
  float sum = 0;
  for (const float s : sums) sum += s;
  return sum;
}

// Gaussian tokens with a mean square of about 1, three quarters of it in 32 directions that all of
// them share.
class DrawnTokens {
 public:
  DrawnTokens() : directions_(kDirections * kShape.hidden) {
    for (std::size_t i = 0; i < directions_.size(); ++i) {
      const auto k = static_cast<double>(i / kShape.hidden);
      directions_[i] = normal_(random_) * static_cast<float>(std::sqrt(kFirst * std::pow(0.9, k)));
    }
  }
  float Normal() { return normal_(random_); }
  void Draw(std::span<float> token) {
    for (float& value : token) value = 0.5F * Normal();
    for (std::size_t k = 0; k < kDirections; ++k) {
      const float along = Normal();
      for (std::size_t c = 0; c < token.size(); ++c) {
        token[c] += along * directions_[k * token.size() + c];
      }
    }
  }

 private:
  static constexpr std::size_t kDirections = 32;
  static constexpr double kFirst = 0.0777;  // of the energy; the next one has .9 of it, ...

  std::mt19937 random_{1};
  std::normal_distribution<float> normal_;
  std::vector<float> directions_;
};

// Tokens of very different energy (a tenth of them hold about half), as gradients have; `earlier`
// is what the sample was at its last visit, a tenth of it away.
struct Input {
  std::vector<std::vector<float>> samples;
  std::vector<std::vector<float>> earlier;

  Input() {
    DrawnTokens drawn;
    std::vector<float> sample(kShape.values());
    std::vector<float> before(kShape.values());
    std::vector<float> change(kShape.hidden);
    for (std::size_t t = 0; t < kShape.tokens; ++t) {
      const float scale = std::exp(0.75F * drawn.Normal());
      const auto token = std::span(sample).subspan(t * kShape.hidden, kShape.hidden);
      drawn.Draw(token);
      drawn.Draw(change);
      for (std::size_t c = 0; c < kShape.hidden; ++c) {
        token[c] *= scale;
        before[t * kShape.hidden + c] = token[c] + 0.1F * scale * change[c];
      }
    }
    samples.assign(kSamples, sample);
    earlier.assign(1, before);
  }
};

double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

// Seconds that `work(i)` takes for one sample, and how that compares with the sum: both measured
// in turns.
template <typename Work>
std::pair<double, double> Measure(const Input& input, Work work) {
  static volatile float sink = 0;
  std::vector<double> seconds, ratios;
  for (int round = 0; round < kRounds; ++round) {
    const double begin = CpuSeconds();
    for (const auto& sample : input.samples) sink = sink + Sum(sample);
    const double middle = CpuSeconds();
    for (std::size_t i = 0; i < kSamples; ++i) work(i);
    const double end = CpuSeconds();
    seconds.push_back((end - middle) / kSamples);
    ratios.push_back((middle - begin) / (end - middle));
  }
  return {Median(seconds), Median(ratios)};
}

[[noreturn]] void Die(const std::string& what) {
  std::fprintf(stderr, "codecs_bench: %s\n", what.c_str());
  std::exit(1);
}

void Check(const Status& status) {
  if (!status.ok()) Die(status.ToString());
}

Row MeasureCodec(const std::string& spec, const Input& input, const std::string& simd) {
  const auto codec = MakeCodec(spec, kShape.hidden);
  Check(codec.status());
  std::vector<std::byte> out((*codec)->EncodedBytesMax(kShape, 1));
  Buffer m, next;
  std::size_t bytes = 0;
  const auto encode = [&](std::span<const float> values, std::span<const std::byte> base,
                          Buffer* made) {
    const SampleToEncode sample{values, base};
    const auto written = (*codec)->Encode({&sample, 1}, kShape, {}, DeltaMode::kDelta, out,
                                          {made, (*codec)->keeps_m() ? 1U : 0U}, nullptr);
    Check(written.status());
    bytes = *written;
  };
  if ((*codec)->keeps_m()) encode(input.earlier[0], {}, &m);
  Row row;
  row.codec = spec;
  row.simd = simd;
  const auto encoded =
      Measure(input, [&](std::size_t i) { encode(input.samples[i], m.bytes(), &next); });
  std::vector<std::vector<float>> values(kSamples, std::vector<float>(kShape.values()));
  const auto decoded = Measure(input, [&](std::size_t i) {
    const SampleToDecode sample{values[i], !m.empty(), m.bytes()};
    Check((*codec)->Decode(std::span(out).first(bytes), {&sample, 1}, kShape, {},
                           {&next, (*codec)->keeps_m() ? 1U : 0U}));
  });
  const double n = static_cast<double>(kShape.values());
  row.encode_over_sum = encoded.second;
  row.decode_over_sum = decoded.second;
  row.encode_rate = n / encoded.first / 1e6;
  row.decode_rate = n / decoded.first / 1e6;
  row.bits_per_value = 8.0 * static_cast<double>(bytes) / n;
  double error = 0, norm = 0;
  for (std::size_t i = 0; i < kShape.values(); ++i) {
    const double x = input.samples[0][i];
    error += (x - values[0][i]) * (x - values[0][i]);
    norm += x * x;
  }
  row.relative_error = std::sqrt(error / norm);
  return row;
}

struct Bound {
  std::string what;
  double value, least;

  bool holds() const { return value >= least; }
};

// The bounds that this project set itself; only of the fastest SIMD level.
std::vector<Bound> Bounds(const std::map<std::string, Row>& rows) {
  std::vector<Bound> bounds;
  const auto row = [&](const std::string& name, int bits) -> const Row* {
    const auto found = rows.find(name + ":bits=" + std::to_string(bits));
    return found == rows.end() ? nullptr : &found->second;
  };
  for (const int bits : {2, 3, 4, 6, 8}) {
    if (const Row* r = row("direct", bits)) {
      bounds.push_back({r->codec + " encode", r->encode_over_sum, 0.5});
      bounds.push_back({r->codec + " decode", r->decode_over_sum, 0.5});
    }
    if (const Row* r = row("aqsgd", bits)) {
      bounds.push_back({r->codec + " encode", r->encode_over_sum, 0.3});
    }
  }
  for (const int odd : {3, 5, 7}) {
    for (const char* name : {"direct", "aqsgd"}) {
      const Row *r = row(name, odd), *a = row(name, odd - 1), *b = row(name, odd + 1);
      if (r == nullptr || a == nullptr || b == nullptr) continue;
      bounds.push_back({r->codec + " encode over the even widths beside it",
                        2 * r->encode_over_sum / (a->encode_over_sum + b->encode_over_sum), 0.7});
      bounds.push_back({r->codec + " decode over the even widths beside it",
                        2 * r->decode_over_sum / (a->decode_over_sum + b->decode_over_sum), 0.7});
    }
  }
  if (const auto found = rows.find("dithered:step=1"); found != rows.end()) {
    bounds.push_back({"dithered:step=1 encode, million values/s", found->second.encode_rate, 250});
    bounds.push_back({"dithered:step=1 decode, million values/s", found->second.decode_rate, 350});
  }
  if (const auto found = rows.find("aqsgd:delta=lowrank:rank=16"); found != rows.end()) {
    bounds.push_back({found->first + " encode, million values/s", found->second.encode_rate, 100});
  }
  return bounds;
}

void PrintJson(const std::vector<Row>& rows, const std::vector<Bound>& bounds) {
  using bench_command::Json;
  Json made = Json::array(), judged = Json::array();
  for (const Row& r : rows) {
    made.push_back({{"codec", r.codec},
                    {"simd", r.simd},
                    {"encodeOverSum", r.encode_over_sum},
                    {"decodeOverSum", r.decode_over_sum},
                    {"encodeMillionValuesPerSecond", r.encode_rate},
                    {"decodeMillionValuesPerSecond", r.decode_rate},
                    {"bitsPerValue", r.bits_per_value},
                    {"relativeError", r.relative_error}});
  }
  for (const Bound& b : bounds) {
    judged.push_back(
        {{"what", b.what}, {"value", b.value}, {"least", b.least}, {"holds", b.holds()}});
  }
  bench_command::PrintJson(
      made,
      {{"bounds", judged}, {"shape", {{"tokens", kShape.tokens}, {"hidden", kShape.hidden}}}});
}

void PrintBounds(const std::vector<Bound>& bounds) {
  if (!bounds.empty()) std::printf("\n");
  for (const Bound& b : bounds) {
    std::printf("%-5s %s: %.2f, at least %.2f\n", b.holds() ? "ok" : "MISS", b.what.c_str(),
                b.value, b.least);
  }
}

struct Options {
  std::string filter;
  bool json = false, all_levels = false;
};

Options ParseOptions(int argc, char** argv) {
  bench_command::Command command(
      {.name = "codecs",
       .measures = "Speed, size and error of each codec on one core. Speed is the codec's rate of "
                   "fp32 input over that of adding the same values up, which memory bounds; both "
                   "take turns in CPU time.",
       .needs = "300 MB of memory.",
       .takes = "about two minutes; with --all-simd as long for each level of SIMD.",
       .bounds = "the fastest level of SIMD reached all bounds that follow the rows"});
  Options options;
  command.Text("--filter", "TEXT", "only codecs whose spec contains TEXT", &options.filter);
  command.Flag("--all-simd", "all levels of SIMD that this processor has", &options.all_levels);
  command.Parse(argc, argv);
  options.json = command.json();
  return options;
}

void Print(const Row& r) {
  std::printf("%-38s %-8s %8.2f %8.2f %9.0f %9.0f %7.3f %9.4f\n", r.codec.c_str(), r.simd.c_str(),
              r.encode_over_sum, r.decode_over_sum, r.encode_rate, r.decode_rate, r.bits_per_value,
              r.relative_error);
  std::fflush(stdout);
}

int Main(int argc, char** argv) {
  const Options options = ParseOptions(argc, argv);
  const Input input;
  std::vector<std::int64_t> levels;
  for (std::int64_t left = hwy::SupportedTargets() & HWY_TARGETS; left != 0; left &= left - 1) {
    levels.push_back(left & -left);  // best first
    if (!options.all_levels) break;
  }
  if (!options.json) {
    std::printf("%-38s %-8s %8s %8s %9s %9s %7s %9s\n", "codec", "simd", "enc/sum", "dec/sum",
                "enc M/s", "dec M/s", "bits", "rel.err");
  }
  std::vector<Row> rows;
  std::map<std::string, Row> best;
  for (const std::int64_t level : levels) {
    hwy::SetSupportedTargetsForTest(level);
    for (const std::string spec : kSpecs) {
      if (spec.find(options.filter) == std::string::npos) continue;
      const Row r = MeasureCodec(spec, input, hwy::TargetName(level));
      if (!options.json) Print(r);
      rows.push_back(r);
      if (level == levels.front()) best[spec] = r;
    }
  }
  const std::vector<Bound> bounds = Bounds(best);
  if (options.json) {
    PrintJson(rows, bounds);
  } else {
    PrintBounds(bounds);
  }
  return bench_command::ExitCodeOf(std::ranges::all_of(bounds, &Bound::holds));
}

}  // namespace
}  // namespace shoal::compression

int main(int argc, char** argv) { return shoal::compression::Main(argc, argv); }
