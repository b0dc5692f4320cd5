// Speed of codecs on a CUDA device: build/PRESET/bench/device_codec_bench [--json]
//
// of_copy is the rate at which a pass reads and writes device memory, over that of a copy on the
// device, in one run: 1 is as fast as the memory allows. call_of_copy takes the whole call with the
// packed bytes' way to page-locked memory of the host, counting the same bytes. Values are 16
// samples of GPT2-XL's shape, more than the caches hold; the best of several rounds counts.

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "compression/device_queue.h"
#include "compression/message_noise.h"

namespace shoal::compression {
namespace {

constexpr std::uint32_t kTokens = 1024;
constexpr std::uint32_t kSamples = 16;
constexpr int kRounds = 7;

void Check(cudaError_t error) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "device_codec_bench: %s\n", cudaGetErrorString(error));
  std::exit(1);
}

// The shortest of several rounds, by the device's clock, in seconds.
template <typename Work>
double Seconds(const Work& work) {
  cudaEvent_t start, end;
  Check(cudaEventCreate(&start));
  Check(cudaEventCreate(&end));
  float best = 0;
  work();
  for (int round = 0; round < kRounds; ++round) {
    Check(cudaEventRecord(start));
    work();
    Check(cudaEventRecord(end));
    Check(cudaEventSynchronize(end));
    float took = 0;
    Check(cudaEventElapsedTime(&took, start, end));
    if (round == 0 || took < best) best = took;
  }
  Check(cudaEventDestroy(start));
  Check(cudaEventDestroy(end));
  return best / 1e3;
}

template <typename T>
T* DeviceArray(std::size_t count) {
  void* memory = nullptr;
  Check(cudaMalloc(&memory, count * sizeof(T)));
  return static_cast<T*>(memory);
}

// Samples, images and sections in device memory, for buckets of every width.
struct Fixture {
  SampleShape shape;
  std::vector<DeviceSample> samples{kSamples};
  DeviceSample* device_samples = DeviceArray<DeviceSample>(kSamples);
  Extremes* extremes = DeviceArray<Extremes>(kSamples);
  std::byte* scales = nullptr;
  std::byte* codes = nullptr;
  std::byte* host = nullptr;  // page-locked
  double copy_rate = 0;       // bytes read and written per second

  explicit Fixture(SampleShape of, DeviceQueue* queue) : shape(of) {
    const std::size_t n = shape.values();
    std::vector<float> values(n);
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    for (float& v : values) v = normal(random);
    for (std::uint32_t i = 0; i < kSamples; ++i) {
      auto* x = DeviceArray<float>(n);
      Check(cudaMemcpy(x, values.data(), n * sizeof(float), cudaMemcpyHostToDevice));
      std::byte* m = DeviceArray<std::byte>(kMImage + 2 * n);
      samples[i] = {x, x, m, m, i, 0};
    }
    Send();
    ImageJob job;
    job.values = static_cast<std::uint32_t>(n);
    job.count = kSamples;
    job.samples = device_samples;
    job.extremes = extremes;
    queue->Run(job);
    Check(cudaDeviceSynchronize());
    for (DeviceSample& sample : samples) {
      sample.values = DeviceArray<float>(n);
      sample.next_m = DeviceArray<std::byte>(kMImage + 2 * n);
    }
    Send();
    scales = DeviceArray<std::byte>(kSamples * n * 2);
    codes = DeviceArray<std::byte>(kSamples * n);
    Check(cudaMallocHost(reinterpret_cast<void**>(&host), kSamples * n * 4 + 4096));
    copy_rate = 8.0 * kSamples * n / Seconds([&] {
                  for (const DeviceSample& s : samples) {
                    Check(cudaMemcpyAsync(s.values, s.x, n * 4, cudaMemcpyDeviceToDevice));
                  }
                });
  }
  void Send() {
    Check(cudaMemcpy(device_samples, samples.data(), kSamples * sizeof(DeviceSample),
                     cudaMemcpyHostToDevice));
  }

  static constexpr std::size_t kMImage = 16;
};

struct Row {
  std::string codec;
  double encode_of_copy = 0, decode_of_copy = 0, encode_call_of_copy = 0;
};

// Bytes that a pass reads and writes.
double Traffic(const BucketJob& job, bool encode) {
  const double n = static_cast<double>(job.values) * kSamples;
  const double packed = n * job.rule.bits() / 8 + n / job.bucket * job.rule.scale_bytes();
  if (encode) return packed + n * (job.delta ? 4 + 2 + 2 : 4);
  return packed + n * (job.delta ? 2 + 2 + 4 : 4);
}

