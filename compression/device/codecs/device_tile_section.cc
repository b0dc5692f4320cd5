#include "compression/device/codecs/device_tile_section.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>
#include <vector>

#include "compression/api/message_noise.h"
#include "compression/codecs/adaptive_tiles.h"
#include "compression/codecs/tiles_codec.h"
#include "compression/device/codecs/device_bucket_section.h"

namespace shoal::compression {
namespace {

static_assert(std::endian::native == std::endian::little, "words of widths are a payload's bytes");

// In memory of the device, with the scales and codes of bucket sections.
constexpr std::string_view kRangesSlot = "tile ranges";
constexpr std::string_view kWidthsSlot = "tile widths";
constexpr std::string_view kStartsSlot = "tile starts";

Status CheckValues(std::span<const Extremes> extremes, std::string_view spec) {
  for (const Extremes& e : extremes) {
    SHOAL_RETURN_IF_ERROR(CheckMagnitude(e.x, kMagnitudeMax, spec));
  }
  return Status::Ok();
}

// ---- one width -------------------------------------------------------------------------------

class DeviceTileSection : public DeviceSection {
 public:
  explicit DeviceTileSection(const BucketFormat& format) : format_(format) {}

  Result<std::size_t> Encode(const DeviceContext& context, std::span<DeviceSample> samples,
                             bool delta, std::span<std::byte> out) override;
  Status Stage(const DeviceContext& context, std::span<const std::byte> section) override {
    return StageBuckets(format_, context, section);
  }
  Status Decode(const DeviceContext& context, std::span<DeviceSample> samples, bool delta) override;

 private:
  TileJob JobFor(const DeviceContext& context, CodingPass pass, std::size_t samples) const {
    auto job = JobOf<TileJob>(context, samples);
    job.pass = pass;
    DescribeBuckets(format_, context, &job);
    job.factor = pass == CodingPass::kEncode ? TileFactor(job.bucket) : TileBackFactor(job.bucket);
    return job;
  }

  const BucketFormat& format_;
};

Result<std::size_t> DeviceTileSection::Encode(const DeviceContext& context,
                                              std::span<DeviceSample> samples, bool delta,
                                              std::span<std::byte> out) {
  SHOAL_CHECK(!delta && context.samples == samples.size());
  SHOAL_CHECK(out.size() >= format_.BytesMax(context.shape, samples.size()));
  SHOAL_RETURN_IF_ERROR(CheckBucketFits(format_.code.bucket(), context.shape, format_.spec));
  SHOAL_RETURN_IF_ERROR(ReserveBuckets(format_, context));
  SHOAL_RETURN_IF_ERROR(SendSamples(context, samples));
  context.queue->Run(JobFor(context, CodingPass::kEncode, samples.size()));
  std::vector<Extremes> extremes(samples.size());
  FetchExtremes(context, extremes);
  const Result<std::size_t> bytes = FetchBuckets(format_, context, out);
  if (!bytes.ok()) return bytes;
  SHOAL_RETURN_IF_ERROR(CheckValues(extremes, format_.spec));
  return bytes;
}

Status DeviceTileSection::Decode(const DeviceContext& context, std::span<DeviceSample> samples,
                                 bool delta) {
  SHOAL_CHECK(!delta);
  SHOAL_RETURN_IF_ERROR(SendSamples(context, samples));
  context.queue->Run(JobFor(context, CodingPass::kDecode, samples.size()));
  return context.queue->Wait();
}

// ---- widths by range -------------------------------------------------------------------------

class DeviceAdaptiveTileSection : public DeviceSection {
 public:
  explicit DeviceAdaptiveTileSection(const AdaptiveTilesCodec& codec) : codec_(codec) {}

  Result<std::size_t> Encode(const DeviceContext& context, std::span<DeviceSample> samples,
                             bool delta, std::span<std::byte> out) override;
  Status Stage(const DeviceContext& context, std::span<const std::byte> section) override;
  Status Decode(const DeviceContext& context, std::span<DeviceSample> samples, bool delta) override;

 private:
  using Layout = AdaptiveTilesCodec::Layout;

  // The widths as the device takes them.
  struct Widths {
    std::vector<std::uint64_t> words, starts;
  };

