// Codecs for values on a device, as boundaries use them, give what the codecs of the host give, to
// the bit, whether they have a form there or copy.

#include "compression/device/device_values.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <thread>

#include "compression/api/stateful_codec.h"
#include "tests/support/fake_device.h"
#include "tests/unit/compression/awkward_values.h"

namespace shoal::compression {
namespace {

using test_support::FakeDevice;
using test_support::ValuesOf;

constexpr SampleShape kShape{6, 160};
constexpr RandomKey kKey{5, 7, 1, 0, 0};

// Values of samples, in the memory of one home.
class Placed {
 public:
  Placed(const ValueHome& home, FakeDevice* device, const std::vector<Values>& samples)
      : device_(home.on_host() ? nullptr : device),
        count_(samples[0].size()),
        block_(home.Allocate(samples.size() * count_).value()) {
    const auto copy = [&] {
      for (std::size_t i = 0; i < samples.size(); ++i) std::ranges::copy(samples[i], At(i).data());
    };
    Touch(copy);
  }

  std::span<float> At(std::size_t i) { return block_.floats().subspan(i * count_, count_); }
  std::vector<Values> Read(std::size_t samples) {
    std::vector<Values> read(samples);
    Touch([&] {
      for (std::size_t i = 0; i < samples; ++i) read[i].assign(At(i).begin(), At(i).end());
    });
    return read;
  }

 private:
  template <typename Function>
  void Touch(const Function& function) {
    if (device_ == nullptr) return function();
    const FakeDevice::Work work(device_);
    function();
  }

