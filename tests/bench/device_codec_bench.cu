// Speed of codecs on a CUDA device: ./x bench device_codec
//
// of_copy is the rate at which a pass reads and writes device memory, over that of a copy on the
// device in the same run. 1 is as fast as the memory allows. Where there are several passes,
// together they count the bytes that one fused pass would read and write. call_of_copy takes the
// whole Encode with the packed bytes' way to page-locked memory of the host, counting the same
// bytes. For dithered it includes the CPU's entropy coding. stats_of_copy is such a call with
// CodingStats. Values are 16 samples of GPT2-XL's shape, more than the caches hold; the best of
// several rounds counts.

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "compression/api/message_noise.h"
#include "compression/codecs/tiles_codec.h"
#include "compression/codecs/topk_codec.h"
#include "compression/device/device_codec.h"
#include "compression/device/device_queue.h"
#include "tests/bench/bench_command.h"

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
  DeviceSample* device_changes = DeviceArray<DeviceSample>(kSamples);  // x: the others' values
  std::uint32_t* columns = nullptr;
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
    columns = DeviceArray<std::uint32_t>(kSamples * shape.hidden);
    MakeImages(queue, 16);
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
    const std::size_t bytes = kSamples * sizeof(DeviceSample);
    Check(cudaMemcpy(device_samples, samples.data(), bytes, cudaMemcpyHostToDevice));
    std::vector<DeviceSample> changes = samples;
    for (DeviceSample& change : changes) change.x = change.values;
    Check(cudaMemcpy(device_changes, changes.data(), bytes, cudaMemcpyHostToDevice));
  }
  ImageJob ImageJobFor(ImagePass pass, int bits) const {
    ImageJob job;
    job.pass = pass;
    job.bits = static_cast<std::uint8_t>(bits);
    job.hidden = shape.hidden;
    job.values = static_cast<std::uint32_t>(shape.values());
    job.count = kSamples;
    job.samples = device_samples;
    job.columns = columns;
    job.extremes = extremes;
    return job;
  }
  // m of all samples becomes an image of x.
  void MakeImages(DeviceQueue* queue, int bits) {
    const std::vector<DeviceSample> kept = samples;
    for (DeviceSample& sample : samples) {
      sample.next_m = const_cast<std::byte*>(sample.m);
      sample.values = const_cast<float*>(sample.x);
      sample.m = nullptr;
    }
    Send();
    if (bits == 16) {
      queue->Run(ImageJobFor(ImagePass::kStore, bits));
    } else {
      Check(cudaMemset(columns, 0, kSamples * shape.hidden * sizeof(std::uint32_t)));
      queue->Run(ImageJobFor(ImagePass::kMeasure, bits));
      queue->Run(ImageJobFor(ImagePass::kCode, bits));
    }
    Check(cudaDeviceSynchronize());
    samples = kept;
    Send();
  }

  static constexpr std::size_t kMImage = 16;
};

struct Row {
  std::string codec;
  double encode_of_copy = 0, decode_of_copy = 0, encode_call_of_copy = 0, stats_call_of_copy = 0;
};

// Bytes that one pass reads and writes: values, packed codes, m (of so many bits; 0: none) twice.
double Traffic(const BucketJob& job, int m_bits) {
  const double n = static_cast<double>(job.values) * kSamples;
  const double packed = n * job.rule.bits() / 8 + n / job.bucket * job.rule.scale_bytes();
  return packed + n * (4 + 2 * m_bits / 8.0);
}

BucketJob JobOfBuckets(const Fixture& fixture, int bits, std::uint32_t bucket, bool delta) {
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
  return job;
}

void MeasureCalls(const Fixture& fixture, double traffic, bool delta, Row* row) {
  auto codec = MakeDeviceCodec(row->codec, fixture.shape.hidden).value();
  std::vector<DeviceSampleToEncode> samples;
  std::vector<std::byte*> next;
  for (const DeviceSample& s : fixture.samples) {
    samples.push_back({s.x, delta ? s.m : nullptr});
    next.push_back(s.next_m);
  }
  const std::span<std::byte> out(fixture.host, codec->EncodedBytesMax(fixture.shape, kSamples));
  const auto seconds = [&](CodingStats* stats) {
    return Seconds([&] {
      const auto bytes =
          codec->Encode(samples, fixture.shape, {}, DeltaMode::kDelta, out, next, stats, nullptr);
      if (!bytes.ok()) std::fprintf(stderr, "%s\n", bytes.status().message().c_str());
    });
  };
  CodingStats stats;
  row->encode_call_of_copy = traffic / seconds(nullptr) / fixture.copy_rate;
  row->stats_call_of_copy = traffic / seconds(&stats) / fixture.copy_rate;
}

