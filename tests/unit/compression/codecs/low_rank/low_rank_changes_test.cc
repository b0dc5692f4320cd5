// Changes as low-rank factors: what they keep, that both ends agree, that nothing grows.

#include "compression/codecs/low_rank/low_rank_changes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "compression/codecs/low_rank/change_section.h"
#include "compression/device/device_codec.h"
#include "compression/registry/codec_registry.h"
#include "tests/unit/compression/awkward_values.h"
#include "tests/unit/compression/device/host_queue.h"
#include "tests/unit/compression/matrix_reference.h"
#include "tests/unit/compression/one_sample.h"
#include "tests/unit/compression/simd_levels.h"

namespace shoal::compression {
namespace {

using ::testing::HasSubstr;

constexpr SampleShape kShape{96, 80};
constexpr RandomKey kKey{7, 3, 1, 2, 0};
constexpr std::size_t kHeaderBytes = 16;

using Samples = std::vector<std::vector<float>>;

// What changes of 128 x 128 values leave behind their best factors of rank 4, 8, 16 and 32:
// .29, .135, .033, .003 (docs/algorithms/low-rank-changes.md).
std::vector<double> Spectrum(std::size_t n) {
  constexpr double kAt[] = {0, 4, 8, 16, 32, 1024};
  constexpr double kLeft[] = {1, .29, .135, .033, .003, 1e-9};
  const auto left = [&](double rank) {
    std::size_t i = 0;
    while (rank > kAt[i + 1]) ++i;
    const double part = (rank - kAt[i]) / (kAt[i + 1] - kAt[i]);
    return std::exp(std::log(kLeft[i]) * (1 - part) + std::log(kLeft[i + 1]) * part);
  };
  std::vector<double> squares(n);
  for (std::size_t k = 0; k < n; ++k) {
    const auto rank = static_cast<double>(k);
    squares[k] = left(rank) - left(rank + 1);
  }
  return squares;
}

// `count` changes of a mean square of 1 each.
Samples Changes(SampleShape shape, std::size_t count, std::uint64_t seed) {
  const auto spectrum = Spectrum(std::min({shape.tokens, shape.hidden, 64U}));
  Samples samples;
  for (std::size_t i = 0; i < count; ++i) {
    samples.push_back(
        reference::WithSpectrum(shape.tokens, shape.hidden, spectrum, seed * 100 + i));
    for (float& v : samples.back()) v *= std::sqrt(static_cast<float>(shape.values()));
  }
  return samples;
}

Result<PlainPointer> TryMake(const std::string& options, std::uint32_t hidden = kShape.hidden) {
  const auto outer = ParseCodecSpec("aqsgd:bits=2", ',');
  const std::string text = "lowrank" + (options.empty() ? "" : ":" + options);
  auto made = NestCodec(*outer, kChangesKey, text, hidden);
  return made.ok() ? Result<PlainPointer>(made->codec) : Result<PlainPointer>(made.status());
}
PlainPointer Make(const std::string& options, std::uint32_t hidden = kShape.hidden) {
  return TryMake(options, hidden).value();
}

struct Message {
  std::vector<std::byte> bytes;
  Samples decoded;
};

// Encoded, and decoded by both ends with the same bits.
Message Send(const PlainCodec& codec, const Samples& samples, SampleShape shape = kShape) {
  Message message;
  message.decoded = Samples(samples.size(), std::vector<float>(shape.values(), 7.0F));
  const std::vector<std::span<const float>> in(samples.begin(), samples.end());
  const std::vector<std::span<float>> own(message.decoded.begin(), message.decoded.end());
  message.bytes.resize(codec.EncodedBytesMax(shape, samples.size()));
  const auto bytes = codec.Encode(in, shape, kKey, message.bytes, own);
  EXPECT_TRUE(bytes.ok()) << bytes.status().ToString();
  EXPECT_LE(bytes.value(), message.bytes.size());
  message.bytes.resize(bytes.value());
  Samples theirs(samples.size(), std::vector<float>(shape.values(), -7.0F));
  const std::vector<std::span<float>> out(theirs.begin(), theirs.end());
  const Status status = codec.Decode(message.bytes, shape, kKey, out);
  EXPECT_TRUE(status.ok()) << status.ToString();
  EXPECT_EQ(theirs, message.decoded);
  return message;
}

double Energy(const std::vector<float>& x) {
  double sum = 0;
  for (const float v : x) sum += double{v} * v;
  return sum;
}
double Missed(const std::vector<float>& x, const std::vector<float>& y) {
  double sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i) sum += std::pow(double{x[i]} - y[i], 2);
  return sum;
}

std::vector<std::size_t> Ranks(const Message& message, SampleShape shape = kShape) {
  const auto read =
      ReadChangeSection(std::span(message.bytes).subspan(kHeaderBytes), shape,
                        message.decoded.size(), std::min(shape.tokens, shape.hidden), "lowrank");
  std::vector<std::size_t> ranks;
  for (const ChangeFactors& factors : *read) ranks.push_back(factors.rank);
  return ranks;
}

double BitsAValue(const Message& message) {
  return 8.0 * static_cast<double>(message.bytes.size()) /
         static_cast<double>(message.decoded.size() * message.decoded[0].size());
}

// The best factors of the rank leave what stands in Spectrum; rounding in b bits adds at most
// 2^(5 - 2 b) / 3 of the rest, and what is too small to be sent.
TEST(LowRankChanges, LeavesLittleMoreThanTheBestFactors) {
  const Samples samples = Changes(kShape, 3, 1);
  const auto squares =
      reference::SquaredSingularValues(reference::Matrix(samples[0], kShape.tokens));
  for (const std::size_t rank : {4, 8, 16, 32}) {
    double best = 0;
    for (std::size_t k = rank; k < squares.size(); ++k) best += squares[k];
    best /= Energy(samples[0]);
    double last = 1;
    for (const int bits : {4, 5, 6, 8}) {
      const auto codec = Make("rank=" + std::to_string(rank) + "/factors=" + std::to_string(bits));
      const Message message = Send(*codec, samples);
      const double left = Missed(samples[0], message.decoded[0]) / Energy(samples[0]);
      const double rounding = std::ldexp(1, 5 - 2 * bits) / 3;
      SCOPED_TRACE(testing::Message() << rank << " " << bits << ": " << left << " of " << best);
      EXPECT_GT(left, best);
      EXPECT_LT(left, 1.15 * best + 1.3 * rounding);
      EXPECT_LT(left, last);
      last = left;
    }
  }
}

// Four-bit factors of rank 16 as they are would be 1.47 bits a value here.
TEST(LowRankChanges, CodesAreMuchSmallerThanTheirWidths) {
  const Samples samples = Changes(kShape, 8, 2);
  EXPECT_LT(BitsAValue(Send(*Make("rank=16"), samples)), 1.0);
  EXPECT_LT(BitsAValue(Send(*Make("rank=8"), samples)), 0.55);
  // A message of one sample pays for its tables alone.
  EXPECT_LT(BitsAValue(Send(*Make("rank=16"), {samples[0]})), 1.2);
}

TEST(LowRankChanges, RanksFollowTheSpectrumOfEachSample) {
  const SampleShape shape{64, 64};
  Samples samples;
  for (const std::size_t rank : {1, 3, 20}) {
    samples.push_back(reference::WithSpectrum(64, 64, std::vector<double>(rank, 1.0 / rank), rank));
  }
  const Message message = Send(*Make("energy=0.95/factors=6", 64), samples, shape);
  EXPECT_THAT(Ranks(message, shape), testing::ElementsAre(1, 3, 19));
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_LT(Missed(samples[i], message.decoded[i]), 0.06 * Energy(samples[i])) << i;
  }
  EXPECT_THAT(Ranks(Send(*Make("energy=0.95/rank=2", 64), samples, shape), shape),
              testing::ElementsAre(1, 2, 2));
  // The first sample's rank is where the search for the next one begins, not where it ends.
  std::reverse(samples.begin(), samples.end());
  EXPECT_THAT(Ranks(Send(*Make("energy=0.95/factors=6", 64), samples, shape), shape),
              testing::ElementsAre(19, 3, 1));
}

