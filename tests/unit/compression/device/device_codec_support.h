// What the tests of device codecs share: a device codec gives the bytes, values and images of the
// CPU codec, to the bit. DeviceCodecTest runs twice: on loops over the lanes on the host, and on
// the GPU where there is one.

#ifndef SHOAL_TESTS_UNIT_COMPRESSION_DEVICE_DEVICE_CODEC_SUPPORT_H_
#define SHOAL_TESTS_UNIT_COMPRESSION_DEVICE_DEVICE_CODEC_SUPPORT_H_

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "compression/device/device_codec.h"
#include "compression/device/device_queue.h"
#include "tests/unit/compression/awkward_values.h"
#include "tests/unit/compression/device/host_queue.h"

namespace shoal::compression {

enum class Where { kHost, kGpu };

inline std::unique_ptr<DeviceQueue> NewQueue(Where where) {
  if (where == Where::kHost) return std::make_unique<HostQueue>();
  auto queue = NewCudaQueue();
  return queue.ok() ? std::move(queue).value() : nullptr;
}

// Device memory of a test, freed at its end.
class Arena {
 public:
  explicit Arena(Where where) : queue_(NewQueue(where)) {}
  ~Arena() {
    for (std::byte* memory : all_) queue_->Free(memory);
  }
  std::byte* New(std::size_t bytes) { return all_.emplace_back(queue_->Allocate(bytes).value()); }
  std::byte* CopyOf(const void* from, std::size_t bytes) {
    std::byte* to = New(bytes);
    queue_->ToDevice(to, from, bytes);
    EXPECT_TRUE(queue_->Wait().ok());
    return to;
  }
  std::vector<std::byte> Fetch(const std::byte* from, std::size_t bytes) {
    std::vector<std::byte> to(bytes);
    queue_->ToHost(to.data(), from, bytes);
    EXPECT_TRUE(queue_->Wait().ok());
    return to;
  }

 private:
  std::unique_ptr<DeviceQueue> queue_;
  std::vector<std::byte*> all_;
};

using Bytes = std::vector<std::byte>;

inline Bytes BytesOf(std::span<const std::byte> bytes) { return {bytes.begin(), bytes.end()}; }
inline Bytes BytesOf(const Values& values) { return BytesOf(std::as_bytes(std::span(values))); }

// What one end made of a message.
struct Coded {
  Bytes payload;
  std::vector<Bytes> next_m;
  std::vector<Bytes> values;  // of a receiver
  CodingStats stats;          // of a sender
};

struct Message {
  std::string spec;
  SampleShape shape;
  RandomKey key;
  DeltaMode mode = DeltaMode::kDelta;
};

inline Result<Coded> HostEncode(const Message& message, const std::vector<Values>& x,
                                const std::vector<Bytes>& m) {
  SHOAL_ASSIGN_OR_RETURN(const auto codec, MakeCodec(message.spec, message.shape.hidden));
  std::vector<SampleToEncode> samples;
  for (std::size_t i = 0; i < x.size(); ++i) samples.push_back({x[i], m[i]});
  Coded coded;
  coded.payload.resize(codec->EncodedBytesMax(message.shape, x.size()));
  std::vector<Buffer> next(x.size());
  SHOAL_ASSIGN_OR_RETURN(const std::size_t bytes,
                         codec->Encode(samples, message.shape, message.key, message.mode,
                                       coded.payload, next, &coded.stats));
  coded.payload.resize(bytes);
  for (const Buffer& image : next) coded.next_m.push_back(BytesOf(image.bytes()));
  return coded;
}

inline Result<Coded> HostDecode(const Message& message, const Bytes& payload,
                                const std::vector<Bytes>& m) {
  SHOAL_ASSIGN_OR_RETURN(const auto codec, MakeCodec(message.spec, message.shape.hidden));
  std::vector<Values> values(m.size(), Values(message.shape.values()));
  std::vector<SampleToDecode> samples;
  for (std::size_t i = 0; i < m.size(); ++i) {
    const bool delta = !m[i].empty() && message.mode != DeltaMode::kFull;
    samples.push_back({values[i], delta, m[i]});
  }
  std::vector<Buffer> next(m.size());
  SHOAL_RETURN_IF_ERROR(codec->Decode(payload, samples, message.shape, message.key, next));
  Coded coded;
  for (const Buffer& image : next) coded.next_m.push_back(BytesOf(image.bytes()));
  for (const Values& v : values) coded.values.push_back(BytesOf(v));
  return coded;
}

class DeviceCodecTest : public testing::TestWithParam<Where> {
 protected:
  void SetUp() override {
    if (GetParam() == Where::kHost) return;
    const auto queue = NewCudaQueue();
    if (!queue.ok()) GTEST_SKIP() << "no GPU to compare with: " << queue.status().message();
  }

  Result<std::unique_ptr<DeviceCodec>> Make(const std::string& spec, std::uint32_t hidden) {
    return NewDeviceCodec(spec, hidden, NewQueue(GetParam()));
  }

