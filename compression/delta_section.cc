#include "compression/delta_section.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "compression/half.h"
#include "compression/kernels.h"

namespace shoal::compression {
namespace {

constexpr std::size_t kStatsShare = 8;
const MFormat kHalves{16};

double SumOfSquares(const float* x, const float* minus, std::size_t n) {
  double sums[8] = {};
  for (std::size_t i = 0; i + 8 <= n; i += 8) {
    for (std::size_t j = 0; j < 8; ++j) {
      const double v = minus == nullptr ? double{x[i + j]} : double{x[i + j]} - minus[i + j];
      sums[j] += v * v;
    }
  }
  for (std::size_t i = n / 8 * 8; i < n; ++i) {
    const double v = minus == nullptr ? double{x[i]} : double{x[i]} - minus[i];
    sums[0] += v * v;
  }
  double sum = 0;
  for (const double s : sums) sum += s;
  return sum;
}

bool Counted(std::size_t sample, std::size_t block) { return (sample + block) % kStatsShare == 0; }

// Adds one block of decoded changes to m and stores it at `exponent` in `halves`; returns the
// largest magnitude bits. The one place that makes a 16-bit next m in one pass, for both ends.
std::uint32_t AdvanceBlock(std::span<const std::byte> m, std::size_t first, std::size_t count,
                           int exponent, const float* delta, std::byte* halves) {
  return AddToHalf(delta, MFormat::Halves(m) + 2 * first, PowerOfTwo(MFormat::Exponent(m)),
                   PowerOfTwo(-exponent), count, halves + 2 * first);
}

// Writes the next image of a sample, stored at `exponent`, and, if `values` is not empty, what it
// stands for. Returns the exponent that it needs: if that is another, the result is void.
Result<int> RebuildOnce(BucketReader* reader, std::size_t sample, std::span<const std::byte> m,
                        std::size_t block, const DeltaContext& context, int exponent,
                        std::span<float> values, std::byte* image) {
  const std::size_t n = context.shape.values();
  std::vector<float> delta(block);
  std::uint32_t most = 0;
  std::byte* halves = image + kMImageHeaderBytes;
  for (std::size_t first = 0; first < n; first += block) {
    const std::size_t count = std::min(block, n - first);
    reader->Levels(sample, first, count, delta.data());
    most = std::max(most, AdvanceBlock(m, first, count, exponent, delta.data(), halves));
    if (values.empty()) continue;
    FromHalf(halves + 2 * first, PowerOfTwo(exponent), count, values.data() + first);
  }
  return ExponentFor(most, context.spec);
}

// Exponent 0 nearly always fits; otherwise the image is made again with the one it needs.
Result<Buffer> Rebuild(BucketReader* reader, std::size_t sample, std::span<const std::byte> m,
                       std::size_t block, const DeltaContext& context, std::span<float> values) {
  Buffer image(kHalves.Bytes(context.shape));
  int exponent = 0;
  for (int tries = 0; tries < 2; ++tries) {
    SHOAL_ASSIGN_OR_RETURN(const int needed, RebuildOnce(reader, sample, m, block, context,
                                                         exponent, values, image.data()));
    if (needed == exponent) break;
    SHOAL_CHECK(tries == 0);
    exponent = needed;
  }
  kHalves.WriteHeader(exponent, context.shape, image.data());
  return image;
}

// One sample of a one-pass section. Leaves `*image` at exponent 0 and returns the one it needs.
Result<int> EncodeSample(BucketWriter* writer, std::size_t index, const SampleToEncode& sample,
                         std::size_t block, const DeltaContext& context, std::span<float> scratch,
                         Buffer* image, CodingStats* stats) {
  const std::size_t n = context.shape.values();
  const float base = PowerOfTwo(MFormat::Exponent(sample.m));
  float* delta = scratch.data();
  std::byte* halves = image->data() + kMImageHeaderBytes;
  std::uint32_t most = 0;
  for (std::size_t first = 0; first < n; first += block) {
    const std::size_t count = std::min(block, n - first);
    const float* x = sample.values.data() + first;
    const std::uint32_t largest =
        SubtractHalf(x, MFormat::Halves(sample.m) + 2 * first, base, count, delta);
    SHOAL_RETURN_IF_ERROR(CheckMagnitude(largest, kMagnitudeMax, context.spec));
    const bool counted = stats != nullptr && Counted(index, first / block);
    if (counted) {
      stats->based += SumOfSquares(x, nullptr, count);
      stats->deltas += SumOfSquares(delta, nullptr, count);
    }
    SHOAL_RETURN_IF_ERROR(writer->Block(index, first, count, delta, kDeltaMax));
    writer->Levels(delta);
    most = std::max(most, AdvanceBlock(sample.m, first, count, 0, delta, halves));
    if (counted) {
      FromHalf(halves + 2 * first, 1.0F, count, delta);
      CountBlock(0, 0, {x, count}, delta, nullptr, stats);
    }
  }
  return ExponentFor(most, context.spec);
}

}  // namespace

void CountBlock(std::size_t sample, std::size_t block, std::span<const float> x,
                const float* decoded, const float* delta, CodingStats* stats) {
  if (!Counted(sample, block)) return;
  const double values = SumOfSquares(x.data(), nullptr, x.size());
  stats->values += values;
  stats->errors += SumOfSquares(x.data(), decoded, x.size());
  if (delta == nullptr) return;
  stats->based += values;
  stats->deltas += SumOfSquares(delta, nullptr, x.size());
}

void CountSample(std::size_t sample, std::span<const float> x, const float* decoded,
                 const float* delta, CodingStats* stats) {
  for (std::size_t first = 0; first < x.size(); first += kStatsBlock) {
    CountBlock(sample, first / kStatsBlock,
               x.subspan(first, std::min(kStatsBlock, x.size() - first)), decoded + first,
               delta == nullptr ? nullptr : delta + first, stats);
  }
}

Result<std::size_t> EncodeDeltasOnePass(const BucketFormat& format,
                                        std::span<const SampleToEncode> samples,
                                        const DeltaContext& context, std::span<std::byte> out,
                                        std::span<Buffer> next_m, CodingStats* stats) {
  SHOAL_RETURN_IF_ERROR(CheckBucketFits(format.code.bucket(), context.shape, context.spec));
  const std::size_t block = format.code.BlockValues(context.shape.values());
  BucketWriter writer(format, context.shape, samples.size(), context.key, out);
  std::vector<float> scratch(block);
  std::vector<int> exponents(samples.size());
  for (std::size_t i = 0; i < samples.size(); ++i) {
    SHOAL_RETURN_IF_ERROR(kHalves.CheckAll(samples[i].m, context.shape, context.spec));
    next_m[i] = Buffer(kHalves.Bytes(context.shape));
    SHOAL_ASSIGN_OR_RETURN(exponents[i], EncodeSample(&writer, i, samples[i], block, context,
                                                      scratch, &next_m[i], stats));
    kHalves.WriteHeader(0, context.shape, next_m[i].data());
  }
  const std::size_t bytes = writer.Finish();
  BucketReader reader(format, context.shape, samples.size());
  bool open = false;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    if (exponents[i] == 0) continue;
    if (!open) SHOAL_RETURN_IF_ERROR(reader.Open(out.first(bytes)));
    open = true;
    SHOAL_ASSIGN_OR_RETURN(next_m[i],
                           Rebuild(&reader, i, samples[i].m, block, context, std::span<float>()));
  }
  return bytes;
}