  FakeDevice* device_;
  std::size_t count_;
  Buffer block_;
};

std::vector<std::byte> BytesOf(std::span<const std::byte> bytes) {
  return {bytes.begin(), bytes.end()};
}

// What a message made, and what was made of it.
struct Trip {
  Status status;
  std::vector<std::byte> payload;
  std::vector<std::vector<std::byte>> sent_m, received_m;
  std::vector<Values> values;
  CodingStats stats;
};

Trip Send(const ValueHome& home, FakeDevice* device, const MessageCodec& codec,
          const std::vector<Values>& x, const std::vector<std::vector<std::byte>>& m,
          DeltaMode mode) {
  Trip trip;
  Placed sent(home, device, x);
  std::vector<SampleToEncode> samples;
  for (std::size_t i = 0; i < x.size(); ++i) {
    samples.push_back({sent.At(i), m.empty() ? std::span<const std::byte>() : m[i]});
  }
  const bool keeps = codec.keeps_m() || codec.keeps_residual();
  std::vector<Buffer> next(keeps ? x.size() : 0);
  trip.payload.resize(codec.EncodedBytesMax(kShape, x.size()));
  const auto bytes = codec.Encode(samples, kShape, kKey, mode, trip.payload, next, &trip.stats);
  trip.status = bytes.status();
  if (!bytes.ok()) return trip;
  trip.payload.resize(*bytes);
  for (const Buffer& image : next) trip.sent_m.push_back(BytesOf(image.bytes()));

  Placed received(home, device, std::vector<Values>(x.size(), Values(kShape.values())));
  std::vector<SampleToDecode> wanted(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    wanted[i].values = received.At(i);
    wanted[i].delta = codec.keeps_m() && !m.empty() && mode != DeltaMode::kFull;
    if (wanted[i].delta) wanted[i].m = m[i];
  }
  std::vector<Buffer> made(codec.keeps_m() ? x.size() : 0);
  trip.status = codec.Decode(trip.payload, wanted, kShape, kKey, made);
  for (const Buffer& image : made) trip.received_m.push_back(BytesOf(image.bytes()));
  trip.values = received.Read(x.size());
  return trip;
}

void ExpectSame(const Trip& got, const Trip& want) {
  ASSERT_EQ(got.status.code(), want.status.code()) << got.status.ToString();
  EXPECT_EQ(got.payload, want.payload);
  EXPECT_EQ(got.sent_m, want.sent_m);
  EXPECT_EQ(got.received_m, want.received_m);
  EXPECT_EQ(got.values, want.values);
  EXPECT_EQ(got.stats.values, want.stats.values);
  EXPECT_EQ(got.stats.errors, want.stats.errors);
}

class DeviceValuesTest : public testing::TestWithParam<const char*> {
 protected:
  std::shared_ptr<FakeDevice> device_ = std::make_shared<FakeDevice>();
  std::shared_ptr<const ValueHome> there_ = ValuesOf(device_);
  std::shared_ptr<const ValueHome> host_ = HostValues();
};

TEST_P(DeviceValuesTest, CodesAsOnTheHost) {
  const HomeCodec there = there_->NewCodec(GetParam(), kShape.hidden).value();
  const HomeCodec host = host_->NewCodec(GetParam(), kShape.hidden).value();
  EXPECT_TRUE(host.on_host_because.empty());
  std::vector<std::vector<std::byte>> m;
  auto x = Samples(3, kShape.values(), 1);
  for (const DeltaMode mode :
       {DeltaMode::kDelta, DeltaMode::kDelta, DeltaMode::kWideDelta, DeltaMode::kFull}) {
    const Trip want = Send(*host_, nullptr, *host.codec, x, m, mode);
    const Trip got = Send(*there_, device_.get(), *there.codec, x, m, mode);
    ExpectSame(got, want);
    if (!want.sent_m.empty()) m = want.sent_m;
    for (Values& sample : x) {
      for (float& value : sample) value *= 1.01F;
    }
  }
}

TEST_P(DeviceValuesTest, WhatIsNotFiniteIsAnError) {
  const HomeCodec there = there_->NewCodec(GetParam(), kShape.hidden).value();
  auto x = Samples(2, kShape.values(), 1);
  x[1][7] = std::numeric_limits<float>::infinity();
  const Trip trip = Send(*there_, device_.get(), *there.codec, x, {}, DeltaMode::kDelta);
  EXPECT_EQ(trip.status.code(), StatusCode::kInvalidArgument);
}

TEST_P(DeviceValuesTest, ForeignBytesAreErrorsAsOnTheHost) {
  const HomeCodec there = there_->NewCodec(GetParam(), kShape.hidden).value();
  const HomeCodec host = host_->NewCodec(GetParam(), kShape.hidden).value();
  const std::vector<std::byte> payload(9, std::byte{0x5a});
  const auto decode = [&](const ValueHome& home, const MessageCodec& codec) {
    Buffer values = home.Allocate(kShape.values()).value();
    SampleToDecode sample;
    sample.values = values.floats();
    std::vector<Buffer> next(codec.keeps_m() ? 1 : 0);
    return codec.Decode(payload, {&sample, 1}, kShape, kKey, next).code();
  };
  EXPECT_EQ(decode(*there_, *there.codec), decode(*host_, *host.codec));
  EXPECT_NE(decode(*there_, *there.codec), StatusCode::kOk);
}

TEST_P(DeviceValuesTest, CallsAtOnceDoNotDisturbEachOther) {
  const HomeCodec there = there_->NewCodec(GetParam(), kShape.hidden).value();
  const HomeCodec host = host_->NewCodec(GetParam(), kShape.hidden).value();
  std::vector<std::thread> threads;
  std::vector<Trip> got(4);
  const auto x = [](std::size_t t) { return Samples(1 + t % 2, kShape.values(), 10 + t); };
  for (std::size_t t = 0; t < got.size(); ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 5; ++i) {
        got[t] = Send(*there_, device_.get(), *there.codec, x(t), {}, DeltaMode::kDelta);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::size_t t = 0; t < got.size(); ++t) {
    ExpectSame(got[t], Send(*host_, nullptr, *host.codec, x(t), {}, DeltaMode::kDelta));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Specs, DeviceValuesTest,
    testing::Values("raw:dtype=fp16", "direct:bits=4", "dithered:step=1", "aqsgd:bits=3",
                    "aqsgd:bits=4,m=8",
                    "aqsgd:delta=dithered:error=0.3,first_visit=dithered:error=0.05",
                    "dithered:step=0.4,klt=64,channels=on",
                    "aqsgd:delta=dithered:step=0.55/klt=64/channels=on,"
                    "first_visit=dithered:step=0.1/klt=64/channels=on",
                    "aqsgd:delta=dithered:step=0.36/channels=on/of=values,"
                    "first_visit=dithered:step=0.4/klt=64/channels=on",
                    "topk:ratio=0.2,bits=8", "lowrank:rank=4", "direct:bits=4,feedback=on"));

TEST_F(DeviceValuesTest, WhatALinkRemembersIsAsOnTheHost) {
  const HomeCodec there = there_->NewCodec("lowrank:rank=2,epilogue=false", kShape.hidden).value();
  const HomeCodec host = host_->NewCodec("lowrank:rank=2,epilogue=false", kShape.hidden).value();
  LowRankState before_there, before_host;
  for (std::uint32_t step = 0; step < 3; ++step) {
    const auto x = Samples(2, kShape.values(), step);
    Placed placed(*there_, device_.get(), x);
    const auto encode = [&](const MessageCodec& codec, std::span<const float> a,
                            std::span<const float> b, LowRankState* state) {
      const std::vector<std::span<const float>> samples = {a, b};
      std::vector<std::byte> out(codec.EncodedBytesMax(kShape, 2));
      LowRankState next;
      const GradientMessage message{samples, kShape, kKey, {4, 1, 8, step}, {}};
      EXPECT_TRUE(codec.stateful()->LowRankAt(message.position, kShape, 2));
      out.resize(codec.stateful()->EncodeOnLink(message, *state, out, &next, nullptr).value());
      *state = next;
      return out;
    };
    EXPECT_EQ(encode(*there.codec, placed.At(0), placed.At(1), &before_there),
              encode(*host.codec, x[0], x[1], &before_host));
    EXPECT_EQ(before_there, before_host);
  }
}

// ---- what is not coding ------------------------------------------------------------------------

TEST_F(DeviceValuesTest, SaysWhichCodecsWorkOnTheHostAndWhy) {
  EXPECT_EQ(there_->NewCodec("aqsgd:bits=3", 64)->on_host_because, "");
  EXPECT_NE(there_->NewCodec("lowrank:rank=4", 64)->on_host_because.find("has no form on a device"),
            std::string::npos);
  EXPECT_FALSE(there_->NewCodec("nonsense", 64).ok());
}

TEST_F(DeviceValuesTest, AllWithinIsThatOfTheHost) {
  constexpr float kMost = 0x1p90F;
  for (const float value : {0.0F, -kMost, std::nextafter(kMost, 2 * kMost), -0x1p100F,
                            std::numeric_limits<float>::infinity(),
                            std::numeric_limits<float>::quiet_NaN(), 0x1p-140F}) {
    for (const std::size_t at : {0, 8, 1000, 1004}) {
      Values x(1005, 1.0F);
      x[at] = value;
      Placed placed(*there_, device_.get(), {x});
      EXPECT_EQ(there_->AllWithin(placed.At(0), kMost).value(), host_->AllWithin(x, kMost).value())
          << value << " at " << at;
    }
  }
}

// Of whole rows and of what is left of one.
TEST_F(DeviceValuesTest, SumsOfSquaresAreThoseOfTheHost) {
  for (const std::size_t count : {1, 1023, 1024, 5000}) {
    Values x = Awkward(count, 6);
    const auto there = [&] {
      return there_->SumOfSquares(Placed(*there_, device_.get(), {x}).At(0)).value();
    };
    double want = 0;
    for (const float value : x) want += double{value} * value;
    EXPECT_NEAR(there(), want, 1e-12 * want) << count;
    EXPECT_NEAR(host_->SumOfSquares(x).value(), want, 1e-12 * want) << count;
    x[count - 1] = std::numeric_limits<float>::quiet_NaN();
    EXPECT_FALSE(std::isfinite(there())) << count;
    EXPECT_FALSE(std::isfinite(host_->SumOfSquares(x).value())) << count;
  }
  EXPECT_EQ(there_->SumOfSquares({}).value(), 0);
}

TEST_F(DeviceValuesTest, ZerosAndCopies) {
  const Values x = Awkward(5000, 3);
  Placed placed(*there_, device_.get(), {x});
  Values read(x.size());
  ASSERT_TRUE(there_->CopyToHost(placed.At(0), std::as_writable_bytes(std::span(read))).ok());
  EXPECT_EQ(read, x);
  ASSERT_TRUE(there_->Zero(placed.At(0).subspan(10, 20)).ok());
  ASSERT_TRUE(there_->CopyToHost(placed.At(0), std::as_writable_bytes(std::span(read))).ok());
  for (std::size_t i = 0; i < x.size(); ++i) EXPECT_EQ(read[i], i >= 10 && i < 30 ? 0 : x[i]);
}

TEST_F(DeviceValuesTest, VectorsBecomeThoseOfTheHost) {
  const Values a = Awkward(3001, 4), b = Awkward(3001, 5);
  for (const VectorOp op : {VectorOp::kCopy, VectorOp::kAdd, VectorOp::kSubtract, VectorOp::kScale,
                            VectorOp::kAddScaled}) {
    Values want = b;
    Placed from(*there_, device_.get(), {a}), to(*there_, device_.get(), {b});
    const auto update = [&](const ValueHome& home, std::span<const float> given,
                            std::span<float> changed) {
      if (op == VectorOp::kScale) given = {};
      return home.Update(op, given, 0.3F, changed).ok();
    };
    ASSERT_TRUE(update(*host_, a, want));
    ASSERT_TRUE(update(*there_, from.At(0), to.At(0)));
    EXPECT_EQ(to.Read(1)[0], want) << static_cast<int>(op);
  }
  Placed sent(*there_, device_.get(), {a});
  ASSERT_TRUE(there_->CopyFromHost(std::as_bytes(std::span(b)), sent.At(0)).ok());
  EXPECT_EQ(sent.Read(1)[0], b);
}

TEST_F(DeviceValuesTest, MemoryComesBackAndRunsOut) {
  const auto small = std::make_shared<FakeDevice>(1 << 20);
  const auto home = ValuesOf(small);
  {
    const Buffer block = home->Allocate(1000).value();
    EXPECT_TRUE(block.on_device());
    EXPECT_GE(small->allocated_bytes(), 4000U);
  }
  EXPECT_EQ(small->allocated_bytes(), 0U);
  EXPECT_EQ(home->Allocate(1 << 20).status().code(), StatusCode::kResourceExhausted);
  EXPECT_TRUE(home->Allocate(0).value().empty());
}

}  // namespace
}  // namespace shoal::compression
