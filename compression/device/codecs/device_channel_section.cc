#include "compression/device/codecs/device_channel_section.h"

#include <algorithm>
#include <bit>
#include <string_view>
#include <vector>

#include "common/bytes.h"
#include "common/half.h"
#include "compression/api/message_noise.h"
#include "compression/codecs/channel_codec.h"
#include "compression/simd/kernels.h"

namespace shoal::compression {
namespace {

// Scales hold the decoder's constants, which Decode reads.
constexpr std::string_view kRangesSlot = "ranges";
constexpr std::string_view kTriesSlot = "tries";
constexpr std::string_view kEncoderSlot = "encoder";

class DeviceChannelSection final : public DeviceSection {
 public:
  explicit DeviceChannelSection(const ChannelCodec& codec) : codec_(codec) {}

  Result<std::size_t> Encode(const DeviceContext& context, std::span<DeviceSample> samples,
                             bool delta, std::span<std::byte> out) override;
  Status Stage(const DeviceContext& context, std::span<const std::byte> section) override;
  Status Decode(const DeviceContext& context, std::span<DeviceSample> samples, bool delta) override;

 private:
  Status ChooseScales(const DeviceContext& context, std::byte* scales) const;
  Status ChooseOptimal(const DeviceContext& context, std::span<const std::uint16_t> largest,
                       std::byte* scales) const;
  // Writes fetched codes behind header and scales.
  Result<std::size_t> FetchCodes(const DeviceContext& context, std::span<std::byte> out) const;
  Status SendConstants(const DeviceContext& context, std::string_view slot,
                       const ChannelCodec::Constants& constants) const;
  ChannelJob JobFor(const DeviceContext& context, CodingPass pass, std::string_view slot,
                    std::size_t samples) const;

