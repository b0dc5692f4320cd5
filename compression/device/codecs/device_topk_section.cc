#include "compression/device/codecs/device_topk_section.h"

#include <algorithm>
#include <string>
#include <vector>

#include "compression/api/sample_layout.h"
#include "compression/codecs/topk_codec.h"
#include "compression/entropy/positions.h"
#include "compression/simd/kernels.h"

namespace shoal::compression {
namespace {

// In memory of the device: what selecting needs, and the section's positions.
constexpr std::string_view kCountersSlot = "topk counters";
constexpr std::string_view kLeastSlot = "topk least kept";
constexpr std::string_view kBeforeSlot = "topk before runs";
constexpr std::string_view kKeptSlot = "topk kept values";
constexpr std::string_view kBitmapSlot = "topk bitmap";
constexpr std::string_view kRanksSlot = "topk ranks";

constexpr std::size_t kRoomBehindCodes = 8;

template <typename T>
T* At(const DeviceContext& context, std::string_view slot) {
  return reinterpret_cast<T*>(context.scratch->Get(slot));
}

class DeviceTopKSection : public DeviceSection {
 public:
  explicit DeviceTopKSection(const TopKCodec& codec) : codec_(codec) {}

  Result<std::size_t> Encode(const DeviceContext& context, std::span<DeviceSample> samples,
                             bool delta, std::span<std::byte> out) override;
  Status Stage(const DeviceContext& context, std::span<const std::byte> section) override;
  Status Decode(const DeviceContext& context, std::span<DeviceSample> samples, bool delta) override;

 private:
  // Of a sample and of the section.
  static std::size_t Runs(const DeviceContext& context) {
    return RunsOf(static_cast<std::uint32_t>(context.shape.values()));
  }
  std::size_t AllKept(const DeviceContext& context) const {
    return context.samples * codec_.Kept(context.shape);
  }
  std::size_t AllScaleBytes(const DeviceContext& context) const {
    return context.samples * codec_.ScaleBytes(codec_.Kept(context.shape));
  }
  std::size_t CodeBytes(const DeviceContext& context) const {
    return (AllKept(context) + 7) / 8 * static_cast<std::size_t>(codec_.bits());
  }
  Status Reserve(const DeviceContext& context) const;
  Status Select(const DeviceContext& context) const;
  KeptJob JobFor(const DeviceContext& context, CodingPass pass, std::size_t samples) const;
  std::size_t WriteSection(const DeviceContext& context, std::span<std::byte> bitmaps,
                           std::span<const std::byte> scales, std::span<const std::byte> packed,
                           std::span<std::byte> out) const;

