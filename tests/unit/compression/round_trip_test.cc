// 10,000 random messages for every codec and width, each within the error that its levels allow,
// and the same bytes at every SIMD level. Bounds are computed from what was put in.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "compression/api/m_format.h"
#include "tests/unit/compression/one_sample.h"
#include "tests/unit/compression/reference.h"
#include "tests/unit/compression/simd_levels.h"

namespace shoal::compression {
namespace {

// A sanitizer slows them tenfold.
#if defined(SHOAL_SANITIZED)
constexpr int kTrips = 1000;
#else
constexpr int kTrips = 10000;
#endif
constexpr std::uint32_t kHidden[] = {1, 7, 12, 32, 48, 64};
constexpr const char* kLevels[] = {"midrise", "midtread", "affine"};

struct Rule {
  int bits;
  std::string levels = "midrise";
  bool stochastic = false;
};

// The most that a value of the group may be off. Scales are bf16, rounded outward.
double MaxError(const Rule& rule, std::span<const double> group) {
  double low = group[0];
  double high = group[0];
  for (const double v : group) {
    low = std::min(low, v);
    high = std::max(high, v);
  }
  const double most = std::max(std::fabs(low), std::fabs(high)) * (1 + 0x1p-7);
  double step = 2 * most * std::ldexp(1, -rule.bits);
  if (rule.levels == "midtread") step = most / (std::ldexp(1, rule.bits - 1) - 1);
  if (rule.levels == "affine") {
    const double width = high - low + (std::fabs(low) + std::fabs(high)) * 0x1p-7;
    step = width / (std::ldexp(1, rule.bits) - 1);
  }
  return step * (rule.stochastic ? 1.01 : 0.51);
}

// Gaussian with outliers, or with zeros, or all the same, at any usual scale.
std::vector<float> Values(std::size_t n, std::mt19937_64& random) {
  const float scale = std::ldexp(1.0F, static_cast<int>(random() % 41) - 20);
  auto x = reference::Gaussian(n, random(), scale);
  const auto kind = random() % 8;
  for (float& v : x) {
    if (kind == 0) v = scale;
    if (kind == 1 && random() % 2 == 0) v = 0;
    if (kind == 2) v += 16 * scale;
  }
  return x;
}

// One message, encoded and decoded.
struct Trip {
  SampleShape shape;
  RandomKey key;
  std::vector<std::vector<float>> given;
  std::vector<std::vector<float>> got;
  std::vector<std::byte> payload;
};

Trip Send(const MessageCodec& codec, SampleShape shape, std::size_t samples,
          std::mt19937_64& random) {
  Trip trip{shape, {random(), random() % 1000, 3, 1, 1}, {}, {}, {}};
  std::vector<SampleToEncode> given;
  std::vector<SampleToDecode> wanted;
  for (std::size_t i = 0; i < samples; ++i) {
    trip.given.push_back(Values(shape.values(), random));
    trip.got.emplace_back(shape.values(), std::nanf(""));
  }
  for (std::size_t i = 0; i < samples; ++i) {
    given.push_back({trip.given[i], {}});
    wanted.push_back({trip.got[i], false, {}});
  }
  trip.payload.resize(codec.EncodedBytesMax(shape, samples));
  const auto bytes =
      codec.Encode(given, shape, trip.key, DeltaMode::kDelta, trip.payload, {}, nullptr);
  EXPECT_TRUE(bytes.ok()) << bytes.status().ToString();
  trip.payload.resize(bytes.value());
  const Status status = codec.Decode(trip.payload, wanted, shape, trip.key, {});
  EXPECT_TRUE(status.ok()) << status.ToString();
  return trip;
}

std::uint32_t Hidden(std::mt19937_64& random) { return kHidden[random() % std::size(kHidden)]; }

std::uint32_t Divisor(std::uint32_t hidden, std::mt19937_64& random) {
  std::uint32_t divisor = hidden;
  while (random() % 2 == 0) {
    for (std::uint32_t next = divisor - 1; next > 0; --next) {
      if (hidden % next != 0) continue;
      divisor = next;
      break;
    }
    if (divisor == 1) break;
  }
  return divisor;
}

double SquaredError(std::span<const float> x, std::span<const float> got) {
  double sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i)
    sum += (double{x[i]} - got[i]) * (double{x[i]} - got[i]);
  return sum;
}

class EveryWidth : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Bits, EveryWidth, testing::Range(1, 9));