Row Measure(const Fixture& fixture, DeviceQueue* queue, int bits, std::uint32_t bucket,
            bool delta) {
  BucketJob job = JobOfBuckets(fixture, bits, bucket, delta);
  const double traffic = Traffic(job, delta ? 16 : 0);
  Row row;
  row.codec = std::string(delta ? "aqsgd" : "direct") + ":bits=" + std::to_string(bits) +
              ",bucket=" + std::to_string(bucket);
  const double encode = Seconds([&] { queue->Run(job); });
  job.pass = CodingPass::kDecode;
  const double decode = Seconds([&] { queue->Run(job); });
  row.encode_of_copy = traffic / encode / fixture.copy_rate;
  row.decode_of_copy = traffic / decode / fixture.copy_rate;
  MeasureCalls(fixture, traffic, delta, &row);
  return row;
}

// aqsgd with m in codes: a pass for x - m, the section, and two for the next m.
Row MeasureCodedImages(Fixture* fixture, DeviceQueue* queue, int bits, std::uint32_t bucket,
                       int m_bits) {
  fixture->MakeImages(queue, m_bits);
  BucketJob encode = JobOfBuckets(*fixture, bits, bucket, false);
  encode.samples = fixture->device_changes;
  BucketJob decode = encode;
  decode.pass = CodingPass::kDecode;
  const double traffic = Traffic(encode, m_bits);
  const auto advance = [&] {
    queue->Run(decode);
    queue->Zero(reinterpret_cast<std::byte*>(fixture->columns),
                kSamples * fixture->shape.hidden * sizeof(std::uint32_t));
    queue->Run(fixture->ImageJobFor(ImagePass::kMeasure, m_bits));
    queue->Run(fixture->ImageJobFor(ImagePass::kCode, m_bits));
  };
  Row row;
  row.codec = "aqsgd:bits=" + std::to_string(bits) + ",bucket=" + std::to_string(bucket) +
              ",m=" + std::to_string(m_bits);
  const double encoding = Seconds([&] {
    queue->Run(fixture->ImageJobFor(ImagePass::kSubtract, m_bits));
    queue->Run(encode);
    advance();
  });
  row.encode_of_copy = traffic / encoding / fixture->copy_rate;
  row.decode_of_copy = traffic / Seconds(advance) / fixture->copy_rate;
  MeasureCalls(*fixture, traffic, true, &row);
  return row;
}

// Energies and cells, and values from cells; the call has the entropy coder on the CPU in it.
Row MeasureDithered(const Fixture& fixture, DeviceQueue* queue, const char* spec, float step) {
  const std::size_t tokens = std::size_t{kSamples} * fixture.shape.tokens;
  EnergyJob energies;
  energies.hidden = fixture.shape.hidden;
  energies.tokens = fixture.shape.tokens;
  energies.count = kSamples;
  energies.samples = fixture.device_samples;
  energies.energies = reinterpret_cast<double*>(fixture.scales);
  DitherJob job;
  job.step = step;
  job.inverse_step = 1 / step;
  job.hidden = energies.hidden;
  job.tokens = energies.tokens;
  job.count = kSamples;
  job.samples = fixture.device_samples;
  job.kinds = reinterpret_cast<const DitherKind*>(fixture.scales + tokens * sizeof(double));
  job.cells = reinterpret_cast<std::uint8_t*>(fixture.codes);
  Check(cudaMemset(fixture.scales + tokens * sizeof(double), static_cast<int>(DitherKind::kNarrow),
                   tokens));
  const double traffic = 5.0 * kSamples * static_cast<double>(fixture.shape.values());
  Row row;
  row.codec = spec;
  const double encode = Seconds([&] {
    queue->Run(energies);
    queue->Run(job);
  });
  job.pass = CodingPass::kDecode;
  const double decode = Seconds([&] { queue->Run(job); });
  row.encode_of_copy = traffic / encode / fixture.copy_rate;
  row.decode_of_copy = traffic / decode / fixture.copy_rate;
  MeasureCalls(fixture, traffic, false, &row);
  return row;
}