  const TopKCodec& codec_;
};

// Room for a section.
Status DeviceTopKSection::Reserve(const DeviceContext& context) const {
  const std::size_t runs = context.samples * Runs(context);
  for (const auto& [slot, bytes] : {std::pair(kBitmapSlot, runs * kRunBytes),
                                    std::pair(kRanksSlot, runs * sizeof(std::uint32_t)),
                                    std::pair(kScalesSlot, AllScaleBytes(context)),
                                    std::pair(kCodesSlot, CodeBytes(context) + kRoomBehindCodes)}) {
    SHOAL_RETURN_IF_ERROR(context.scratch->Reserve(slot, bytes).status());
  }
  return Status::Ok();
}

// Asks for the positions and kept values of the samples that were sent, some at a time.
Status DeviceTopKSection::Select(const DeviceContext& context) const {
  const std::size_t at_once = std::min(context.samples, kSelectedAtOnce);
  const std::size_t counter_bytes = at_once * kDigitCounters * sizeof(std::uint32_t);
  for (const auto& [slot, bytes] :
       {std::pair(kCountersSlot, counter_bytes), std::pair(kLeastSlot, at_once * sizeof(LeastKept)),
        std::pair(kBeforeSlot, at_once * Runs(context) * sizeof(std::uint64_t)),
        std::pair(kKeptSlot, AllKept(context) * sizeof(float))}) {
    SHOAL_RETURN_IF_ERROR(context.scratch->Reserve(slot, bytes).status());
  }
  auto job = JobOf<SelectJob>(context, context.samples);
  job.kept = static_cast<std::uint32_t>(codec_.Kept(context.shape));
  job.counters = At<std::uint32_t>(context, kCountersSlot);
  job.least = At<LeastKept>(context, kLeastSlot);
  job.before = At<std::uint64_t>(context, kBeforeSlot);
  job.kept_values = At<float>(context, kKeptSlot);
  job.bitmap = At<std::byte>(context, kBitmapSlot);
  job.ranks = At<std::uint32_t>(context, kRanksSlot);
  for (std::size_t done = 0; done < context.samples; done += at_once) {
    job.count = static_cast<std::uint32_t>(std::min(context.samples - done, at_once));
    context.queue->Zero(context.scratch->Get(kCountersSlot), counter_bytes);
    context.queue->Run(job);
    job.samples += job.count;
    job.extremes += job.count;
  }
  return Status::Ok();
}

KeptJob DeviceTopKSection::JobFor(const DeviceContext& context, CodingPass pass,
                                  std::size_t samples) const {
  auto job = JobOf<KeptJob>(context, samples);
  job.pass = pass;
  job.bits = codec_.bits();
  job.bucket = codec_.bucket();
  job.kept = static_cast<std::uint32_t>(codec_.Kept(context.shape));
  job.kept_values = At<float>(context, kKeptSlot);
  job.bitmap = At<std::byte>(context, kBitmapSlot);
  job.ranks = At<std::uint32_t>(context, kRanksSlot);
  job.scales = context.scratch->Get(kScalesSlot);
  job.codes = context.scratch->Get(kCodesSlot);
  return job;
}

Result<std::size_t> DeviceTopKSection::Encode(const DeviceContext& context,
                                              std::span<DeviceSample> samples, bool delta,
                                              std::span<std::byte> out) {
  SHOAL_CHECK(!delta && context.samples == samples.size());
  SHOAL_CHECK(out.size() >= codec_.EncodedBytesMax(context.shape, samples.size()));
  SHOAL_RETURN_IF_ERROR(codec_.CheckShape(context.shape));
  SHOAL_RETURN_IF_ERROR(Reserve(context));
  SHOAL_RETURN_IF_ERROR(SendSamples(context, samples));
  SHOAL_RETURN_IF_ERROR(Select(context));
  const KeptJob job = JobFor(context, CodingPass::kEncode, samples.size());
  context.queue->Run(job);
  std::vector<Extremes> extremes(samples.size());
  // A byte in front, for the form of the first sample's positions.
  std::vector<std::byte> bitmaps(1 + samples.size() * Runs(context) * kRunBytes);
  std::vector<std::byte> scales(AllScaleBytes(context));
  std::vector<std::byte> codes(CodeBytes(context));
  FetchExtremes(context, extremes);
  context.queue->ToHost(bitmaps.data() + 1, job.bitmap, bitmaps.size() - 1);
  context.queue->ToHost(scales.data(), job.scales, scales.size());
  context.queue->ToHost(codes.data(), job.codes, codes.size());
  SHOAL_RETURN_IF_ERROR(context.queue->Wait());
  for (const Extremes& e : extremes) {
    SHOAL_RETURN_IF_ERROR(CheckMagnitude(e.x, kMagnitudeMax, codec_.spec()));
  }
  return WriteSection(context, bitmaps, scales, codes, out);
}

std::size_t DeviceTopKSection::WriteSection(const DeviceContext& context,
                                            std::span<std::byte> bitmaps,
                                            std::span<const std::byte> scales,
                                            std::span<const std::byte> packed,
                                            std::span<std::byte> out) const {
  const std::size_t n = context.shape.values();
  std::size_t at = codec_.WriteHead(context.shape, context.samples, out.data());
  std::vector<std::uint32_t> positions(codec_.Kept(context.shape));
  for (std::size_t i = 0; i < context.samples; ++i) {
    // With form 0, a bitmap, in front it reads as a payload's positions. What stands there belongs
    // to the sample before, which is done.
    const auto bitmap = bitmaps.subspan(i * Runs(context) * kRunBytes);
    bitmap[0] = std::byte{0};
    SHOAL_CHECK(ReadPositions(bitmap, n, positions, codec_.spec()).ok());
    at += WritePositions(positions, n, out.data() + at);
  }
  std::copy(scales.begin(), scales.end(), out.begin() + static_cast<std::ptrdiff_t>(at));
  at += scales.size();
  std::vector<std::uint8_t> codes((AllKept(context) + 7) / 8 * 8);
  UnpackCodes(packed.data(), codes.size() / 8, codec_.bits(), codes.data());
  return at + WriteSymbols(codec_.coder(), std::span(codes).first(AllKept(context)), codec_.bits(),
                           out.subspan(at));
}

Status DeviceTopKSection::Stage(const DeviceContext& context, std::span<const std::byte> section) {
  SHOAL_RETURN_IF_ERROR(codec_.CheckShape(context.shape));
  TopKParts parts;
  SHOAL_RETURN_IF_ERROR(codec_.ReadParts(section, context.shape, context.samples, &parts));
  SHOAL_RETURN_IF_ERROR(Reserve(context));
  const std::size_t kept = codec_.Kept(context.shape);
  const std::size_t runs = Runs(context);
  std::vector<std::byte> bitmap(context.samples * runs * kRunBytes);
  std::vector<std::uint32_t> ranks(context.samples * runs);
  for (std::size_t i = 0; i < context.samples; ++i) {
    std::size_t run = 0;
    for (std::uint32_t rank = 0; rank < kept; ++rank) {
      const std::size_t position = parts.positions[i * kept + rank];
      bitmap[i * runs * kRunBytes + position / 8] |= static_cast<std::byte>(1U << position % 8);
      for (; run <= position / kRunValues; ++run) ranks[i * runs + run] = rank;
    }
    for (; run < runs; ++run) ranks[i * runs + run] = static_cast<std::uint32_t>(kept);
  }
  parts.codes.resize((parts.codes.size() + 7) / 8 * 8);
  std::vector<std::byte> packed(CodeBytes(context));
  PackCodes(parts.codes.data(), parts.codes.size() / 8, codec_.bits(), packed.data());
  DeviceQueue& queue = *context.queue;
  queue.ToDevice(context.scratch->Get(kBitmapSlot), bitmap.data(), bitmap.size());
  queue.ToDevice(context.scratch->Get(kRanksSlot), ranks.data(), ranks.size() * sizeof(ranks[0]));
  queue.ToDevice(context.scratch->Get(kScalesSlot), parts.scales, AllScaleBytes(context));
  queue.ToDevice(context.scratch->Get(kCodesSlot), packed.data(), packed.size());
  return queue.Wait();
}

Status DeviceTopKSection::Decode(const DeviceContext& context, std::span<DeviceSample> samples,
                                 bool delta) {
  SHOAL_CHECK(!delta);
  SHOAL_RETURN_IF_ERROR(SendSamples(context, samples));
  context.queue->Run(JobFor(context, CodingPass::kDecode, samples.size()));
  return context.queue->Wait();
}

}  // namespace

std::unique_ptr<DeviceSection> NewDeviceTopKSection(const TopKCodec& codec) {
  return std::make_unique<DeviceTopKSection>(codec);
}

}  // namespace shoal::compression