Row Measure(const Fixture& fixture, DeviceQueue* queue, int bits, std::uint32_t bucket,
            bool delta) {
  BucketJob job;
  job.rule = LevelRule(bits, Levels::kMidRise, ScaleRule::kAbsMax, Rounding::kNearest);
  job.delta = delta;
  job.bucket = bucket;
  job.values = static_cast<std::uint32_t>(fixture.shape.values());
  job.buckets = job.values / bucket;
  job.count = kSamples;
  job.samples = fixture.device_samples;
  job.scales = fixture.scales;
  job.codes = fixture.codes;
  job.extremes = fixture.extremes;
  Row row;
  row.codec = std::string(delta ? "aqsgd" : "direct") + ":bits=" + std::to_string(bits) +
              ",bucket=" + std::to_string(bucket);
  const double encode = Seconds([&] { queue->Run(job); });
  job.pass = CodingPass::kDecode;
  const double decode = Seconds([&] { queue->Run(job); });
  row.encode_of_copy = Traffic(job, true) / encode / fixture.copy_rate;
  row.decode_of_copy = Traffic(job, false) / decode / fixture.copy_rate;

  auto codec = MakeDeviceCodec(row.codec, fixture.shape.hidden).value();
  std::vector<DeviceSampleToEncode> samples;
  std::vector<std::byte*> next;
  for (const DeviceSample& s : fixture.samples) {
    samples.push_back({s.x, delta ? s.m : nullptr});
    next.push_back(s.next_m);
  }
  const std::span<std::byte> out(fixture.host, codec->EncodedBytesMax(fixture.shape, kSamples));
  const double call = Seconds([&] {
    const auto bytes =
        codec->Encode(samples, fixture.shape, {}, DeltaMode::kDelta, out, next, nullptr, nullptr);
    if (!bytes.ok()) std::fprintf(stderr, "%s\n", bytes.status().message().c_str());
  });
  row.encode_call_of_copy = Traffic(job, true) / call / fixture.copy_rate;
  return row;
}

void Print(const std::vector<Row>& rows, double copy_rate, bool json) {
  cudaDeviceProp device;
  Check(cudaGetDeviceProperties(&device, 0));
  if (json) {
    std::printf("{\"schemaVersion\":1,\"device\":\"%s\",\"copyBytesPerSecond\":%.4g,\"rows\":[",
                device.name, copy_rate);
  } else {
    std::printf("%s, copy on the device: %.0f GB/s read and written\n%-24s %8s %8s %8s\n",
                device.name, copy_rate / 1e9, "of copy:", "encode", "decode", "call");
  }
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Row& r = rows[i];
    const char* form = json ? "%s{\"codec\":\"%s\",\"encodeOfCopy\":%.4f,\"decodeOfCopy\":%.4f,"
                              "\"encodeCallOfCopy\":%.4f}"
                            : "%s%-24s %8.2f %8.2f %8.2f\n";
    std::printf(form, json && i > 0 ? "," : "", r.codec.c_str(), r.encode_of_copy, r.decode_of_copy,
                r.encode_call_of_copy);
  }
  if (json) std::printf("]}\n");
}

int Main(bool json) {
  auto queue = NewCudaQueue();
  if (!queue.ok()) {
    std::fprintf(stderr, "%s\n", queue.status().message().c_str());
    return 1;
  }
  std::vector<Row> rows;
  double copy_rate = 0;
  {
    const Fixture fixture({kTokens, 1600}, queue->get());
    copy_rate = fixture.copy_rate;
    for (const bool delta : {false, true}) {
      for (int bits = 1; bits <= 8; ++bits) {
        rows.push_back(Measure(fixture, queue->get(), bits, 100, delta));
        rows.push_back(Measure(fixture, queue->get(), bits, 160, delta));
      }
    }
  }
  const Fixture fixture({kTokens, 4096}, queue->get());
  for (const bool delta : {false, true}) {
    for (const std::uint32_t bucket : {32, 64, 128, 256, 512, 1024, 2048, 4096}) {
      rows.push_back(Measure(fixture, queue->get(), 4, bucket, delta));
    }
  }
  Print(rows, copy_rate, json);
  return 0;
}

}  // namespace
}  // namespace shoal::compression

int main(int argc, char** argv) {
  const bool json = argc == 2 && std::strcmp(argv[1], "--json") == 0;
  if (argc > 1 && !json) {
    std::fprintf(stderr, "usage: device_codec_bench [--json]\n");
    return 1;
  }
  return shoal::compression::Main(json);
}