TEST(LowRankChanges, SmallChangesAreNotSentIfTheSpecSaysSo) {
  Samples samples = Changes(kShape, 4, 3);
  for (float& v : samples[2]) v *= 0.1F;
  const Message all = Send(*Make("rank=8"), samples);
  const Message fewer = Send(*Make("rank=8/skip=0.2"), samples);
  EXPECT_THAT(Ranks(all), testing::Each(8));
  EXPECT_THAT(Ranks(fewer), testing::ElementsAre(8, 8, 0, 8));
  EXPECT_EQ(fewer.decoded[2], std::vector<float>(kShape.values()));
  for (const std::size_t i : {0, 1, 3}) EXPECT_EQ(fewer.decoded[i], all.decoded[i]);
  // All but nine bits of a quarter of it.
  EXPECT_LT(static_cast<double>(fewer.bytes.size()), 0.78 * static_cast<double>(all.bytes.size()));
  EXPECT_THAT(Ranks(Send(*Make("rank=8/skip=0.05"), samples)), testing::Each(8));
  // A sample alone is as large as the mean of its message.
  EXPECT_THAT(Ranks(Send(*Make("rank=8/skip=1"), {samples[2]})), testing::ElementsAre(8));
}

// Every sample of every message misses less than it was.
TEST(LowRankChanges, WhatIsLeftOfAChangeIsLessThanTheChange) {
  std::mt19937_64 random(4);
  for (const SampleShape shape :
       {SampleShape{1, 1}, SampleShape{1, 17}, SampleShape{9, 1}, SampleShape{3, 5},
        SampleShape{20, 33}, SampleShape{64, 40}, SampleShape{8, 300}}) {
    for (const std::string options : {"rank=1", "rank=1/factors=8", "rank=3", "energy=0.6",
                                      "energy=0.999/factors=8", "rank=256", "skip=0.5"}) {
      const auto codec = Make(options, shape.hidden);
      for (int round = 0; round < 20; ++round) {
        Samples samples = compression::Samples(3, shape.values(), random());
        // Loud tokens, loud channels, both.
        for (std::size_t i = 0; i < shape.values(); ++i) {
          if (i < shape.hidden) samples[0][i] *= 3000;
          if (i % shape.hidden == 0) samples[1][i] *= 100;
          if (i / shape.hidden == random() % 8) samples[2][i] *= 50;
        }
        const Message message = Send(*codec, samples, shape);
        for (std::size_t i = 0; i < samples.size(); ++i) {
          const double energy = Energy(samples[i]);
          EXPECT_LE(Missed(samples[i], message.decoded[i]), energy) << options;
          if (options.find("skip") != std::string::npos || energy < 1e-6) continue;
          EXPECT_LT(Missed(samples[i], message.decoded[i]), energy)
              << options << " " << shape.tokens << "x" << shape.hidden;
        }
      }
    }
  }
}