  const ChannelCodec& codec_;
};

template <typename Job>
Job ColumnsOf(const DeviceContext& context) {
  Job job;
  job.hidden = context.shape.hidden;
  job.tokens = context.shape.tokens;
  job.count = static_cast<std::uint32_t>(context.samples);
  job.samples = reinterpret_cast<const DeviceSample*>(context.scratch->Get(kSamplesSlot));
  return job;
}

// ---- scales ----------------------------------------------------------------------------------

Status DeviceChannelSection::ChooseScales(const DeviceContext& context, std::byte* scales) const {
  std::vector<ChannelRange> ranges(context.shape.hidden);
  const std::size_t bytes = ranges.size() * sizeof(ChannelRange);
  SHOAL_ASSIGN_OR_RETURN(std::byte* const at, context.scratch->Reserve(kRangesSlot, bytes));
  context.queue->Zero(at, bytes);
  auto job = ColumnsOf<ChannelRangeJob>(context);
  job.ranges = reinterpret_cast<ChannelRange*>(at);
  context.queue->Run(job);
  context.queue->ToHost(ranges.data(), at, bytes);
  SHOAL_RETURN_IF_ERROR(context.queue->Wait());
  std::uint32_t most = 0;
  for (const ChannelRange& range : ranges) most = std::max(most, range.most);
  SHOAL_RETURN_IF_ERROR(codec_.CheckLargest(most));

  const auto& rule = codec_.rule();
  std::vector<std::uint16_t> largest(ranges.size());
  for (std::size_t c = 0; c < ranges.size(); ++c) {
    std::byte* const scale = scales + c * codec_.ScaleBytes();
    if (rule && rule->levels() == Levels::kAffine) {
      rule->ChooseBounds(OfOrderedBits(~ranges[c].low), OfOrderedBits(ranges[c].high), scale);
      continue;
    }
    largest[c] = rule ? LevelRule::AbsMaxScale(ranges[c].most, rule->least_scale())
                      : FloatToHalf(std::bit_cast<float>(ranges[c].most));
    StoreLittle(scale, largest[c]);
  }
  const bool optimal =
      rule && rule->levels() != Levels::kAffine && rule->scale() == ScaleRule::kOptimal;
  return optimal ? ChooseOptimal(context, largest, scales) : Status::Ok();
}

// As LevelRule::Choose, whose sums the device has made.
Status DeviceChannelSection::ChooseOptimal(const DeviceContext& context,
                                           std::span<const std::uint16_t> largest,
                                           std::byte* scales) const {
  std::vector<float> errors(LevelRule::kScaleTries * largest.size());
  const std::size_t bytes = errors.size() * sizeof(float);
  SHOAL_ASSIGN_OR_RETURN(std::byte* const list,
                         context.scratch->Reserve(kRangesSlot, largest.size_bytes()));
  SHOAL_ASSIGN_OR_RETURN(std::byte* const at, context.scratch->Reserve(kTriesSlot, bytes));
  context.queue->ToDevice(list, largest.data(), largest.size_bytes());
  auto job = ColumnsOf<ChannelTryJob>(context);
  job.rule = *codec_.rule();
  job.largest = reinterpret_cast<const std::uint16_t*>(list);
  job.errors = reinterpret_cast<float*>(at);
  context.queue->Run(job);
  context.queue->ToHost(errors.data(), at, bytes);
  SHOAL_RETURN_IF_ERROR(context.queue->Wait());
  for (std::size_t c = 0; c < largest.size(); ++c) {
    if (largest[c] == 0) continue;
    const float* const tried = errors.data() + c;
    int best = 0;
    for (int t = 1; t < LevelRule::kScaleTries; ++t) {
      if (LevelRule::TriedScale(largest[c], t) < job.rule.least_scale()) break;
      const auto of = [&](int i) { return tried[static_cast<std::size_t>(i) * largest.size()]; };
      if (of(t) < of(best)) best = t;
    }
    StoreLittle(scales + c * codec_.ScaleBytes(), LevelRule::TriedScale(largest[c], best));
  }
  return Status::Ok();
}

// ---- codes -----------------------------------------------------------------------------------

// The first constants of all channels, then the second ones.
Status DeviceChannelSection::SendConstants(const DeviceContext& context, std::string_view slot,
                                           const ChannelCodec::Constants& constants) const {
  const std::size_t bytes = constants.first.size() * sizeof(float);
  SHOAL_ASSIGN_OR_RETURN(std::byte* const at, context.scratch->Reserve(slot, 2 * bytes));
  context.queue->ToDevice(at, constants.first.data(), bytes);
  context.queue->ToDevice(at + bytes, constants.second.data(), bytes);
  return context.queue->Wait();
}

ChannelJob DeviceChannelSection::JobFor(const DeviceContext& context, CodingPass pass,
                                        std::string_view slot, std::size_t samples) const {
  auto job = JobOf<ChannelJob>(context, samples);
  job.pass = pass;
  job.authors = !codec_.rule();
  job.rule = codec_.rule().value_or(
      LevelRule(codec_.bits(), Levels::kMidRise, ScaleRule::kAbsMax, Rounding::kNearest));
  job.hidden = context.shape.hidden;
  const auto words = MessageKeyWords(context.key);
  std::copy(words.begin(), words.end(), job.key);
  job.first = reinterpret_cast<const float*>(context.scratch->Get(slot));
  job.second = job.first + context.shape.hidden;
  job.codes = context.scratch->Get(kCodesSlot);
  return job;
}

Result<std::size_t> DeviceChannelSection::FetchCodes(const DeviceContext& context,
                                                     std::span<std::byte> out) const {
  const std::size_t n = context.shape.values();
  const std::size_t packed_bytes = codec_.PackedBytes(context.shape);
  const std::size_t bytes = context.samples * packed_bytes;
  const std::byte* const codes = context.scratch->Get(kCodesSlot);
  if (codec_.coder() == EntropyCoder::kNone) {
    context.queue->ToHost(out.data(), codes, bytes);
    SHOAL_RETURN_IF_ERROR(context.queue->Wait());
    return bytes;
  }
  std::vector<std::byte> packed(bytes);
  context.queue->ToHost(packed.data(), codes, bytes);
  SHOAL_RETURN_IF_ERROR(context.queue->Wait());
  // In order: what unpacking writes behind a sample's last code the next sample overwrites.
  std::vector<std::uint8_t> symbols(context.samples * n + 7);
  for (std::size_t i = 0; i < context.samples; ++i) {
    UnpackCodes(packed.data() + i * packed_bytes, (n + 7) / 8, codec_.bits(),
                symbols.data() + i * n);
  }
  return codec_.WriteCodes(&symbols, context.shape, context.samples, out);
}

Result<std::size_t> DeviceChannelSection::Encode(const DeviceContext& context,
                                                 std::span<DeviceSample> samples, bool delta,
                                                 std::span<std::byte> out) {
  SHOAL_CHECK(!delta && context.samples == samples.size());
  SHOAL_CHECK(out.size() >= codec_.EncodedBytesMax(context.shape, samples.size()));
  const SampleShape shape = context.shape;
  SHOAL_RETURN_IF_ERROR(SendSamples(context, samples));
  std::byte* const scales = out.data() + kPayloadHeaderBytes;
  SHOAL_RETURN_IF_ERROR(ChooseScales(context, scales));
  SHOAL_RETURN_IF_ERROR(
      context.scratch->Reserve(kCodesSlot, samples.size() * codec_.PackedBytes(shape)).status());
  SHOAL_RETURN_IF_ERROR(
      SendConstants(context, kEncoderSlot, codec_.EncoderConstants(shape, scales)));
  SHOAL_RETURN_IF_ERROR(
      SendConstants(context, kScalesSlot, codec_.DecoderConstants(shape, scales)));
  context.queue->Run(JobFor(context, CodingPass::kEncode, kEncoderSlot, samples.size()));
  WritePayloadHeader(codec_.HeaderFor(shape, samples.size()), out.data());
  const std::size_t at = codec_.CodesAt(shape);
  SHOAL_ASSIGN_OR_RETURN(const std::size_t bytes, FetchCodes(context, out.subspan(at)));
  return at + bytes;
}

Status DeviceChannelSection::Stage(const DeviceContext& context,
                                   std::span<const std::byte> section) {
  const SampleShape shape = context.shape;
  const std::size_t n = shape.values();
  const std::size_t packed_bytes = codec_.PackedBytes(shape);
  std::vector<std::uint8_t> codes;
  SHOAL_RETURN_IF_ERROR(codec_.Open(section, shape, context.samples, &codes));
  SHOAL_ASSIGN_OR_RETURN(std::byte* const at,
                         context.scratch->Reserve(kCodesSlot, context.samples * packed_bytes));
  std::vector<std::byte> packed;
  const std::byte* from = section.data() + codec_.CodesAt(shape);
  if (codec_.coder() != EntropyCoder::kNone) {
    packed.resize(context.samples * packed_bytes);
    std::vector<std::uint8_t> one((n + 7) / 8 * 8);
    for (std::size_t i = 0; i < context.samples; ++i) {
      std::copy_n(codes.begin() + static_cast<std::ptrdiff_t>(i * n), n, one.begin());
      PackCodes(one.data(), one.size() / 8, codec_.bits(), packed.data() + i * packed_bytes);
    }
    from = packed.data();
  }
  context.queue->ToDevice(at, from, context.samples * packed_bytes);
  return SendConstants(context, kScalesSlot,
                       codec_.DecoderConstants(shape, section.data() + kPayloadHeaderBytes));
}

Status DeviceChannelSection::Decode(const DeviceContext& context, std::span<DeviceSample> samples,
                                    bool delta) {
  SHOAL_CHECK(!delta);
  SHOAL_RETURN_IF_ERROR(SendSamples(context, samples));
  context.queue->Run(JobFor(context, CodingPass::kDecode, kScalesSlot, samples.size()));
  return context.queue->Wait();
}

}  // namespace

std::unique_ptr<DeviceSection> NewDeviceChannelSection(const ChannelCodec& codec) {
  return std::make_unique<DeviceChannelSection>(codec);
}

}  // namespace shoal::compression