  Result<Coded> Encode(const Message& message, const std::vector<Values>& x,
                       const std::vector<Bytes>& m, bool counted = false) {
    SHOAL_ASSIGN_OR_RETURN(const auto codec, Make(message.spec, message.shape.hidden));
    Arena arena(GetParam());
    std::vector<DeviceSampleToEncode> samples;
    std::vector<std::byte*> next;
    const std::size_t image = codec->MImageBytes(message.shape);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const auto* values =
          reinterpret_cast<const float*>(arena.CopyOf(x[i].data(), 4 * x[i].size()));
      samples.push_back({values, m[i].empty() ? nullptr : arena.CopyOf(m[i].data(), m[i].size())});
      next.push_back(arena.New(image));
    }
    Coded coded;
    coded.payload.resize(codec->EncodedBytesMax(message.shape, x.size()));
    SHOAL_ASSIGN_OR_RETURN(
        const std::size_t bytes,
        codec->Encode(samples, message.shape, message.key, message.mode, coded.payload, next,
                      counted ? &coded.stats : nullptr, nullptr));
    coded.payload.resize(bytes);
    for (const std::byte* at : next) coded.next_m.push_back(arena.Fetch(at, image));
    return coded;
  }

  Result<Coded> Decode(const Message& message, const Bytes& payload, const std::vector<Bytes>& m) {
    SHOAL_ASSIGN_OR_RETURN(const auto codec, Make(message.spec, message.shape.hidden));
    Arena arena(GetParam());
    std::vector<DeviceSampleToDecode> samples;
    std::vector<std::byte*> next;
    const std::size_t image = codec->MImageBytes(message.shape);
    for (const Bytes& base : m) {
      const bool delta = !base.empty() && message.mode != DeltaMode::kFull;
      samples.push_back({reinterpret_cast<float*>(arena.New(4 * message.shape.values())), delta,
                         delta ? arena.CopyOf(base.data(), base.size()) : nullptr});
      next.push_back(arena.New(image));
    }
    SHOAL_RETURN_IF_ERROR(
        codec->Decode(payload, samples, message.shape, message.key, next, nullptr));
    Coded coded;
    for (const std::byte* at : next) coded.next_m.push_back(arena.Fetch(at, image));
    for (const auto& sample : samples) {
      coded.values.push_back(arena.Fetch(reinterpret_cast<const std::byte*>(sample.values),
                                         4 * message.shape.values()));
    }
    return coded;
  }

  // Both codecs over these samples, to the bit. `m` becomes the next one.
  void Compare(const Message& message, const std::vector<Values>& x, std::vector<Bytes>* m) {
    SCOPED_TRACE(message.spec + " tokens " + std::to_string(message.shape.tokens) + " hidden " +
                 std::to_string(message.shape.hidden) + " mode " +
                 std::string(DeltaModeName(message.mode)));
    const auto want = HostEncode(message, x, *m);
    ASSERT_TRUE(want.ok()) << want.status().ToString();
    const auto got = Encode(message, x, *m);
    ASSERT_TRUE(got.ok()) << got.status().ToString();
    ASSERT_EQ(got->payload, want->payload);
    ASSERT_EQ(got->next_m, want->next_m);
    const auto counted = Encode(message, x, *m, true);
    ASSERT_TRUE(counted.ok()) << counted.status().ToString();
    ASSERT_EQ(counted->payload, want->payload);
    ASSERT_EQ(counted->next_m, want->next_m);
    ASSERT_EQ(counted->stats.values, want->stats.values);
    ASSERT_EQ(counted->stats.errors, want->stats.errors);
    ASSERT_EQ(counted->stats.changes, want->stats.changes);
    const auto want_values = HostDecode(message, want->payload, *m);
    ASSERT_TRUE(want_values.ok()) << want_values.status().ToString();
    const auto got_values = Decode(message, want->payload, *m);
    ASSERT_TRUE(got_values.ok()) << got_values.status().ToString();
    ASSERT_EQ(got_values->values, want_values->values);
    ASSERT_EQ(got_values->next_m, want_values->next_m);
    if (!want->next_m.front().empty()) *m = want->next_m;
  }

  // Payloads of `samples` samples that are cut off or have a byte changed: both codecs refuse, or
  // both give the same.
  void CompareForeign(const Message& message, std::size_t samples, int rounds) {
    const auto x = Samples(samples, message.shape.values(), 3);
    std::vector<Bytes> m(samples);
    Coded coded = HostEncode(message, x, m).value();
    if (!coded.next_m[0].empty()) {
      m = coded.next_m;
      coded = HostEncode(message, x, m).value();
    }
    std::mt19937_64 random(9);
    for (int round = 0; round < rounds; ++round) {
      Bytes payload = coded.payload;
      if (round % 4 == 0) {
        payload.resize(random() % payload.size());
      } else {
        const std::size_t at = round % 2 == 0 ? random() % 64 : random() % payload.size();
        payload[at % payload.size()] ^= static_cast<std::byte>(1 + random() % 255);
      }
      const auto want = HostDecode(message, payload, m);
      const auto got = Decode(message, payload, m);
      ASSERT_EQ(got.status().code(), want.status().code()) << message.spec << " round " << round;
      if (!want.ok()) continue;
      ASSERT_EQ(got->values, want->values);
      ASSERT_EQ(got->next_m, want->next_m);
    }
  }
};

}  // namespace shoal::compression

#endif  // SHOAL_TESTS_UNIT_COMPRESSION_DEVICE_DEVICE_CODEC_SUPPORT_H_