// Extremes of the channels and codes, and values from codes. Constants are any: speed does not
// depend on them.
Row MeasureChannels(const Fixture& fixture, DeviceQueue* queue, int bits) {
  const std::size_t hidden = fixture.shape.hidden;
  ChannelRangeJob ranges;
  ranges.hidden = fixture.shape.hidden;
  ranges.tokens = fixture.shape.tokens;
  ranges.count = kSamples;
  ranges.samples = fixture.device_samples;
  ranges.ranges = reinterpret_cast<ChannelRange*>(fixture.scales);
  std::byte* const constants = fixture.scales + hidden * sizeof(ChannelRange);
  Check(cudaMemset(fixture.scales, 0, hidden * (sizeof(ChannelRange) + 2 * sizeof(float))));
  ChannelJob job;
  job.rule = LevelRule(bits, Levels::kMidRise, ScaleRule::kAbsMax, Rounding::kNearest);
  job.hidden = fixture.shape.hidden;
  job.values = static_cast<std::uint32_t>(fixture.shape.values());
  job.count = kSamples;
  job.samples = fixture.device_samples;
  job.first = reinterpret_cast<const float*>(constants);
  job.second = job.first + hidden;
  job.codes = fixture.codes;
  job.extremes = fixture.extremes;
  const double traffic = kSamples * static_cast<double>(job.values) * (4 + bits / 8.0);
  Row row;
  row.codec = "direct:bits=" + std::to_string(bits) + ",bucket=channel";
  const double encode = Seconds([&] {
    queue->Run(ranges);
    queue->Run(job);
  });
  job.pass = CodingPass::kDecode;
  const double decode = Seconds([&] { queue->Run(job); });
  row.encode_of_copy = traffic / encode / fixture.copy_rate;
  row.decode_of_copy = traffic / decode / fixture.copy_rate;
  MeasureCalls(fixture, traffic, false, &row);
  return row;
}

// One pass over tiles; m does not take part.
Row MeasureTiles(const Fixture& fixture, DeviceQueue* queue, int bits, std::uint32_t tile) {
  TileJob job;
  static_cast<BucketJob&>(job) = JobOfBuckets(fixture, bits, tile, false);
  job.rule = LevelRule(bits, Levels::kAffine, ScaleRule::kAbsMax, Rounding::kNearest)
                 .WithLeastScale(kTileScaleBitsMin);
  job.factor = TileFactor(tile);
  const double traffic = Traffic(job, 0);
  Row row;
  row.codec = "tiles:bits=" + std::to_string(bits) + ",tile=" + std::to_string(tile);
  const double encode = Seconds([&] { queue->Run(job); });
  job.pass = CodingPass::kDecode;
  job.factor = TileBackFactor(tile);
  const double decode = Seconds([&] { queue->Run(job); });
  row.encode_of_copy = traffic / encode / fixture.copy_rate;
  row.decode_of_copy = traffic / decode / fixture.copy_rate;
  MeasureCalls(fixture, traffic, false, &row);
  return row;
}

