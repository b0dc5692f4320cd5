#include "compression/device/codecs/device_raw_section.h"

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "common/half.h"
#include "compression/api/sample_layout.h"

namespace shoal::compression {
namespace {

class DeviceRawSection : public DeviceSection {
 public:
  explicit DeviceRawSection(const RawCodec& codec) : codec_(codec), type_(codec.type()) {}

  Result<std::size_t> Encode(const DeviceContext& context, std::span<DeviceSample> samples,
                             bool delta, std::span<std::byte> out) override;
  Status Stage(const DeviceContext& context, std::span<const std::byte> section) override;
  Status Decode(const DeviceContext& context, std::span<DeviceSample> samples, bool delta) override;

 private:
  std::size_t Bytes(const DeviceContext& context) const {
    return context.samples * context.shape.values() * (type_ == ValueType::kFp32 ? 4 : 2);
  }
  RawJob JobFor(const DeviceContext& context, CodingPass pass, std::size_t samples) const {
    auto job = JobOf<RawJob>(context, samples);
    job.pass = pass;
    job.type = type_;
    job.exponent = exponent_;
    job.raw = context.scratch->Get(kCodesSlot);
    return job;
  }
  PayloadHeader Header(const DeviceContext& context) const;

  const RawCodec& codec_;
  const ValueType type_;
  int exponent_ = 0;  // of the section that is on the device
};

PayloadHeader DeviceRawSection::Header(const DeviceContext& context) const {
  PayloadHeader header;
  header.codec = CodecId::kRaw;
  header.bits = type_ == ValueType::kFp32 ? 32 : 16;
  header.type = type_;
  header.values = context.samples * context.shape.values();
  return header;
}

Result<std::size_t> DeviceRawSection::Encode(const DeviceContext& context,
                                             std::span<DeviceSample> samples, bool delta,
                                             std::span<std::byte> out) {
  SHOAL_CHECK(!delta && context.samples == samples.size());
  SHOAL_CHECK(out.size() >= codec_.EncodedBytesMax(context.shape, samples.size()));
  const std::size_t bytes = Bytes(context);
  const float limit = type_ == ValueType::kFp32 ? std::numeric_limits<float>::max() : kMagnitudeMax;
  std::vector<Extremes> extremes(samples.size());
  SHOAL_ASSIGN_OR_RETURN(const std::byte* raw, context.scratch->Reserve(kCodesSlot, bytes));
  for (exponent_ = 0;;) {  // 0 nearly always fits
    SHOAL_RETURN_IF_ERROR(SendSamples(context, samples));
    context.queue->Run(JobFor(context, CodingPass::kEncode, samples.size()));
    FetchExtremes(context, extremes);
    context.queue->ToHost(out.data() + kPayloadHeaderBytes, raw, bytes);
    SHOAL_RETURN_IF_ERROR(context.queue->Wait());
    std::uint32_t most = 0;
    for (const Extremes& e : extremes) most = std::max(most, e.x);
    SHOAL_RETURN_IF_ERROR(CheckMagnitude(most, limit, codec_.spec()));
    int needed = 0;
    if (type_ == ValueType::kFp16) {
      SHOAL_ASSIGN_OR_RETURN(needed, ExponentFor(most, codec_.spec()));
    }
    if (needed == exponent_) break;
    exponent_ = needed;
  }
  PayloadHeader header = Header(context);
  header.exponent = static_cast<std::int8_t>(exponent_);
  WritePayloadHeader(header, out.data());
  return kPayloadHeaderBytes + bytes;
}

Status DeviceRawSection::Stage(const DeviceContext& context, std::span<const std::byte> section) {
  const std::size_t bytes = Bytes(context);
  SHOAL_ASSIGN_OR_RETURN(exponent_, CheckPayload(section, Header(context),
                                                 kPayloadHeaderBytes + bytes, codec_.spec()));
  SHOAL_ASSIGN_OR_RETURN(std::byte* const raw, context.scratch->Reserve(kCodesSlot, bytes));
  context.queue->ToDevice(raw, section.data() + kPayloadHeaderBytes, bytes);
  return Status::Ok();
}

Status DeviceRawSection::Decode(const DeviceContext& context, std::span<DeviceSample> samples,
                                bool delta) {
  SHOAL_CHECK(!delta);
  std::vector<Extremes> extremes(samples.size());
  SHOAL_RETURN_IF_ERROR(SendSamples(context, samples));
  context.queue->Run(JobFor(context, CodingPass::kDecode, samples.size()));
  FetchExtremes(context, extremes);
  SHOAL_RETURN_IF_ERROR(context.queue->Wait());
  for (const Extremes& e : extremes) {
    if (FiniteBits(e.x)) continue;
    return InvalidArgument("codec " + codec_.spec() +
                           ": payload holds a value that is not finite; drop the message and ask "
                           "for it again");
  }
  return Status::Ok();
}

}  // namespace

std::unique_ptr<DeviceSection> NewDeviceRawSection(const RawCodec& codec) {
  return std::make_unique<DeviceRawSection>(codec);
}

}  // namespace shoal::compression