// A token of which the change is 1,000 times the others' is a direction of its own, and no reason
// to send nothing of them.
TEST(LowRankChanges, LoudTokensDoNotHideTheOthers) {
  Samples plain = Changes(kShape, 4, 5), loud = plain;
  for (auto& sample : loud) {
    for (std::size_t i = 0; i < kShape.hidden; ++i) sample[i] *= 1000;
  }
  const auto quiet = [&](const Samples& samples, const Message& message) {
    double missed = 0, all = 0;
    for (std::size_t s = 0; s < samples.size(); ++s) {
      for (std::size_t i = kShape.hidden; i < kShape.values(); ++i) {
        missed += std::pow(samples[s][i] - message.decoded[s][i], 2);
        all += std::pow(samples[s][i], 2);
      }
    }
    return missed / all;
  };
  for (const std::string options : {"rank=16", "energy=0.95"}) {
    const Message without = Send(*Make(options), plain);
    const Message with = Send(*Make(options), loud);
    EXPECT_LT(quiet(loud, with), 1.15 * quiet(plain, without)) << options;
    EXPECT_LT(BitsAValue(with), 1.1 * BitsAValue(without)) << options;
    EXPECT_LT(Missed(loud[0], with.decoded[0]), 0.3 * Energy(loud[0]));
  }
}

TEST(LowRankChanges, ScalesPerChannelKeepLoudChannelsFromHidingTheOthers) {
  Samples samples = Changes(kShape, 4, 6);
  for (auto& sample : samples) {
    for (std::size_t i = 0; i < kShape.values(); ++i) {
      if (i % kShape.hidden < 3) sample[i] *= 40;
    }
  }
  const auto quiet = [&](const std::string& options) {
    const Message message = Send(*Make(options), samples);
    double missed = 0, all = 0;
    for (std::size_t i = 0; i < kShape.values(); ++i) {
      if (i % kShape.hidden < 3) continue;
      missed += std::pow(samples[0][i] - message.decoded[0][i], 2);
      all += std::pow(samples[0][i], 2);
    }
    return missed / all;
  };
  EXPECT_LT(quiet("rank=16/channels=on"), 0.12);
  EXPECT_GT(quiet("rank=16"), 0.3);
}

