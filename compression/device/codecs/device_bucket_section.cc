#include "compression/device/codecs/device_bucket_section.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "compression/api/message_noise.h"
#include "compression/codecs/bucket_section.h"
#include "compression/codecs/direct_codec.h"

namespace shoal::compression {
namespace {

class DeviceBucketSection : public DeviceSection {
 public:
  explicit DeviceBucketSection(const BucketFormat& format) : format_(format) {}

  bool fuses_delta() const override { return true; }
  Result<std::size_t> Encode(const DeviceContext& context, std::span<DeviceSample> samples,
                             bool delta, std::span<std::byte> out) override;
  Status Stage(const DeviceContext& context, std::span<const std::byte> section) override {
    return StageBuckets(format_, context, section);
  }
  Status Decode(const DeviceContext& context, std::span<DeviceSample> samples, bool delta) override;

 private:
  BucketJob JobFor(const DeviceContext& context, CodingPass pass, std::size_t samples,
                   bool delta) const;
  Status Run(const DeviceContext& context, std::span<const DeviceSample> samples, bool delta,
             std::span<Extremes> extremes) const;
  Status MoveExponents(const DeviceContext& context, std::span<DeviceSample> samples,
                       std::span<const Extremes> extremes) const;

  const BucketFormat& format_;
};

BucketJob DeviceBucketSection::JobFor(const DeviceContext& context, CodingPass pass,
                                      std::size_t samples, bool delta) const {
  auto job = JobOf<BucketJob>(context, samples);
  job.pass = pass;
  job.delta = delta;
  DescribeBuckets(format_, context, &job);
  return job;
}

Result<std::size_t> DeviceBucketSection::Encode(const DeviceContext& context,
                                                std::span<DeviceSample> samples, bool delta,
                                                std::span<std::byte> out) {
  SHOAL_CHECK(context.samples == samples.size());
  SHOAL_CHECK(out.size() >= format_.BytesMax(context.shape, samples.size()));
  SHOAL_RETURN_IF_ERROR(CheckBucketFits(format_.code.bucket(), context.shape, context.spec));
  SHOAL_RETURN_IF_ERROR(ReserveBuckets(format_, context));
  SHOAL_RETURN_IF_ERROR(SendSamples(context, samples));
  context.queue->Run(JobFor(context, CodingPass::kEncode, samples.size(), delta));
  std::vector<Extremes> extremes(samples.size());
  FetchExtremes(context, extremes);
  const Result<std::size_t> bytes = FetchBuckets(format_, context, out);
  if (!bytes.ok()) return bytes;
  SHOAL_RETURN_IF_ERROR(CheckImages(extremes, 16, context.spec));
  for (const Extremes& e : extremes) {
    SHOAL_RETURN_IF_ERROR(
        CheckMagnitude(e.x, context.magnitude_most, delta ? context.spec : format_.spec));
  }
  if (delta) SHOAL_RETURN_IF_ERROR(MoveExponents(context, samples, extremes));
  return bytes;
}

// The samples whose sums need another exponent are decoded again from the section on the device.
Status DeviceBucketSection::MoveExponents(const DeviceContext& context,
                                          std::span<DeviceSample> samples,
                                          std::span<const Extremes> extremes) const {
  std::vector<DeviceSample> again;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    SHOAL_ASSIGN_OR_RETURN(const int exponent, ExponentFor(extremes[i].sum, context.spec));
    if (exponent == samples[i].exponent) continue;
    samples[i].exponent = exponent;
    again.push_back(samples[i]);
  }
  if (again.empty()) return Status::Ok();
  std::vector<Extremes> seen(again.size());
  return Run(context, again, true, seen);
}

Status DeviceBucketSection::Run(const DeviceContext& context, std::span<const DeviceSample> samples,
                                bool delta, std::span<Extremes> extremes) const {
  SHOAL_RETURN_IF_ERROR(SendSamples(context, samples));
  context.queue->Run(JobFor(context, CodingPass::kDecode, samples.size(), delta));
  FetchExtremes(context, extremes);
  return context.queue->Wait();
}

Status DeviceBucketSection::Decode(const DeviceContext& context, std::span<DeviceSample> samples,
                                   bool delta) {
  std::vector<Extremes> extremes(samples.size());
  SHOAL_RETURN_IF_ERROR(Run(context, samples, delta, extremes));
  if (!delta) return Status::Ok();
  SHOAL_RETURN_IF_ERROR(CheckImages(extremes, 16, context.spec));
  return MoveExponents(context, samples, extremes);
}

}  // namespace