TEST_P(EveryWidth, DirectIsWithinItsLevels) {
  const int bits = GetParam();
  std::mt19937_64 random(100 + static_cast<unsigned>(bits));
  for (int round = 0; round < kTrips; ++round) {
    const std::uint32_t hidden = Hidden(random);
    const std::uint32_t bucket = Divisor(hidden, random);
    const Rule rule{bits, bits == 1 ? kLevels[round % 2 * 2] : kLevels[round % 3],
                    round / 3 % 2 == 1};
    const std::string coder = round % 16 == 0 ? "+rans" : round % 16 == 1 ? "+zstd" : "";
    const std::string spec = "direct" + coder + ":bits=" + std::to_string(bits) +
                             ",bucket=" + std::to_string(bucket) + ",levels=" + rule.levels +
                             (rule.stochastic ? ",rounding=stochastic" : "");
    const auto codec = MakeCodec(spec, hidden).value();
    const SampleShape shape{1 + static_cast<std::uint32_t>(random() % 3), hidden};
    const Trip trip = Send(*codec, shape, 1 + random() % 2, random);
    for (std::size_t s = 0; s < trip.given.size(); ++s) {
      for (std::size_t first = 0; first < shape.values(); first += bucket) {
        const std::vector<double> group(trip.given[s].data() + first,
                                        trip.given[s].data() + first + bucket);
        const double most = MaxError(rule, group);
        for (std::size_t i = 0; i < bucket; ++i) {
          ASSERT_LE(std::fabs(group[i] - trip.got[s][first + i]), most) << spec << " " << round;
        }
      }
    }
  }
}

// The squared error of a bucket is never above that of the absmax scale.
TEST_P(EveryWidth, AnOptimalScaleIsNeverWorseThanAbsmax) {
  const int bits = GetParam();
  std::mt19937_64 random(200 + static_cast<unsigned>(bits));
  for (int round = 0; round < kTrips / 10; ++round) {
    const std::string levels = bits > 1 && round % 2 == 0 ? "midtread" : "midrise";
    const std::string name = "direct:bits=" + std::to_string(bits) + ",levels=" + levels;
    const auto optimal = MakeCodec(name + ",scale=optimal", 48).value();
    const auto absmax = MakeCodec(name, 48).value();
    std::mt19937_64 same = random;
    const Trip a = Send(*optimal, {1, 48}, 1, random);
    const Trip b = Send(*absmax, {1, 48}, 1, same);
    ASSERT_EQ(a.given, b.given);
    ASSERT_LE(SquaredError(a.given[0], a.got[0]), SquaredError(b.given[0], b.got[0]) * 1.0001)
        << name;
  }
}

TEST_P(EveryWidth, ChannelsAreWithinTheirLevels) {
  const int bits = GetParam();
  std::mt19937_64 random(300 + static_cast<unsigned>(bits));
  for (int round = 0; round < kTrips; ++round) {
    const std::uint32_t hidden = Hidden(random);
    const Rule rule{bits, bits == 1 ? kLevels[round % 2 * 2] : kLevels[round % 3],
                    round / 3 % 2 == 1};
    const std::string spec = "direct:bits=" + std::to_string(bits) +
                             ",bucket=channel,levels=" + rule.levels +
                             (rule.stochastic ? ",rounding=stochastic" : "");
    const auto codec = MakeCodec(spec, hidden).value();
    const SampleShape shape{1 + static_cast<std::uint32_t>(random() % 3), hidden};
    const Trip trip = Send(*codec, shape, 1 + random() % 2, random);
    for (std::size_t c = 0; c < hidden; ++c) {
      std::vector<double> group;
      std::vector<double> got;
      for (std::size_t s = 0; s < trip.given.size(); ++s) {
        for (std::size_t t = 0; t < shape.tokens; ++t) {
          group.push_back(trip.given[s][t * hidden + c]);
          got.push_back(trip.got[s][t * hidden + c]);
        }
      }
      const double most = MaxError(rule, group);
      for (std::size_t i = 0; i < group.size(); ++i) {
        ASSERT_LE(std::fabs(group[i] - got[i]), most) << spec << " " << round;
      }
    }
  }
}

// Orthonormal, in double.
std::vector<double> Rotated(std::span<const float> x) {
  std::vector<double> y(x.begin(), x.end());
  for (std::size_t h = 1; h < y.size(); h *= 2) {
    for (std::size_t i = 0; i < y.size(); ++i) {
      if (i / h % 2 != 0) continue;
      const double a = y[i];
      y[i] = a + y[i + h];
      y[i + h] = a - y[i + h];
    }
  }
  for (double& v : y) v /= std::sqrt(static_cast<double>(y.size()));
  return y;
}