Status DecodeDeltasOnePass(const BucketFormat& format, std::span<const std::byte> section,
                           std::span<const SampleToDecode> samples, const DeltaContext& context,
                           std::span<Buffer> next_m) {
  SHOAL_RETURN_IF_ERROR(CheckBucketFits(format.code.bucket(), context.shape, context.spec));
  const std::size_t block = format.code.BlockValues(context.shape.values());
  BucketReader reader(format, context.shape, samples.size());
  SHOAL_RETURN_IF_ERROR(reader.Open(section));
  for (std::size_t i = 0; i < samples.size(); ++i) {
    if (samples[i].values.empty()) continue;
    SHOAL_RETURN_IF_ERROR(kHalves.CheckAll(samples[i].m, context.shape, context.spec));
    SHOAL_ASSIGN_OR_RETURN(next_m[i],
                           Rebuild(&reader, i, samples[i].m, block, context, samples[i].values));
  }
  return Status::Ok();
}

Result<std::size_t> EncodeDeltas(const PlainCodec& codec, const MFormat& m,
                                 std::span<const SampleToEncode> samples,
                                 const DeltaContext& context, std::span<std::byte> out,
                                 std::span<Buffer> next_m, CodingStats* stats) {
  const std::size_t n = context.shape.values();
  std::vector<float> bases(samples.size() * n);
  std::vector<float> deltas(samples.size() * n);
  std::vector<std::span<const float>> sources;
  std::vector<std::span<float>> decoded;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const std::span<const float> x = samples[i].values;
    SHOAL_RETURN_IF_ERROR(m.CheckAll(samples[i].m, context.shape, context.spec));
    SHOAL_RETURN_IF_ERROR(CheckMagnitude(AbsMaxBits(x.data(), n), kMagnitudeMax, context.spec));
    const std::span<float> base = std::span(bases).subspan(i * n, n);
    const std::span<float> delta = std::span(deltas).subspan(i * n, n);
    m.Read(samples[i].m, context.shape, base);
    for (std::size_t j = 0; j < n; ++j) delta[j] = x[j] - base[j];
    sources.push_back(delta);
    decoded.push_back(delta);
  }
  if (stats != nullptr) {
    for (std::size_t i = 0; i < samples.size(); ++i) {
      CodingStats one;
      CountSample(i, samples[i].values, samples[i].values.data(), sources[i].data(), &one);
      stats->based += one.based;
      stats->deltas += one.deltas;
    }
  }
  SHOAL_ASSIGN_OR_RETURN(const std::size_t bytes,
                         codec.Encode(sources, context.shape, context.key, out, decoded));
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const std::span<float> sum = std::span(bases).subspan(i * n, n);
    for (std::size_t j = 0; j < n; ++j) sum[j] += decoded[i][j];
    SHOAL_ASSIGN_OR_RETURN(next_m[i], m.Make(sum, context.shape, context.spec));
    if (stats != nullptr) CountSample(i, samples[i].values, sum.data(), nullptr, stats);
  }
  return bytes;
}

Status DecodeDeltas(const PlainCodec& codec, const MFormat& m, std::span<const std::byte> section,
                    std::span<const SampleToDecode> samples, const DeltaContext& context,
                    std::span<Buffer> next_m) {
  std::vector<std::span<float>> decoded;
  for (const SampleToDecode& sample : samples) decoded.push_back(sample.values);
  SHOAL_RETURN_IF_ERROR(codec.Decode(section, context.shape, context.key, decoded));
  std::vector<float> base(context.shape.values());
  for (std::size_t i = 0; i < samples.size(); ++i) {
    if (decoded[i].empty()) continue;
    SHOAL_RETURN_IF_ERROR(m.CheckAll(samples[i].m, context.shape, context.spec));
    m.Read(samples[i].m, context.shape, base);
    for (std::size_t j = 0; j < base.size(); ++j) decoded[i][j] = base[j] + decoded[i][j];
    SHOAL_ASSIGN_OR_RETURN(next_m[i], m.Make(decoded[i], context.shape, context.spec));
  }
  return Status::Ok();
}

}  // namespace shoal::compression