TEST(LowRankChanges, TheWideFormTakesTwiceTheBitsAndMissesLess) {
  const Samples samples = Changes(kShape, 4, 7);
  for (const std::string options : {"rank=4", "rank=16", "rank=16/factors=6", "rank=16/factors=8",
                                    "energy=0.9", "energy=0.95/factors=8", "rank=16/channels=on"}) {
    const auto codec = Make(options);
    const Message plain = Send(*codec, samples);
    const Message wide = Send(*codec->Wider(), samples);
    EXPECT_GE(wide.bytes.size(), 2 * plain.bytes.size()) << options;
    double missed = 0, missed_wide = 0;
    for (std::size_t i = 0; i < samples.size(); ++i) {
      missed += Missed(samples[i], plain.decoded[i]);
      missed_wide += Missed(samples[i], wide.decoded[i]);
    }
    EXPECT_LT(missed_wide, 0.5 * missed) << options;
  }
}

TEST(LowRankChanges, HugeAndTinyChangesAreFollowedAndNothingElseIsMade) {
  for (const int exponent : {-140, -110, -79, -60, -41, -39, 0, 39, 41, 90, 114}) {
    Samples samples = Changes({30, 40}, 2, 8);
    for (auto& sample : samples) {
      for (float& v : sample) v = std::ldexp(std::clamp(v, -8.0F, 8.0F), exponent);
    }
    const Message message = Send(*Make("rank=30/factors=8", 40), samples, {30, 40});
    if (exponent < -84) {
      EXPECT_THAT(Ranks(message, {30, 40}), testing::Each(0));
      EXPECT_EQ(message.decoded[0], std::vector<float>(1200));
    } else {
      EXPECT_LT(Missed(samples[0], message.decoded[0]), 0.01 * Energy(samples[0])) << exponent;
    }
  }
  const Samples zeros(3, std::vector<float>(kShape.values()));
  const Message message = Send(*Make(""), zeros);
  EXPECT_EQ(message.decoded, zeros);
  EXPECT_LE(message.bytes.size(), kHeaderBytes + 8 + 4U);
}

TEST(LowRankChanges, ValuesThatAreNotFiniteOrTooLargeAreRefused) {
  for (const float bad : {std::numeric_limits<float>::infinity(), std::nanf(""), 0x1p120F}) {
    Samples samples = Changes(kShape, 2, 9);
    samples[1][kShape.hidden * 3 + 2] = bad;
    const std::vector<std::span<const float>> in(samples.begin(), samples.end());
    std::vector<std::byte> out(Make("")->EncodedBytesMax(kShape, 2));
    const auto bytes = Make("")->Encode(in, kShape, kKey, out, {});
    ASSERT_FALSE(bytes.ok());
    EXPECT_THAT(bytes.status().message(), HasSubstr("token 3 "));
  }
}

// The encoder may differ from level to level; what a message decodes to may not.
TEST(LowRankChanges, DecodesToTheSameBitsAtEveryLevel) {
  const Samples samples = Changes({70, 90}, 3, 10);
  for (const std::string options : {"rank=16", "rank=5/factors=8", "energy=0.98/channels=on"}) {
    const auto codec = Make(options, 90);
    const Message message = Send(*codec, samples, {70, 90});
    AtEveryLevel([&] {
      Samples decoded(3, std::vector<float>(70 * 90));
      const std::vector<std::span<float>> out(decoded.begin(), decoded.end());
      ASSERT_TRUE(codec->Decode(message.bytes, {70, 90}, kKey, out).ok());
      EXPECT_EQ(decoded, message.decoded);
      // And here both ends agree as well.
      Send(*codec, samples, {70, 90});
    });
  }
}

TEST(LowRankChanges, SamplesThatNobodyWantsArePassedOver) {
  const Samples samples = Changes(kShape, 3, 11);
  const auto codec = Make("rank=8");
  const Message message = Send(*codec, samples);
  std::vector<float> middle(kShape.values());
  const std::vector<std::span<float>> wanted = {{}, middle, {}};
  ASSERT_TRUE(codec->Decode(message.bytes, kShape, kKey, wanted).ok());
  EXPECT_EQ(middle, message.decoded[1]);
  // The storage of the samples may be that of what they decode to.
  Samples in_place = samples;
  const std::vector<std::span<const float>> in(in_place.begin(), in_place.end());
  const std::vector<std::span<float>> out(in_place.begin(), in_place.end());
  std::vector<std::byte> bytes(codec->EncodedBytesMax(kShape, 3));
  bytes.resize(codec->Encode(in, kShape, kKey, bytes, out).value());
  EXPECT_EQ(bytes, message.bytes);
  EXPECT_EQ(in_place, message.decoded);
}

