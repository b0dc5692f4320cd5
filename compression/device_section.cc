#include "compression/device_section.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <string>

#include "compression/direct_codec.h"
#include "compression/half.h"
#include "compression/kernels.h"
#include "compression/message_noise.h"

namespace shoal::compression {
namespace {

std::size_t RawBytes(ValueType type) { return type == ValueType::kFp32 ? 4 : 2; }

Status CheckImages(std::span<const Extremes> extremes, std::string_view spec) {
  for (std::size_t i = 0; i < extremes.size(); ++i) {
    if (extremes[i].m < kHalfInfinity) continue;
    const bool header = extremes[i].m == kWrongImage;
    return InvalidArgument(
        "codec " + std::string(spec) + ": m image " + std::to_string(i) + ": " +
        (header ? "its header is not that of this shape and of 16 bits" : "a value is not finite") +
        "; drop this m, the sample becomes a first visit");
  }
  return Status::Ok();
}

}  // namespace

// ---- scratch memory --------------------------------------------------------------------------

DeviceScratch::~DeviceScratch() {
  for (const Part& part : slots_) {
    if (part.memory != nullptr) queue_->Free(part.memory);
  }
}

Status DeviceScratch::Reserve(Slot slot, std::size_t bytes) {
  Part& part = slots_[slot];
  if (part.bytes >= bytes) return Status::Ok();
  if (part.memory != nullptr) queue_->Free(part.memory);
  part = {};
  SHOAL_ASSIGN_OR_RETURN(part.memory, queue_->Allocate(bytes));
  part.bytes = bytes;
  return Status::Ok();
}

Status SendSamples(const DeviceContext& context, std::span<const DeviceSample> samples) {
  DeviceScratch& scratch = *context.scratch;
  SHOAL_RETURN_IF_ERROR(scratch.Reserve(DeviceScratch::kSamples, samples.size_bytes()));
  SHOAL_RETURN_IF_ERROR(
      scratch.Reserve(DeviceScratch::kExtremes, samples.size() * sizeof(Extremes)));
  context.queue->ToDevice(scratch.Get(DeviceScratch::kSamples), samples.data(),
                          samples.size_bytes());
  context.queue->Zero(scratch.Get(DeviceScratch::kExtremes), samples.size() * sizeof(Extremes));
  return Status::Ok();
}

void FetchExtremes(const DeviceContext& context, std::span<Extremes> extremes) {
  context.queue->ToHost(extremes.data(), context.scratch->Get(DeviceScratch::kExtremes),
                        extremes.size_bytes());
}

RawJob RawJobOf(const DeviceContext& context, std::size_t samples) {
  const DeviceScratch& scratch = *context.scratch;
  RawJob job;
  job.values = static_cast<std::uint32_t>(context.shape.values());
  job.count = static_cast<std::uint32_t>(samples);
  job.samples = reinterpret_cast<const DeviceSample*>(scratch.Get(DeviceScratch::kSamples));
  job.raw = scratch.Get(DeviceScratch::kCodes);
  job.extremes = reinterpret_cast<Extremes*>(scratch.Get(DeviceScratch::kExtremes));
  return job;
}

// ---- sections --------------------------------------------------------------------------------

Result<DeviceSection> DeviceSection::Of(const PlainCodec& codec) {
  DeviceSection section(codec);
  if (const auto* direct = dynamic_cast<const DirectCodec*>(&codec); direct != nullptr) {
    section.format_ = &direct->format();
    return section;
  }
  for (const auto& [spec, type] : {std::pair("raw:dtype=fp32", ValueType::kFp32),
                                   std::pair("raw:dtype=fp16", ValueType::kFp16),
                                   std::pair("raw:dtype=bf16", ValueType::kBf16)}) {
    if (codec.spec() != spec) continue;
    section.type_ = type;
    return section;
  }
  return Unimplemented("codec " + codec.spec() +
                       " has no form on a device; known there are raw, direct with buckets, and "
                       "aqsgd over them; use this one on the CPU");
}

Result<std::size_t> DeviceSection::Encode(const DeviceContext& context,
                                          std::span<DeviceSample> samples, bool delta,
                                          std::span<std::byte> out) {
  SHOAL_CHECK(out.size() >= codec_->EncodedBytesMax(context.shape, samples.size()));
  SHOAL_CHECK(context.samples == samples.size());
  if (format_ == nullptr) return EncodeRaw(context, samples, out);
  return EncodeBuckets(context, samples, delta, out);
}

BucketJob DeviceSection::BucketJobOf(const DeviceContext& context, std::size_t samples,
                                     bool delta) const {
  const DeviceScratch& scratch = *context.scratch;
  BucketJob job;
  job.rule = format_->code.rule();
  job.delta = delta;
  job.bucket = format_->code.bucket();
  job.values = static_cast<std::uint32_t>(context.shape.values());
  job.buckets = job.values / job.bucket;
  const auto words = MessageKeyWords(context.key);
  std::copy(words.begin(), words.end(), job.key);
  job.count = static_cast<std::uint32_t>(samples);
  job.samples = reinterpret_cast<const DeviceSample*>(scratch.Get(DeviceScratch::kSamples));
  job.scales = scratch.Get(DeviceScratch::kScales);
  job.codes = scratch.Get(DeviceScratch::kCodes);
  job.extremes = reinterpret_cast<Extremes*>(scratch.Get(DeviceScratch::kExtremes));
  return job;
}

Result<std::size_t> DeviceSection::EncodeBuckets(const DeviceContext& context,
                                                 std::span<DeviceSample> samples, bool delta,
                                                 std::span<std::byte> out) const {
  const BucketCode& code = format_->code;
  const std::size_t n = context.shape.values();
  SHOAL_RETURN_IF_ERROR(CheckBucketFits(code.bucket(), context.shape, context.spec));
  SHOAL_RETURN_IF_ERROR(
      context.scratch->Reserve(DeviceScratch::kScales, samples.size() * code.ScaleBytes(n)));
  SHOAL_RETURN_IF_ERROR(
      context.scratch->Reserve(DeviceScratch::kCodes, samples.size() * code.CodeBytes(n)));
  SHOAL_RETURN_IF_ERROR(SendSamples(context, samples));
  context.queue->EncodeBuckets(BucketJobOf(context, samples.size(), delta));
  std::vector<Extremes> extremes(samples.size());
  FetchExtremes(context, extremes);
  const Result<std::size_t> bytes = FetchSection(context, out);
  if (!bytes.ok()) return bytes;
  SHOAL_RETURN_IF_ERROR(CheckImages(extremes, context.spec));
  for (const Extremes& e : extremes) {
    SHOAL_RETURN_IF_ERROR(CheckMagnitude(e.x, kMagnitudeMax, delta ? context.spec : spec()));
  }
  if (delta) SHOAL_RETURN_IF_ERROR(MoveExponents(context, samples, extremes));
  return bytes;
}

// Also waits for all that was asked before.
Result<std::size_t> DeviceSection::FetchSection(const DeviceContext& context,
                                                std::span<std::byte> out) const {
  const BucketCode& code = format_->code;
  const std::size_t n = context.shape.values();
  const std::size_t scale_bytes = context.samples * code.ScaleBytes(n);
  const std::size_t code_bytes = context.samples * code.CodeBytes(n);
  const std::span<std::byte> body = out.subspan(kPayloadHeaderBytes + scale_bytes);
  const bool packed = format_->stage == EntropyStage::kNone;
  std::vector<std::byte> fetched(packed ? 0 : code_bytes);
  context.queue->ToHost(out.data() + kPayloadHeaderBytes,
                        context.scratch->Get(DeviceScratch::kScales), scale_bytes);
  context.queue->ToHost(packed ? body.data() : fetched.data(),
                        context.scratch->Get(DeviceScratch::kCodes), code_bytes);
  SHOAL_RETURN_IF_ERROR(context.queue->Wait());
  WritePayloadHeader(format_->HeaderFor(context.shape, context.samples), out.data());
  if (packed) return kPayloadHeaderBytes + scale_bytes + code_bytes;
  // In order: what unpacking writes behind a sample's last code the next sample overwrites.
  std::vector<std::uint8_t> codes(context.samples * n + 7);
  for (std::size_t i = 0; i < context.samples; ++i) {
    code.Unpack(fetched.data() + i * code.CodeBytes(n), n, codes.data() + i * n);
  }
  return kPayloadHeaderBytes + scale_bytes +
         WriteSymbols(format_->stage, std::span(codes).first(context.samples * n), code.bits(),
                      body);
}

// The samples whose sums need another exponent are decoded again from the section on the device.
Status DeviceSection::MoveExponents(const DeviceContext& context, std::span<DeviceSample> samples,
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
  return RunBuckets(context, again, true, seen);
}

Status DeviceSection::RunBuckets(const DeviceContext& context,
                                 std::span<const DeviceSample> samples, bool delta,
                                 std::span<Extremes> extremes) const {
  SHOAL_RETURN_IF_ERROR(SendSamples(context, samples));
  context.queue->DecodeBuckets(BucketJobOf(context, samples.size(), delta));
  FetchExtremes(context, extremes);
  return context.queue->Wait();
}

Status DeviceSection::Stage(const DeviceContext& context, std::span<const std::byte> section) {
  if (format_ != nullptr) return StageBuckets(context, section);
  const std::size_t bytes = context.samples * context.shape.values() * RawBytes(type_);
  SHOAL_ASSIGN_OR_RETURN(
      exponent_, CheckPayload(section, RawHeader(context), kPayloadHeaderBytes + bytes, spec()));
  SHOAL_RETURN_IF_ERROR(context.scratch->Reserve(DeviceScratch::kCodes, bytes));
  context.queue->ToDevice(context.scratch->Get(DeviceScratch::kCodes),
                          section.data() + kPayloadHeaderBytes, bytes);
  return Status::Ok();
}

Status DeviceSection::StageBuckets(const DeviceContext& context,
                                   std::span<const std::byte> section) const {
  const BucketCode& code = format_->code;
  const std::size_t n = context.shape.values();
  SHOAL_RETURN_IF_ERROR(CheckBucketFits(code.bucket(), context.shape, context.spec));
  BucketReader reader(*format_, context.shape, context.samples);
  SHOAL_RETURN_IF_ERROR(reader.Open(section));
  const std::size_t scale_bytes = context.samples * code.ScaleBytes(n);
  const std::size_t code_bytes = context.samples * code.CodeBytes(n);
  SHOAL_RETURN_IF_ERROR(context.scratch->Reserve(DeviceScratch::kScales, scale_bytes));
  SHOAL_RETURN_IF_ERROR(context.scratch->Reserve(DeviceScratch::kCodes, code_bytes));
  const std::byte* scales = section.data() + kPayloadHeaderBytes;
  std::byte* codes = context.scratch->Get(DeviceScratch::kCodes);
  context.queue->ToDevice(context.scratch->Get(DeviceScratch::kScales), scales, scale_bytes);
  if (format_->stage == EntropyStage::kNone) {
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

Status DeviceSection::Decode(const DeviceContext& context, std::span<DeviceSample> samples,
                             bool delta) const {
  std::vector<Extremes> extremes(samples.size());
  if (format_ != nullptr) {
    SHOAL_RETURN_IF_ERROR(RunBuckets(context, samples, delta, extremes));
    if (!delta) return Status::Ok();
    SHOAL_RETURN_IF_ERROR(CheckImages(extremes, context.spec));
    return MoveExponents(context, samples, extremes);
  }
  SHOAL_RETURN_IF_ERROR(SendSamples(context, samples));
  RawJob job = RawJobOf(context, samples.size());
  job.type = type_;
  job.exponent = exponent_;
  context.queue->DecodeRaw(job);
  FetchExtremes(context, extremes);
  SHOAL_RETURN_IF_ERROR(context.queue->Wait());
  for (const Extremes& e : extremes) {
    if (FiniteBits(e.x)) continue;
    return InvalidArgument("codec " + std::string(spec()) +
                           ": payload holds a value that is not finite; drop the message and ask "
                           "for it again");
  }
  return Status::Ok();
}

PayloadHeader DeviceSection::RawHeader(const DeviceContext& context) const {
  PayloadHeader header;
  header.codec = CodecId::kRaw;
  header.bits = static_cast<std::uint8_t>(8 * RawBytes(type_));
  header.type = type_;
  header.values = context.samples * context.shape.values();
  return header;
}

Result<std::size_t> DeviceSection::EncodeRaw(const DeviceContext& context,
                                             std::span<DeviceSample> samples,
                                             std::span<std::byte> out) {
  const std::size_t bytes = samples.size() * context.shape.values() * RawBytes(type_);
  const float limit = type_ == ValueType::kFp32 ? std::numeric_limits<float>::max() : kMagnitudeMax;
  std::vector<Extremes> extremes(samples.size());
  SHOAL_RETURN_IF_ERROR(context.scratch->Reserve(DeviceScratch::kCodes, bytes));
  for (int exponent = 0;;) {  // 0 nearly always fits
    SHOAL_RETURN_IF_ERROR(SendSamples(context, samples));
    RawJob job = RawJobOf(context, samples.size());
    job.type = type_;
    job.exponent = exponent;
    context.queue->EncodeRaw(job);
    FetchExtremes(context, extremes);
    context.queue->ToHost(out.data() + kPayloadHeaderBytes, job.raw, bytes);
    SHOAL_RETURN_IF_ERROR(context.queue->Wait());
    std::uint32_t most = 0;
    for (const Extremes& e : extremes) most = std::max(most, e.x);
    SHOAL_RETURN_IF_ERROR(CheckMagnitude(most, limit, spec()));
    int needed = 0;
    if (type_ == ValueType::kFp16) {
      SHOAL_ASSIGN_OR_RETURN(needed, ExponentFor(most, spec()));
    }
    exponent_ = exponent;
    if (needed == exponent) break;
    exponent = needed;
  }
  PayloadHeader header = RawHeader(context);
  header.exponent = static_cast<std::int8_t>(exponent_);
  WritePayloadHeader(header, out.data());
  return kPayloadHeaderBytes + bytes;
}

}  // namespace shoal::compression
