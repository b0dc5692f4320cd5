#include "compression/codecs/aqsgd/delta_section.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "common/half.h"
#include "compression/codecs/coding_sample.h"
#include "compression/codecs/scaled/scaled_codec.h"
#include "compression/simd/kernels.h"

namespace shoal::compression {
namespace {

const MFormat kHalves{16};

// Adds one block of decoded changes to m and stores it at `exponent` in `halves`; returns the
// largest magnitude bits. The one place that makes a 16-bit next m in one pass, for both ends.
std::uint32_t AdvanceBlock(std::span<const std::byte> m, std::size_t first, std::size_t count,
                           int exponent, const float* delta, std::byte* halves) {
  return AddToHalf(delta, MFormat::Halves(m) + 2 * first, PowerOfTwo(MFormat::Exponent(m)),
                   PowerOfTwo(-exponent), count, halves + 2 * first);
}

// An m whose values were not looked at: one that is not finite shows in the change (sender) or the
// sum (receiver), so no pass is spent on it.
Status CheckHead(std::span<const std::byte> m, const DeltaContext& context) {
  Status status = kHalves.Check(m, context.shape);
  return status.ok() ? status : status.WithContext("codec " + std::string(context.spec));
}

Status CheckSum(std::uint32_t most, const DeltaContext& context) {
  if (FiniteBits(most)) return Status::Ok();
  return InvalidArgument("codec " + std::string(context.spec) +
                         ": m image: a value is not finite; drop this m, the sample becomes a "
                         "first visit");
}

// What the blocks of a section share.
struct Blocks {
  std::size_t size = 0;  // values
  const ChannelScaler& scaler;
};

// The exponents of the changes, from the tokens that ScaledCodec would look at.
ChannelExponents FitChanges(std::span<const SampleToEncode> samples, SampleShape shape) {
  const std::size_t tokens = samples.size() * shape.tokens;
  ChannelFit fit(tokens, shape.hidden);
  std::vector<float> delta(shape.hidden);
  for (std::size_t t = fit.stride() / 2; t < tokens; t += fit.stride()) {
    const SampleToEncode& sample = samples[t / shape.tokens];
    const std::size_t first = t % shape.tokens * shape.hidden;
    SubtractHalf(sample.values.data() + first, MFormat::Halves(sample.m) + 2 * first,
                 PowerOfTwo(MFormat::Exponent(sample.m)), shape.hidden, delta.data());
    fit.Add(delta.data());
  }
  return fit.Exponents();
}

// Writes the next image of a sample, stored at `exponent`, and, if `values` is not empty, what it
// stands for. Returns the exponent that it needs: if that is another, the result is void.
Result<int> RebuildOnce(BucketReader* reader, std::size_t sample, std::span<const std::byte> m,
                        const Blocks& blocks, const DeltaContext& context, int exponent,
                        std::span<float> values, std::byte* image) {
  const std::size_t n = context.shape.values();
  std::vector<float> delta(blocks.size);
  std::uint32_t most = 0;
  std::byte* halves = image + kMImageHeaderBytes;
  for (std::size_t first = 0; first < n; first += blocks.size) {
    const std::size_t count = std::min(blocks.size, n - first);
    reader->Levels(sample, first, count, delta.data());
    blocks.scaler.Up(first, count, delta.data());
    most = std::max(most, AdvanceBlock(m, first, count, exponent, delta.data(), halves));
    if (values.empty()) continue;
    FromHalf(halves + 2 * first, PowerOfTwo(exponent), count, values.data() + first);
  }
  SHOAL_RETURN_IF_ERROR(CheckSum(most, context));
  return ExponentFor(most, context.spec);
}

// Exponent 0 nearly always fits; otherwise the image is made again with the one it needs.
Result<Buffer> Rebuild(BucketReader* reader, std::size_t sample, std::span<const std::byte> m,
                       const Blocks& blocks, const DeltaContext& context, std::span<float> values) {
  Buffer image(kHalves.Bytes(context.shape));
  int exponent = 0;
  for (int tries = 0; tries < 2; ++tries) {
    SHOAL_ASSIGN_OR_RETURN(const int needed, RebuildOnce(reader, sample, m, blocks, context,
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
                         const Blocks& blocks, const DeltaContext& context,
                         std::span<float> scratch, Buffer* image, CodingStats* stats) {
  const std::size_t n = context.shape.values();
  const float base = PowerOfTwo(MFormat::Exponent(sample.m));
  float* delta = scratch.data();
  std::byte* halves = image->data() + kMImageHeaderBytes;
  std::uint32_t most = 0;
  TokenCounter tokens(context.shape.hidden, stats == nullptr ? nullptr : &stats->changes);
  for (std::size_t first = 0; first < n; first += blocks.size) {
    const std::size_t count = std::min(blocks.size, n - first);
    const float* x = sample.values.data() + first;
    const std::uint32_t largest =
        SubtractHalf(x, MFormat::Halves(sample.m) + 2 * first, base, count, delta);
    SHOAL_RETURN_IF_ERROR(CheckMagnitude(largest, kMagnitudeMax, context.spec));
    if (stats != nullptr) tokens.Add(x, delta, count);
    blocks.scaler.Down(first, count, delta);
    SHOAL_RETURN_IF_ERROR(writer->Block(index, first, count, delta, kDeltaMax));
    writer->Levels(delta);
    blocks.scaler.Up(first, count, delta);
    most = std::max(most, AdvanceBlock(sample.m, first, count, 0, delta, halves));
    if (stats != nullptr && Counted(index, first / blocks.size)) {
      FromHalf(halves + 2 * first, 1.0F, count, delta);
      stats->values += Squares(x, count);
      stats->errors += SquaredDifferences(x, delta, count);
    }
  }
  return ExponentFor(most, context.spec);
}

// CodingStats::errors of a sample whose image was made again.
double ImageErrors(std::size_t index, std::span<const float> x, std::size_t block,
                   const Buffer& image) {
  const float factor = PowerOfTwo(MFormat::Exponent(image.bytes()));
  std::vector<float> decoded(block);
  double errors = 0;
  for (std::size_t first = 0; first < x.size(); first += block) {
    if (!Counted(index, first / block)) continue;
    const std::size_t count = std::min(block, x.size() - first);
    FromHalf(MFormat::Halves(image.bytes()) + 2 * first, factor, count, decoded.data());
    errors += SquaredDifferences(x.data() + first, decoded.data(), count);
  }
  return errors;
}

// delta = x - m of a whole sample; checks both.
Status Subtract(const MFormat& format, const SampleToEncode& sample, const DeltaContext& context,
                std::span<float> delta) {
  SHOAL_RETURN_IF_ERROR(format.CheckAll(sample.m, context.shape, context.spec));
  const float* x = sample.values.data();
  if (format.bits() == kHalves.bits()) {
    const float base = PowerOfTwo(MFormat::Exponent(sample.m));
    const std::uint32_t most =
        SubtractHalf(x, MFormat::Halves(sample.m), base, delta.size(), delta.data());
    return CheckMagnitude(most, kMagnitudeMax, context.spec);
  }
  SHOAL_RETURN_IF_ERROR(CheckMagnitude(AbsMaxBits(x, delta.size()), kMagnitudeMax, context.spec));
  format.Read(sample.m, context.shape, delta);
  for (std::size_t i = 0; i < delta.size(); ++i) delta[i] = x[i] - delta[i];
  return Status::Ok();
}

// The next image of a whole sample. `delta` holds the decoded changes and becomes, where `wanted`,
// what the layers get.
Result<Buffer> Advance(const MFormat& format, std::span<const std::byte> m,
                       const DeltaContext& context, bool wanted, std::span<float> delta) {
  const std::size_t n = delta.size();
  if (format.bits() != kHalves.bits()) {
    Buffer base(n * sizeof(float));
    format.Read(m, context.shape, base.floats());
    for (std::size_t i = 0; i < n; ++i) delta[i] = base.floats()[i] + delta[i];
    return format.Make(delta, context.shape, context.spec);
  }
  Buffer image(format.Bytes(context.shape));
  std::byte* halves = image.data() + kMImageHeaderBytes;
  const std::uint32_t most = AdvanceBlock(m, 0, n, 0, delta.data(), halves);
  SHOAL_RETURN_IF_ERROR(CheckMagnitude(most, kDeltaMax, context.spec));
  SHOAL_ASSIGN_OR_RETURN(const int exponent, ExponentFor(most, context.spec));
  if (exponent != 0) AdvanceBlock(m, 0, n, exponent, delta.data(), halves);
  format.WriteHeader(exponent, context.shape, image.data());
  if (wanted) FromHalf(halves, PowerOfTwo(exponent), n, delta.data());
  return image;
}

}  // namespace

Result<std::size_t> EncodeDeltasOnePass(const OnePassFormat& format,
                                        std::span<const SampleToEncode> samples,
                                        const DeltaContext& context, std::span<std::byte> out,
                                        std::span<Buffer> next_m, CodingStats* stats) {
  const BucketFormat& buckets = format.buckets;
  SHOAL_RETURN_IF_ERROR(CheckBucketFits(buckets.code.bucket(), context.shape, context.spec));
  for (const SampleToEncode& sample : samples) {
    SHOAL_RETURN_IF_ERROR(CheckHead(sample.m, context));
  }
  const ChannelExponents channels =
      format.scaled ? FitChanges(samples, context.shape) : ChannelExponents();
  const std::size_t head =
      format.scaled ? WriteScaledHead(channels, context.shape, samples.size(), out) : 0;
  const std::span<std::byte> section = out.subspan(head);
  const std::size_t block = buckets.code.BlockValues(context.shape.values());
  const ChannelScaler scaler(channels, block);
  const Blocks blocks{block, scaler};
  BucketWriter writer(buckets, context.shape, samples.size(), context.key, section);
  std::vector<float> scratch(block);
  std::vector<int> exponents(samples.size());
  std::vector<CodingStats> seen(stats == nullptr ? 0 : samples.size());
  for (std::size_t i = 0; i < samples.size(); ++i) {
    next_m[i] = Buffer(kHalves.Bytes(context.shape));
    SHOAL_ASSIGN_OR_RETURN(
        exponents[i], EncodeSample(&writer, i, samples[i], blocks, context, scratch, &next_m[i],
                                   seen.empty() ? nullptr : &seen[i]));
    kHalves.WriteHeader(0, context.shape, next_m[i].data());
  }
  const std::size_t bytes = writer.Finish();
  BucketReader reader(buckets, context.shape, samples.size());
  bool open = false;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    if (exponents[i] == 0) continue;
    if (!open) SHOAL_RETURN_IF_ERROR(reader.Open(section.first(bytes)));
    open = true;
    SHOAL_ASSIGN_OR_RETURN(next_m[i],
                           Rebuild(&reader, i, samples[i].m, blocks, context, std::span<float>()));
    if (stats != nullptr) seen[i].errors = ImageErrors(i, samples[i].values, block, next_m[i]);
  }
  for (const CodingStats& one : seen) stats->Add(one);
  return head + bytes;
}

Status DecodeDeltasOnePass(const OnePassFormat& format, std::span<const std::byte> section,
                           std::span<const SampleToDecode> samples, const DeltaContext& context,
                           std::span<Buffer> next_m) {
  const BucketFormat& buckets = format.buckets;
  SHOAL_RETURN_IF_ERROR(CheckBucketFits(buckets.code.bucket(), context.shape, context.spec));
  ScaledHead head;
  if (format.scaled) {
    SHOAL_ASSIGN_OR_RETURN(head,
                           ReadScaledHead(section, context.shape, samples.size(), context.spec));
  }
  const std::size_t block = buckets.code.BlockValues(context.shape.values());
  const ChannelScaler scaler(head.exponents, block);
  const Blocks blocks{block, scaler};
  BucketReader reader(buckets, context.shape, samples.size());
  SHOAL_RETURN_IF_ERROR(reader.Open(section.subspan(head.bytes)));
  for (std::size_t i = 0; i < samples.size(); ++i) {
    if (samples[i].values.empty()) continue;
    SHOAL_RETURN_IF_ERROR(CheckHead(samples[i].m, context));
    SHOAL_ASSIGN_OR_RETURN(next_m[i],
                           Rebuild(&reader, i, samples[i].m, blocks, context, samples[i].values));
  }
  return Status::Ok();
}

Result<std::size_t> EncodeDeltas(const PlainCodec& codec, const MFormat& m,
                                 std::span<const SampleToEncode> samples,
                                 const DeltaContext& context, std::span<std::byte> out,
                                 std::span<Buffer> next_m, CodingStats* stats) {
  const std::size_t n = context.shape.values();
  Buffer deltas(samples.size() * n * sizeof(float));
  std::vector<std::span<const float>> sources, values;
  std::vector<std::span<float>> decoded;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const std::span<float> delta = deltas.floats().subspan(i * n, n);
    SHOAL_RETURN_IF_ERROR(Subtract(m, samples[i], context, delta));
    sources.push_back(delta);
    values.push_back(samples[i].values);
    decoded.push_back(delta);
    if (stats == nullptr) continue;
    TokenCounter(context.shape.hidden, &stats->changes)
        .Add(samples[i].values.data(), delta.data(), n);
  }
  SHOAL_ASSIGN_OR_RETURN(
      const std::size_t bytes,
      codec.EncodeChanges(sources, values, context.shape, context.key, out, decoded));
  for (std::size_t i = 0; i < samples.size(); ++i) {
    SHOAL_ASSIGN_OR_RETURN(next_m[i],
                           Advance(m, samples[i].m, context, stats != nullptr, decoded[i]));
    if (stats != nullptr) CountErrors(i, samples[i].values, decoded[i].data(), stats);
  }
  return bytes;
}

Status DecodeDeltas(const PlainCodec& codec, const MFormat& m, std::span<const std::byte> section,
                    std::span<const SampleToDecode> samples, const DeltaContext& context,
                    std::span<Buffer> next_m) {
  std::vector<std::span<float>> decoded;
  for (const SampleToDecode& sample : samples) decoded.push_back(sample.values);
  SHOAL_RETURN_IF_ERROR(codec.Decode(section, context.shape, context.key, decoded));
  for (std::size_t i = 0; i < samples.size(); ++i) {
    if (decoded[i].empty()) continue;
    SHOAL_RETURN_IF_ERROR(m.CheckAll(samples[i].m, context.shape, context.spec));
    SHOAL_ASSIGN_OR_RETURN(next_m[i], Advance(m, samples[i].m, context, true, decoded[i]));
  }
  return Status::Ok();
}

}  // namespace shoal::compression