  Layout LayoutOf(const DeviceContext& context) const {
    return codec_.LayoutOf(context.samples * context.shape.values());
  }
  Status Reserve(const DeviceContext& context) const;
  TileJob JobFor(const DeviceContext& context, CodingPass pass, std::size_t samples) const;
  // The widths that a payload has for so many tiles.
  Widths WidthsOf(const std::byte* packed, std::size_t tiles) const;
  // `widths` stays until the queue has been waited for.
  void SendWidths(const DeviceContext& context, const Widths& widths) const;
  // Fills in all of `out` but the codes.
  Status Measure(const DeviceContext& context, std::span<DeviceSample> samples,
                 std::span<std::byte> out) const;

  const AdaptiveTilesCodec& codec_;
};

Status DeviceAdaptiveTileSection::Reserve(const DeviceContext& context) const {
  const Layout layout = LayoutOf(context);
  const std::size_t words = (layout.tiles + kTilesOfWord - 1) / kTilesOfWord;
  for (const auto& [slot, bytes] : {std::pair(kScalesSlot, layout.widths - kPayloadHeaderBytes),
                                    std::pair(kCodesSlot, layout.end - layout.codes),
                                    std::pair(kWidthsSlot, words * sizeof(std::uint64_t)),
                                    std::pair(kStartsSlot, words * sizeof(std::uint64_t))}) {
    SHOAL_RETURN_IF_ERROR(context.scratch->Reserve(slot, bytes).status());
  }
  return Status::Ok();
}

TileJob DeviceAdaptiveTileSection::JobFor(const DeviceContext& context, CodingPass pass,
                                          std::size_t samples) const {
  auto job = JobOf<TileJob>(context, samples);
  job.pass = pass;
  job.rule = codec_.rule();
  job.bucket = codec_.tile();
  job.buckets = job.values / job.bucket;
  const auto words = MessageKeyWords(context.key);
  std::copy(words.begin(), words.end(), job.key);
  job.scales = context.scratch->Get(kScalesSlot);
  job.codes = context.scratch->Get(kCodesSlot);
  job.factor = pass == CodingPass::kEncode ? TileFactor(job.bucket) : TileBackFactor(job.bucket);
  job.widths = reinterpret_cast<const std::uint64_t*>(context.scratch->Get(kWidthsSlot));
  job.starts = reinterpret_cast<const std::uint64_t*>(context.scratch->Get(kStartsSlot));
  job.least_width = LeastTileWidth(job.rule.bits());
  return job;
}

DeviceAdaptiveTileSection::Widths DeviceAdaptiveTileSection::WidthsOf(const std::byte* packed,
                                                                      std::size_t tiles) const {
  constexpr std::uint64_t kLow = 0x5555555555555555;
  const auto least = static_cast<std::uint64_t>(LeastTileWidth(codec_.rule().bits()));
  Widths widths;
  widths.words.resize((tiles + kTilesOfWord - 1) / kTilesOfWord);
  std::memcpy(widths.words.data(), packed, (tiles + 3) / 4);
  std::uint64_t sum = 0;
  for (const std::uint64_t word : widths.words) {
    widths.starts.push_back(sum);
    sum += kTilesOfWord * least + static_cast<std::uint64_t>(std::popcount(word & kLow)) +
           2 * static_cast<std::uint64_t>(std::popcount(word & ~kLow));
  }
  return widths;
}

void DeviceAdaptiveTileSection::SendWidths(const DeviceContext& context,
                                           const Widths& widths) const {
  for (const auto& [slot, words] :
       {std::pair(kWidthsSlot, &widths.words), std::pair(kStartsSlot, &widths.starts)}) {
    context.queue->ToDevice(context.scratch->Get(slot), words->data(),
                            words->size() * sizeof(std::uint64_t));
  }
}

Status DeviceAdaptiveTileSection::Measure(const DeviceContext& context,
                                          std::span<DeviceSample> samples,
                                          std::span<std::byte> out) const {
  const Layout layout = LayoutOf(context);
  const std::size_t range_bytes = layout.tiles * sizeof(float);
  SHOAL_ASSIGN_OR_RETURN(std::byte* const ranges_at,
                         context.scratch->Reserve(kRangesSlot, range_bytes));
  TileJob job = JobFor(context, CodingPass::kEncode, samples.size());
  job.ranges = reinterpret_cast<float*>(ranges_at);
  job.widths = nullptr;
  context.queue->Run(job);
  std::vector<Extremes> extremes(samples.size());
  std::vector<float> ranges(layout.tiles);
  FetchExtremes(context, extremes);
  context.queue->ToHost(ranges.data(), ranges_at, range_bytes);
  context.queue->ToHost(out.data() + kPayloadHeaderBytes, job.scales,
                        layout.widths - kPayloadHeaderBytes);
  SHOAL_RETURN_IF_ERROR(context.queue->Wait());
  SHOAL_RETURN_IF_ERROR(CheckValues(extremes, codec_.spec()));
  WritePayloadHeader(codec_.HeaderFor(context.samples * context.shape.values()), out.data());
  std::fill(out.data() + layout.widths, out.data() + layout.codes, std::byte{0});
  const std::vector<std::uint8_t> widths = TileWidths(ranges, job.rule.bits());
  for (std::size_t t = 0; t < layout.tiles; ++t) {
    out[layout.widths + t / 4] |=
        static_cast<std::byte>((widths[t] - job.least_width) << t % 4 * 2);
  }
  return Status::Ok();
}

Result<std::size_t> DeviceAdaptiveTileSection::Encode(const DeviceContext& context,
                                                      std::span<DeviceSample> samples, bool delta,
                                                      std::span<std::byte> out) {
  SHOAL_CHECK(!delta && context.samples == samples.size());
  const Layout layout = LayoutOf(context);
  SHOAL_CHECK(out.size() >= layout.end);
  SHOAL_RETURN_IF_ERROR(CheckBucketFits(codec_.tile(), context.shape, codec_.spec()));
  SHOAL_RETURN_IF_ERROR(Reserve(context));
  SHOAL_RETURN_IF_ERROR(SendSamples(context, samples));
  SHOAL_RETURN_IF_ERROR(Measure(context, samples, out));
  const Widths widths = WidthsOf(out.data() + layout.widths, layout.tiles);
  SendWidths(context, widths);
  const TileJob job = JobFor(context, CodingPass::kEncode, samples.size());
  context.queue->Run(job);
  context.queue->ToHost(out.data() + layout.codes, job.codes, layout.end - layout.codes);
  SHOAL_RETURN_IF_ERROR(context.queue->Wait());
  return layout.end;
}

Status DeviceAdaptiveTileSection::Stage(const DeviceContext& context,
                                        std::span<const std::byte> section) {
  SHOAL_RETURN_IF_ERROR(CheckBucketFits(codec_.tile(), context.shape, codec_.spec()));
  SHOAL_RETURN_IF_ERROR(codec_.CheckSection(section, context.samples * context.shape.values()));
  SHOAL_RETURN_IF_ERROR(Reserve(context));
  const Layout layout = LayoutOf(context);
  const Widths widths = WidthsOf(section.data() + layout.widths, layout.tiles);
  SendWidths(context, widths);
  context.queue->ToDevice(context.scratch->Get(kScalesSlot), section.data() + kPayloadHeaderBytes,
                          layout.widths - kPayloadHeaderBytes);
  context.queue->ToDevice(context.scratch->Get(kCodesSlot), section.data() + layout.codes,
                          layout.end - layout.codes);
  return context.queue->Wait();
}

Status DeviceAdaptiveTileSection::Decode(const DeviceContext& context,
                                         std::span<DeviceSample> samples, bool delta) {
  SHOAL_CHECK(!delta);
  SHOAL_RETURN_IF_ERROR(SendSamples(context, samples));
  context.queue->Run(JobFor(context, CodingPass::kDecode, samples.size()));
  return context.queue->Wait();
}

}  // namespace

std::unique_ptr<DeviceSection> NewDeviceTileSection(const TilesCodec& codec) {
  return std::make_unique<DeviceTileSection>(codec.format());
}

std::unique_ptr<DeviceSection> NewDeviceAdaptiveTileSection(const AdaptiveTilesCodec& codec) {
  return std::make_unique<DeviceAdaptiveTileSection>(codec);
}

}  // namespace shoal::compression