// All passes of selecting and coding, counting one pass over the values, the bitmap and the codes.
Row MeasureTopK(const Fixture& fixture, DeviceQueue* queue, double ratio, int bits) {
  const auto values = static_cast<std::uint32_t>(fixture.shape.values());
  const auto kept = static_cast<std::uint32_t>(KeptOf(ratio, values));
  const std::size_t runs = kSamples * RunsOf(values);
  const std::size_t counters = kSamples * kDigitCounters;
  SelectJob select;
  select.values = values;
  select.kept = kept;
  select.count = kSamples;
  select.samples = fixture.device_samples;
  select.extremes = fixture.extremes;
  select.counters = DeviceArray<std::uint32_t>(counters);
  select.least = DeviceArray<LeastKept>(kSamples);
  select.before = DeviceArray<std::uint64_t>(runs);
  select.kept_values = DeviceArray<float>(std::size_t{kSamples} * kept);
  select.bitmap = DeviceArray<std::byte>(runs * kRunBytes);
  select.ranks = DeviceArray<std::uint32_t>(runs);
  KeptJob code;
  code.bits = bits;
  code.bucket = 128;
  code.values = values;
  code.kept = kept;
  code.count = kSamples;
  code.samples = fixture.device_samples;
  code.extremes = fixture.extremes;
  code.kept_values = select.kept_values;
  code.bitmap = select.bitmap;
  code.ranks = select.ranks;
  code.scales = fixture.scales;
  code.codes = fixture.codes;
  const double traffic = kSamples * (4.125 * values + kept * (bits / 8.0 + 2.0 / code.bucket));
  char spec[64];
  std::snprintf(spec, sizeof(spec), "topk:ratio=%g,bits=%d", ratio, bits);
  Row row;
  row.codec = spec;
  const double encode = Seconds([&] {
    queue->Zero(reinterpret_cast<std::byte*>(select.counters), counters * sizeof(std::uint32_t));
    queue->Run(select);
    queue->Run(code);
  });
  code.pass = CodingPass::kDecode;
  const double decode = Seconds([&] { queue->Run(code); });
  row.encode_of_copy = traffic / encode / fixture.copy_rate;
  row.decode_of_copy = traffic / decode / fixture.copy_rate;
  MeasureCalls(fixture, traffic, false, &row);
  for (void* memory : {static_cast<void*>(select.counters), static_cast<void*>(select.least),
                       static_cast<void*>(select.before), static_cast<void*>(select.kept_values),
                       static_cast<void*>(select.bitmap), static_cast<void*>(select.ranks)}) {
    Check(cudaFree(memory));
  }
  return row;
}

void Print(const std::vector<Row>& rows, double copy_rate, bool json) {
  cudaDeviceProp device;
  Check(cudaGetDeviceProperties(&device, 0));
  if (json) {
    std::printf("{\"schemaVersion\":1,\"device\":\"%s\",\"copyBytesPerSecond\":%.4g,\"rows\":[",
                device.name, copy_rate);
  } else {
    std::printf("%s, copy on the device: %.0f GB/s read and written\n%-28s %8s %8s %8s %8s\n",
                device.name, copy_rate / 1e9, "of copy:", "encode", "decode", "call", "stats");
  }
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Row& r = rows[i];
    const char* form = json ? "%s{\"codec\":\"%s\",\"encodeOfCopy\":%.4f,\"decodeOfCopy\":%.4f,"
                              "\"encodeCallOfCopy\":%.4f,\"statsCallOfCopy\":%.4f}"
                            : "%s%-28s %8.2f %8.2f %8.2f %8.2f\n";
    std::printf(form, json && i > 0 ? "," : "", r.codec.c_str(), r.encode_of_copy, r.decode_of_copy,
                r.encode_call_of_copy, r.stats_call_of_copy);
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
    Fixture fixture({kTokens, 1600}, queue->get());
    copy_rate = fixture.copy_rate;
    for (const bool delta : {false, true}) {
      for (int bits = 1; bits <= 8; ++bits) {
        rows.push_back(Measure(fixture, queue->get(), bits, 100, delta));
        rows.push_back(Measure(fixture, queue->get(), bits, 160, delta));
      }
    }
    for (const int bits : {2, 3, 4, 8}) {
      rows.push_back(MeasureChannels(fixture, queue->get(), bits));
    }
    rows.push_back(MeasureDithered(fixture, queue->get(), "dithered:step=1", 1));
    rows.push_back(MeasureDithered(fixture, queue->get(), "dithered:rate=2", 0.7F));
    for (const int m_bits : {8, 4, 2}) {
      for (const int bits : {2, 4}) {
        rows.push_back(MeasureCodedImages(&fixture, queue->get(), bits, 160, m_bits));
      }
    }
    for (const int bits : {2, 3, 4, 6, 8}) {
      rows.push_back(MeasureTiles(fixture, queue->get(), bits, 64));
    }
    for (const double ratio : {0.01, 0.2}) {
      rows.push_back(MeasureTopK(fixture, queue->get(), ratio, 8));
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
  shoal::bench_command::Command command(
      {.name = "device_codec",
       .measures = "Speed of codecs on a CUDA device: the rate at which a pass reads and writes "
                   "device memory, over that of a copy on the device; and of whole calls, with the "
                   "way to the host's memory.",
       .needs = "an NVIDIA GPU with 2 GB free, and nvcc for its build.",
       .takes = "about a minute.",
       .bounds = "all codecs ran; it has no bounds"});
  command.Parse(argc, argv);
  return shoal::compression::Main(command.json());
}