TEST(LowRankChanges, DamagedMessagesAreErrorsOrFiniteValues) {
  const Samples samples = Changes({20, 30}, 2, 12);
  const auto codec = Make("rank=6/factors=8", 30);
  const Message message = Send(*codec, samples, {20, 30});
  Samples decoded(2, std::vector<float>(600));
  const std::vector<std::span<float>> out(decoded.begin(), decoded.end());
  for (std::size_t size = 0; size < message.bytes.size(); ++size) {
    const std::vector<std::byte> cut(message.bytes.begin(),
                                     message.bytes.begin() + static_cast<std::ptrdiff_t>(size));
    EXPECT_EQ(codec->Decode(cut, {20, 30}, kKey, out).code(), StatusCode::kInvalidArgument) << size;
  }
  std::mt19937_64 random(13);
  int accepted = 0;
  for (int round = 0; round < 4000; ++round) {
    auto damaged = message.bytes;
    for (std::size_t i = 0; i < 1 + random() % 3; ++i) {
      damaged[random() % damaged.size()] = static_cast<std::byte>(random());
    }
    const Status status = codec->Decode(damaged, {20, 30}, kKey, out);
    if (!status.ok()) {
      EXPECT_THAT(status.message(), HasSubstr("codec lowrank:rank=6,factors=8"));
      continue;
    }
    ++accepted;
    for (const auto& sample : decoded) {
      for (const float v : sample) ASSERT_TRUE(std::isfinite(v));
    }
  }
  EXPECT_GT(accepted, 20);
  EXPECT_LT(accepted, 3900);
  auto behind = message.bytes;
  behind.push_back(std::byte{0});
  EXPECT_THAT(codec->Decode(behind, {20, 30}, kKey, out).message(),
              HasSubstr("bytes behind the code streams"));
  // A rank that the spec does not allow.
  EXPECT_THAT(Make("rank=5/factors=8", 30)->Decode(message.bytes, {20, 30}, kKey, out).message(),
              HasSubstr("rank or steps"));
}

// Factors whose product leaves fp32: the peer's fault, whatever the sums are on the way.
TEST(LowRankChanges, FactorsOfAnInfiniteProductAreRefused) {
  ChangeFactors factors;
  factors.rank = 1;
  factors.exponent = 104;
  factors.steps = {0};
  factors.token_exponents = {0, 10};
  factors.left = {1, 100};
  factors.right = {1, 200};
  std::vector<std::byte> bytes(kHeaderBytes + ChangeSectionBytesMax({2, 2}, 1, 2));
  std::vector<float> values(4);
  const std::vector<std::span<float>> out = {values};
  const auto codec = Make("rank=2", 2);
  const auto send = [&] {
    auto message = Send(*codec, {std::vector<float>(4)}, {2, 2}).bytes;  // for its header
    message.resize(kHeaderBytes + ChangeSectionBytesMax({2, 2}, 1, 2));
    const std::size_t section =
        WriteChangeSection({&factors, 1}, {2, 2}, std::span(message).subspan(kHeaderBytes));
    message.resize(kHeaderBytes + section);
    return codec->Decode(message, {2, 2}, kKey, out);
  };
  EXPECT_THAT(send().message(), HasSubstr("not finite"));
  factors.token_exponents = {0, 9};
  ASSERT_TRUE(send().ok());
  EXPECT_EQ(values[3], std::ldexp(20000.0F, 113));
}