// The rotation keeps norms: a tile's error is that of its rotated values.
TEST_P(EveryWidth, TilesAreWithinTheLevelsOfTheRotatedValues) {
  const int bits = GetParam();
  std::mt19937_64 random(400 + static_cast<unsigned>(bits));
  for (int round = 0; round < kTrips; ++round) {
    const std::uint32_t hidden = Hidden(random);
    const std::uint32_t tile = std::min(hidden & (~hidden + 1), 1U << random() % 8);
    const Rule rule{bits, bits == 1 ? kLevels[round % 2 * 2] : kLevels[round % 3],
                    round / 3 % 2 == 1};
    const std::string spec = std::string(round % 16 == 0 ? "tiles+rans" : "tiles") +
                             ":bits=" + std::to_string(bits) + ",tile=" + std::to_string(tile) +
                             ",levels=" + rule.levels +
                             (rule.stochastic ? ",rounding=stochastic" : "");
    const auto codec = MakeCodec(spec, hidden).value();
    const SampleShape shape{1 + static_cast<std::uint32_t>(random() % 3), hidden};
    const Trip trip = Send(*codec, shape, 1 + random() % 2, random);
    for (std::size_t s = 0; s < trip.given.size(); ++s) {
      for (std::size_t first = 0; first < shape.values(); first += tile) {
        const auto x = std::span(trip.given[s]).subspan(first, tile);
        const double error = SquaredError(x, std::span(trip.got[s]).subspan(first, tile));
        double norm = 0;
        for (const float v : x) norm += std::fabs(v);
        const double most =
            MaxError(rule, Rotated(x)) * std::sqrt(static_cast<double>(tile)) + norm * 1e-6;
        ASSERT_LE(std::sqrt(error), most) << spec << " " << round;
      }
    }
  }
}

TEST_P(EveryWidth, TopKIsWithinTheLevelsOfWhatItKeeps) {
  const int bits = GetParam();
  std::mt19937_64 random(500 + static_cast<unsigned>(bits));
  for (int round = 0; round < kTrips; ++round) {
    const std::uint32_t hidden = Hidden(random);
    const double ratio = static_cast<double>(1 + random() % 100) / 100;
    const std::string spec =
        "topk:ratio=" + std::to_string(ratio) + ",bits=" + std::to_string(bits) + ",bucket=100000";
    const auto codec = MakeCodec(spec, hidden).value();
    const SampleShape shape{1 + static_cast<std::uint32_t>(random() % 3), hidden};
    const Trip trip = Send(*codec, shape, 1 + random() % 2, random);
    const auto n = shape.values();
    const auto kept = std::max<std::size_t>(
        1, static_cast<std::size_t>(std::floor(ratio * static_cast<double>(n) + 0.5)));
    for (std::size_t s = 0; s < trip.given.size(); ++s) {
      std::vector<double> sizes;
      for (const float v : trip.given[s]) sizes.push_back(-std::fabs(double{v}));
      std::sort(sizes.begin(), sizes.end());
      const double most = MaxError({bits}, std::span(sizes).first(1));
      const double least = -sizes[kept - 1];
      std::size_t zeros = 0;
      for (std::size_t i = 0; i < n; ++i) {
        const double x = trip.given[s][i];
        const double got = trip.got[s][i];
        const bool dropped = got == 0 && std::fabs(x) <= least;
        ASSERT_TRUE(dropped || std::fabs(got - x) <= most) << spec << " " << round;
        // What is larger than the smallest that is kept is kept.
        ASSERT_TRUE(std::fabs(x) <= least || got != 0) << spec << " " << round;
        zeros += got == 0 ? 1 : 0;
      }
      ASSERT_GE(zeros, n - kept);
    }
  }
}