std::unique_ptr<DeviceSection> NewDeviceBucketSection(const DirectCodec& codec) {
  return std::make_unique<DeviceBucketSection>(codec.format());
}

Status ReserveBuckets(const BucketFormat& format, const DeviceContext& context) {
  const std::size_t n = context.shape.values();
  const BucketCode& code = format.code;
  SHOAL_RETURN_IF_ERROR(
      context.scratch->Reserve(kScalesSlot, context.samples * code.ScaleBytes(n)).status());
  return context.scratch->Reserve(kCodesSlot, context.samples * code.CodeBytes(n)).status();
}

void DescribeBuckets(const BucketFormat& format, const DeviceContext& context, BucketJob* job) {
  job->rule = format.code.rule();
  job->bucket = format.code.bucket();
  job->buckets = job->values / job->bucket;
  const auto words = MessageKeyWords(context.key);
  std::copy(words.begin(), words.end(), job->key);
  job->scales = context.scratch->Get(kScalesSlot);
  job->codes = context.scratch->Get(kCodesSlot);
}

Result<std::size_t> FetchBuckets(const BucketFormat& format, const DeviceContext& context,
                                 std::span<std::byte> out) {
  const BucketCode& code = format.code;
  const std::size_t n = context.shape.values();
  const std::size_t scale_bytes = context.samples * code.ScaleBytes(n);
  const std::size_t code_bytes = context.samples * code.CodeBytes(n);
  const std::span<std::byte> body = out.subspan(kPayloadHeaderBytes + scale_bytes);
  const bool packed = format.coder == EntropyCoder::kNone;
  std::vector<std::byte> fetched(packed ? 0 : code_bytes);
  context.queue->ToHost(out.data() + kPayloadHeaderBytes, context.scratch->Get(kScalesSlot),
                        scale_bytes);
  context.queue->ToHost(packed ? body.data() : fetched.data(), context.scratch->Get(kCodesSlot),
                        code_bytes);
  SHOAL_RETURN_IF_ERROR(context.queue->Wait());
  WritePayloadHeader(format.HeaderFor(context.shape, context.samples), out.data());
  if (packed) return kPayloadHeaderBytes + scale_bytes + code_bytes;
  // In order: what unpacking writes behind a sample's last code the next sample overwrites.
  std::vector<std::uint8_t> codes(context.samples * n + 7);
  for (std::size_t i = 0; i < context.samples; ++i) {
    code.Unpack(fetched.data() + i * code.CodeBytes(n), n, codes.data() + i * n);
  }
  return kPayloadHeaderBytes + scale_bytes +
         WriteSymbols(format.coder, std::span(codes).first(context.samples * n), code.bits(), body);
}

Status StageBuckets(const BucketFormat& format, const DeviceContext& context,
                    std::span<const std::byte> section) {
  const BucketCode& code = format.code;
  const std::size_t n = context.shape.values();
  SHOAL_RETURN_IF_ERROR(CheckBucketFits(code.bucket(), context.shape, context.spec));
  BucketReader reader(format, context.shape, context.samples);
  SHOAL_RETURN_IF_ERROR(reader.Open(section));
  const std::size_t scale_bytes = context.samples * code.ScaleBytes(n);
  const std::size_t code_bytes = context.samples * code.CodeBytes(n);
  SHOAL_RETURN_IF_ERROR(ReserveBuckets(format, context));
  const std::byte* scales = section.data() + kPayloadHeaderBytes;
  std::byte* codes = context.scratch->Get(kCodesSlot);
  context.queue->ToDevice(context.scratch->Get(kScalesSlot), scales, scale_bytes);
  if (format.coder == EntropyCoder::kNone) {
    context.queue->ToDevice(codes, scales + scale_bytes, code_bytes);
    return Status::Ok();
  }
  std::vector<std::byte> packed(code_bytes);
  std::vector<std::uint8_t> one(n + 7);
  for (std::size_t i = 0; i < context.samples; ++i) {
    std::memcpy(one.data(), reader.codes().data() + i * n, n);
    code.Pack(one.data(), n, packed.data() + i * code.CodeBytes(n));
  }
  context.queue->ToDevice(codes, packed.data(), code_bytes);
  return context.queue->Wait();
}

}  // namespace shoal::compression