TEST(LowRankChanges, SpecsAreCanonicalAndMistakesAreNamed) {
  EXPECT_EQ(Make("")->spec(), "lowrank:rank=16,factors=4");
  EXPECT_EQ(Make("energy=0.95")->spec(), "lowrank:rank=64,energy=0.95,factors=4");
  EXPECT_EQ(Make("factors=6/rank=3/energy=0.7/skip=0.1/channels=on")->spec(),
            "lowrank:rank=3,energy=0.7,factors=6,skip=0.1,channels=on");
  for (const auto& [options, what] :
       std::vector<std::pair<std::string, std::string>>{{"rank=0", "rank"},
                                                        {"rank=257", "rank"},
                                                        {"energy=0.5", "energy"},
                                                        {"energy=1", "energy"},
                                                        {"factors=3", "factors"},
                                                        {"factors=9", "factors"},
                                                        {"factors=fp16", "factors"},
                                                        {"skip=1.5", "skip"},
                                                        {"channels=maybe", "channels"},
                                                        {"epilogue=true", "epilogue"}}) {
    const auto made = TryMake(options);
    ASSERT_FALSE(made.ok()) << options;
    EXPECT_THAT(made.status().message(), HasSubstr(what));
  }
  EXPECT_FALSE(Make("")->divisible());
}

// AQ-SGD, theorem 3.1: what is left of a change is a part of it, visit by visit, at both ends.
TEST(LowRankChanges, MFollowsAnActivationThatStays) {
  for (const std::string changes : {"rank=16", "rank=4", "energy=0.9/channels=on"}) {
    const OneSample codec("aqsgd:delta=lowrank:" + changes + ",first_visit=raw:dtype=fp32",
                          kShape.hidden);
    const auto x = reference::Normal(kShape.values(), 14);
    auto y = x;
    const auto change = Changes(kShape, 1, 15)[0];
    for (std::size_t i = 0; i < y.size(); ++i) y[i] += 0.3F * change[i];
    Buffer ours, theirs;
    std::vector<float> got(kShape.values());
    double missed = std::sqrt(Missed(x, y));
    for (int visit = 0; visit < 7; ++visit) {
      const auto& at = visit == 0 ? x : y;
      std::vector<std::byte> out(codec.EncodedBytesMax(kShape));
      Buffer next, received;
      const auto bytes = codec.Encode(at, kShape, ours.bytes(), kKey, out, &next);
      ASSERT_TRUE(bytes.ok()) << bytes.status().ToString();
      const Status status =
          codec.Decode(std::span(out).first(*bytes), kShape, theirs.bytes(), kKey, got, &received);
      ASSERT_TRUE(status.ok()) << status.ToString();
      ASSERT_TRUE(std::ranges::equal(next.bytes(), received.bytes()));
      ours = std::move(next);
      theirs = std::move(received);
      if (visit == 0) continue;
      const double now = std::sqrt(Missed(y, got));
      // Down to what fp16 holds.
      EXPECT_TRUE(missed <= 0.2 || now < (visit == 1 ? 0.6 : 0.9) * missed) << changes << visit;
      missed = now;
    }
    EXPECT_LT(missed, 0.2 * std::sqrt(Missed(x, y))) << changes;
  }
}

// Both as whole messages: only gradients may be low rank by `lowrank` itself, and only changes
// here.
TEST(LowRankChanges, TheNameIsForChangesInsideOfAqsgdAlone) {
  const auto codec =
      MakeCodec("aqsgd:delta=lowrank:rank=8/channels=on,first_visit=tiles:bits=4", 64);
  ASSERT_TRUE(codec.ok()) << codec.status().ToString();
  EXPECT_EQ((*codec)->spec(), "aqsgd:delta=lowrank:rank=8/factors=4/channels=on,first_visit=" +
                                  Nested(MakeCodec("tiles:bits=4", 64).value()->spec()));
  EXPECT_FALSE((*codec)->divisible());
  EXPECT_FALSE(TraitsOf("aqsgd:delta=lowrank:rank=8")->device_form);
  EXPECT_EQ(NewDeviceCodec("aqsgd:delta=lowrank:rank=8", 64, std::make_unique<HostQueue>())
                .status()
                .code(),
            StatusCode::kUnimplemented);
  for (const char* spec :
       {"aqsgd:bits=2,first_visit=lowrank:rank=8", "lowrank:else=lowrank:rank=8"}) {
    const auto made = MakeCodec(spec, 64);
    ASSERT_FALSE(made.ok()) << spec;
    EXPECT_THAT(made.status().message(), HasSubstr("is for changes"));
  }
  // Outside it is the codec of gradients.
  EXPECT_FALSE(MakeCodec("lowrank:energy=0.9", 64).ok());
  EXPECT_FALSE(MakeCodec("aqsgd:delta=lowrank:epilogue=true", 64).ok());
}

}  // namespace
}  // namespace shoal::compression