// Chains of visits of one sample. The bound is that of the change against m, plus one rounding to
// fp16 where m is fp16.
TEST_P(EveryWidth, AqsgdIsWithinTheLevelsOfItsChanges) {
  const int bits = GetParam();
  for (const int m_bits : {16, 8, 4, 2}) {
    std::mt19937_64 random(600 + static_cast<unsigned>(bits * 20 + m_bits));
    const MFormat format(m_bits);
    for (int chain = 0; chain < kTrips / 10; ++chain) {
      const std::uint32_t hidden = Hidden(random);
      const std::uint32_t bucket = Divisor(hidden, random);
      const OneSample codec(
          "aqsgd:bits=" + std::to_string(bits) + ",bucket=" + std::to_string(bucket) +
              ",m=" + std::to_string(m_bits) +
              ",first_visit=" + (chain % 2 == 0 ? "raw:dtype=fp32" : "tiles:bits=4"),
          hidden);
      const SampleShape shape{1 + static_cast<std::uint32_t>(random() % 3), hidden};
      auto x = Values(shape.values(), random);
      Buffer ours;
      Buffer theirs;
      std::vector<float> got(shape.values());
      for (int visit = 0; visit < 11; ++visit) {
        std::vector<float> base(shape.values());
        if (visit > 0) format.Read(ours.bytes(), shape, base);
        std::vector<std::byte> out(codec.EncodedBytesMax(shape));
        Buffer next;
        const auto bytes = codec.Encode(x, shape, ours.bytes(), {}, out, &next);
        ASSERT_TRUE(bytes.ok()) << bytes.status().ToString();
        Buffer received;
        const Status status =
            codec.Decode(std::span(out).first(*bytes), shape, theirs.bytes(), {}, got, &received);
        ASSERT_TRUE(status.ok()) << status.ToString();
        ASSERT_TRUE(std::equal(next.bytes().begin(), next.bytes().end(), received.bytes().begin(),
                               received.bytes().end()));
        for (std::size_t first = 0; visit > 0 && first < x.size(); first += bucket) {
          std::vector<double> group;
          for (std::size_t i = first; i < first + bucket; ++i) {
            group.push_back(double{x[i]} - base[i]);
          }
          const double most = MaxError({bits}, group);
          for (std::size_t i = 0; i < bucket; ++i) {
            const double rounding = std::fabs(double{got[first + i]}) * 0x1p-10 + 0x1p-24;
            ASSERT_LE(std::fabs(double{x[first + i]} - got[first + i]), most + rounding)
                << codec.spec() << " visit " << visit;
          }
        }
        ours = std::move(next);
        theirs = std::move(received);
        for (float& v : x) v *= 1.0F + 0.1F * static_cast<float>(random() % 3);
      }
    }
  }
}

TEST(RoundTrip, DitheredIsWithinHalfAStep) {
  std::mt19937_64 random(700);
  const char* const specs[] = {"dithered:step=0.25", "dithered:step=1", "dithered:step=4",
                               "dithered:rate=2", "dithered:error=0.3"};
  for (int round = 0; round < kTrips; ++round) {
    const std::uint32_t hidden = Hidden(random);
    const std::string spec = specs[static_cast<std::size_t>(round) % std::size(specs)];
    const auto codec = MakeCodec(spec, hidden).value();
    const SampleShape shape{1 + static_cast<std::uint32_t>(random() % 3), hidden};
    const Trip trip = Send(*codec, shape, 1 + random() % 2, random);
    float step = 0;
    std::memcpy(&step, trip.payload.data() + 16, 4);
    for (std::size_t s = 0; s < trip.given.size(); ++s) {
      for (std::size_t i = 0; i < shape.values(); ++i) {
        const double x = trip.given[s][i];
        ASSERT_LE(std::fabs(x - trip.got[s][i]), double{step} * 0.501 + std::fabs(x) * 1e-5)
            << spec << " " << round;
      }
    }
  }
}

// The mean error over many messages, in units of its own deviation.
TEST(RoundTrip, StochasticRoundingIsUnbiased) {
  constexpr int kMessages = 4000;
  for (const std::string options :
       {"direct:bits=2,levels=midrise", "direct:bits=3,levels=midtread",
        "direct:bits=2,levels=affine", "direct:bits=1,levels=affine", "tiles:bits=3",
        "direct:bits=2,bucket=channel,levels=midtread"}) {
    const auto codec = MakeCodec(options + ",rounding=stochastic", 64).value();
    const SampleShape shape{2, 64};
    const std::size_t n = shape.values();
    std::mt19937_64 random(800);
    std::uniform_real_distribution<float> uniform(-1, 1);
    std::vector<float> x(n);
    for (float& v : x) v = uniform(random);
    std::vector<double> sum(n);
    std::vector<double> squares(n);
    std::vector<std::byte> out(codec->EncodedBytesMax(shape, 1));
    std::vector<float> got(n);
    for (int i = 0; i < kMessages; ++i) {
      const RandomKey key{5, static_cast<std::uint64_t>(i), 0, 0, 0};
      const SampleToEncode given{x, {}};
      const SampleToDecode wanted{got, false, {}};
      const auto bytes =
          codec->Encode({&given, 1}, shape, key, DeltaMode::kDelta, out, {}, nullptr);
      ASSERT_TRUE(bytes.ok());
      ASSERT_TRUE(codec->Decode(std::span(out).first(*bytes), {&wanted, 1}, shape, key, {}).ok());
      for (std::size_t j = 0; j < n; ++j) {
        const double error = double{got[j]} - x[j];
        sum[j] += error;
        squares[j] += error * error;
      }
    }
    double total = 0;
    std::size_t seen = 0;
    for (std::size_t j = 0; j < n; ++j) {
      // Beyond the outermost mid-rise level there is nothing to round up to.
      if (options == "direct:bits=2,levels=midrise" && std::fabs(x[j]) > 0.7F) continue;
      const double mean = sum[j] / kMessages;
      // Not below what one rounding of 4,000 does: where the other level is that rare.
      const double deviation = std::sqrt(squares[j] / kMessages / kMessages) + 1e-4;
      ASSERT_LT(std::fabs(mean), 5 * deviation) << options << " " << j;
      total += mean * mean / (deviation * deviation);
      ++seen;
    }
    ASSERT_GT(seen, n / 2);
    EXPECT_LT(total / static_cast<double>(seen), 1.6) << options;
  }
}

// Three visits of three samples; everything that both ends make of them.
std::vector<std::byte> Everything(const MessageCodec& codec) {
  const SampleShape shape{5, 192};
  std::vector<std::byte> all;
  const auto keep = [&](std::span<const std::byte> bytes) {
    all.insert(all.end(), bytes.begin(), bytes.end());
  };
  std::vector<Buffer> m(3);
  for (std::uint64_t visit = 0; visit < 3; ++visit) {
    const RandomKey key{1, visit, 2, 3, 0};
    std::vector<std::vector<float>> x;
    std::vector<std::vector<float>> got(3, std::vector<float>(shape.values()));
    for (std::uint64_t s = 0; s < 3; ++s) {
      x.push_back(reference::Gaussian(shape.values(), 10 * visit + s));
    }
    std::vector<SampleToEncode> given;
    std::vector<SampleToDecode> wanted;
    for (std::size_t s = 0; s < 3; ++s) {
      given.push_back({x[s], m[s].bytes()});
      wanted.push_back({got[s], !m[s].empty(), m[s].bytes()});
    }
    std::vector<std::byte> out(codec.EncodedBytesMax(shape, 3));
    std::vector<Buffer> next(3);
    std::vector<Buffer> theirs(3);
    const auto bytes = codec.Encode(given, shape, key, DeltaMode::kDelta, out, next, nullptr);
    EXPECT_TRUE(bytes.ok()) << bytes.status().ToString();
    keep(std::span(out).first(bytes.value()));
    EXPECT_TRUE(codec.Decode(std::span(out).first(*bytes), wanted, shape, key, theirs).ok());
    for (std::size_t s = 0; s < 3; ++s) {
      keep(std::as_bytes(std::span(got[s])));
      keep(next[s].bytes());
      keep(theirs[s].bytes());
    }
    if (codec.keeps_m()) m = std::move(next);
  }
  return all;
}

TEST(RoundTrip, EverySimdLevelMakesTheSameBytesValuesAndImages) {
  std::vector<std::string> specs = {"raw:dtype=fp16",
                                    "raw:dtype=bf16",
                                    "topk:ratio=0.2,bits=8",
                                    "topk+rans:ratio=0.05,bits=3",
                                    "dithered:step=0.7",
                                    "dithered:rate=2",
                                    "aqsgd:bits=2,first_visit=tiles:bits=4,m=8",
                                    "aqsgd:delta=tiles:bits=2/levels=midrise",
                                    "aqsgd:delta=topk:ratio=0.1/bits=4",
                                    "aqsgd:delta=dithered:step=1,m=4",
                                    "direct:bits=4,bucket=channel",
                                    "direct:bits=4,bucket=channel,levels=authors",
                                    "direct+zstd:bits=3",
                                    "direct+rans:bits=3",
                                    "tiles+rans:bits=3",
                                    "tiles:bits=3,adaptive=on",
                                    "tiles:bits=4,tile=16,rounding=stochastic",
                                    "direct:bits=3,levels=affine,bucket=48",
                                    "direct:bits=3,levels=midtread,scale=optimal"};
  for (int bits = 1; bits <= 8; ++bits) {
    specs.push_back("direct:bits=" + std::to_string(bits));
    specs.push_back("tiles:bits=" + std::to_string(bits));
    for (const char* m : {"16", "8", "4", "2"}) {
      specs.push_back("aqsgd:bits=" + std::to_string(bits) + ",m=" + m);
    }
  }
  std::vector<std::vector<std::byte>> first;
  AtEveryLevel([&] {
    for (std::size_t i = 0; i < specs.size(); ++i) {
      auto made = Everything(*MakeCodec(specs[i], 192).value());
      if (first.size() == i) {
        first.push_back(std::move(made));
      } else {
        ASSERT_TRUE(made == first[i]) << specs[i];
      }
    }
  });
}

}  // namespace
}  // namespace shoal::compression
