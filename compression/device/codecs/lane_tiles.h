// Tiles as lanes of a GPU's warp rotate, code and read them (lane_values.h says how this is built
// and tested).
//
// A lane has a group of 8 adjacent values. LoadTileGroup, then RotateOverLanes for each distance 1,
// 2, ... below LanesOfTile; all in registers. Encoding goes on with RangeOfGroup, the largest over
// the tile's lanes, and CodeTileGroup; decoding is LoadTileLevels, the same rotation, and
// StoreTileGroup. Internal to compression/.

#ifndef SHOAL_COMPRESSION_DEVICE_CODECS_LANE_TILES_H_
#define SHOAL_COMPRESSION_DEVICE_CODECS_LANE_TILES_H_

#include "compression/device/codecs/lane_groups.h"
#include "compression/device/jobs/tile_jobs.h"

namespace shoal::compression {

SHOAL_LANE std::uint32_t TileOf(const TileJob& job, std::uint32_t group) {
  return group * kLaneGroup / job.bucket;
}

// ---- rotation, as RotateTiles (tile_kernels.h) -----------------------------------------------

// The strides that lie inside a group.
SHOAL_LANE void RotateInGroup(std::uint32_t tile, float (&y)[kLaneGroup]) {
  SHOAL_UNROLL
  for (int stride = 1; stride < kLaneGroup; stride *= 2) {
    if (static_cast<std::uint32_t>(stride) >= tile) continue;
    SHOAL_UNROLL
    for (int j = 0; j < kLaneGroup; ++j) {
      if ((j & stride) != 0) continue;
      const float a = y[j];
      const float b = y[j + stride];
      y[j] = a + b;
      y[j + stride] = a - b;
    }
  }
}

// A stride of as many groups as `other`'s lane is away; `upper`: the other one comes first.
SHOAL_LANE void RotateOverLanes(bool upper, const float (&other)[kLaneGroup],
                                float (&y)[kLaneGroup]) {
  SHOAL_UNROLL
  for (int j = 0; j < kLaneGroup; ++j) y[j] = upper ? other[j] - y[j] : y[j] + other[j];
}

SHOAL_LANE void LoadTileGroup(const TileJob& job, const DeviceSample& sample, std::uint32_t group,
                              float (&y)[kLaneGroup], Extremes& extremes) {
  const std::uint32_t position = group * kLaneGroup;
  LoadFloats(sample.x + position, GroupCount(job.values, position), y);
  SHOAL_UNROLL
  for (int j = 0; j < kLaneGroup; ++j) {
    Raise(extremes.x, MagnitudeBits(y[j]));
    y[j] = y[j] * job.factor;
  }
  RotateInGroup(job.bucket, y);
}

SHOAL_LANE void StoreTileGroup(const TileJob& job, const DeviceSample& sample, std::uint32_t group,
                               const float (&y)[kLaneGroup]) {
  const std::uint32_t position = group * kLaneGroup;
  StoreFloats(y, GroupCount(job.values, position), sample.values + position);
}

// ---- scales ----------------------------------------------------------------------------------

SHOAL_LANE LaneRange RangeOfGroup(const float (&y)[kLaneGroup]) {
  LaneRange range;
  SHOAL_UNROLL
  for (int j = 0; j < kLaneGroup; ++j) range.Add(y[j]);
  return range;
}

// What AdaptiveTilesCodec measures a tile by.
SHOAL_LANE float WidthRange(const LevelRule& rule, const LaneRange& range) {
  if (rule.levels() == Levels::kAffine) return range.high - range.low;
  return 2 * std::bit_cast<float>(range.most);
}

// Whether scales are found by trial, among kScaleTries from `largest` down.
SHOAL_LANE bool TriesScales(const LevelRule& rule) {
  return rule.scale() == ScaleRule::kOptimal && rule.levels() != Levels::kAffine;
}

// `error` and that of values [first, end) of a group with scale number t. Errors are added up in
// the order of the values, so the lanes of a tile hand one on.
SHOAL_LANE float AddTryError(const LevelRule& rule, std::uint16_t largest, int t, int first,
                             int end, const float (&y)[kLaneGroup], float error) {
  const ScaleBits scale{LevelRule::TriedScale(largest, t), 0};
  const LevelConstants encoder = rule.ErrorEncoder(scale);
  const LevelConstants decoder = rule.Decoder(scale);
  const float unit = LevelRule::ErrorUnit(largest);
  SHOAL_UNROLL
  for (int j = 0; j < kLaneGroup; ++j) {
    if (j < first || j >= end) continue;
    const auto code = static_cast<int>(CodeOf(rule, y[j], encoder));
    error = error + rule.MissedSquare(y[j], code, decoder, unit);
  }
  return error;
}

// Scale number t with its error; one that loses against every other if there is no such scale.
SHOAL_LANE ScaleTry TryOf(const LevelRule& rule, std::uint16_t largest, int t, float error) {
  const ScaleTry none{std::bit_cast<float>(kFloatInfinity), LevelRule::kScaleTries, largest};
  if (largest == 0 || t < 0 || t >= LevelRule::kScaleTries) return none;
  const std::uint16_t scale = LevelRule::TriedScale(largest, t);
  if (scale < rule.least_scale()) return none;
  return {error, static_cast<std::uint32_t>(t), scale};
}

// Of tiles that share the group: finds and stores the scales.
SHOAL_LANE void StoreSmallScales(const TileJob& job, const DeviceSample& sample,
                                 std::uint32_t group, const float (&y)[kLaneGroup]) {
  const std::uint32_t position = group * kLaneGroup;
  const int count = GroupCount(job.values, position);
  const int tile = static_cast<int>(job.bucket);
  for (int first = 0; first < count; first += tile) {
    LaneRange range;
    SHOAL_UNROLL
    for (int j = 0; j < kLaneGroup; ++j) {
      if (j >= first && j < first + tile) range.Add(y[j]);
    }
    ScaleBits scale = RangeScale(job.rule, range);
    if (TriesScales(job.rule)) {
      ScaleTry best = TryOf(job.rule, scale.first, -1, 0);
      for (int t = 0; t < LevelRule::kScaleTries; ++t) {
        const float error = AddTryError(job.rule, scale.first, t, first, first + tile, y, 0);
        best.Add(TryOf(job.rule, scale.first, t, error));
      }
      scale.first = best.scale;
    }
    StoreScale(job, sample.index, (position + static_cast<std::uint32_t>(first)) / job.bucket,
               scale);
  }
}

// ---- codes -----------------------------------------------------------------------------------

// The width of an adaptive tile, and where the codes of one of its groups are.
struct GroupCodes {
  int width;
  std::byte* codes;
};
SHOAL_LANE GroupCodes CodesOfGroup(const TileJob& job, const DeviceSample& sample,
                                   std::uint32_t group) {
  const std::uint32_t in_sample = TileOf(job, group);
  const std::size_t tile = std::size_t{sample.index} * job.buckets + in_sample;
  const std::uint64_t word = job.widths[tile / kTilesOfWord];
  const auto before = static_cast<std::uint32_t>(tile % kTilesOfWord);
  const std::uint64_t others = word & ((std::uint64_t{1} << (2 * before)) - 1);
  const std::uint32_t above =
      OnesOf(others & 0x5555555555555555U) + 2 * OnesOf(others & 0xaaaaaaaaaaaaaaaaU);
  const std::uint64_t sum = job.starts[tile / kTilesOfWord] + above +
                            before * static_cast<std::uint32_t>(job.least_width);
  const int width = job.least_width + static_cast<int>(word >> (2 * before) & 3);
  const std::uint32_t groups = job.bucket / kLaneGroup;
  const std::uint32_t in_tile = group - in_sample * groups;
  return {width, job.codes + sum * groups + std::size_t{in_tile} * static_cast<unsigned>(width)};
}

// Groups of small adaptive tiles begin at any byte.
SHOAL_LANE bool AlignedGroups(const TileJob& job) {
  return job.widths == nullptr || job.bucket >= 64;
}
SHOAL_LANE void StoreTileCodes(const TileJob& job, GroupCodes at, std::uint64_t codes) {
  if (AlignedGroups(job)) return StoreCodes(codes, at.width, at.codes);
  for (int i = 0; i < at.width; ++i, codes >>= 8) at.codes[i] = static_cast<std::byte>(codes);
}
SHOAL_LANE std::uint64_t LoadTileCodes(const TileJob& job, GroupCodes at) {
  if (AlignedGroups(job)) return LoadCodes(at.codes, at.width);
  std::uint64_t codes = 0;
  for (int i = at.width; i-- > 0;) {
    codes = codes << 8 | static_cast<std::uint64_t>(at.codes[i]);
  }
  return codes;
}

SHOAL_LANE LevelRule RuleOfWidth(const LevelRule& rule, int width) {
  return LevelRule(width, rule.levels(), rule.scale(), rule.rounding())
      .WithLeastScale(rule.least_scale());
}

// Codes of rotated values whose tile has this scale; a tile of at least a group.
SHOAL_LANE void CodeTileGroup(const TileJob& job, const DeviceSample& sample, std::uint32_t group,
                              ScaleBits scale, const float (&y)[kLaneGroup]) {
  const GroupCodes at = job.widths != nullptr
                            ? CodesOfGroup(job, sample, group)
                            : GroupCodes{job.rule.bits(), CodeAddress(job, sample.index, group)};
  const LevelRule rule = RuleOfWidth(job.rule, at.width);
  const LevelConstants encoder = rule.Encoder(scale);
  float noise[kLaneGroup] = {};
  if (rule.rounding() == Rounding::kStochastic) {
    GroupNoise(job.key, std::uint64_t{sample.index} * job.values + group * kLaneGroup, noise);
  }
  std::uint64_t codes = 0;
  SHOAL_UNROLL
  for (int j = kLaneGroup - 1; j >= 0; --j) {
    LevelConstants noisy = encoder;
    if (rule.rounding() == Rounding::kStochastic) noisy.offset = noisy.offset + noise[j];
    codes = codes << at.width | CodeOf(rule, y[j], noisy);
  }
  StoreTileCodes(job, at, codes);
}

// The same of tiles that share the group, whose scales are stored.
SHOAL_LANE void CodeSmallTiles(const TileJob& job, const DeviceSample& sample, std::uint32_t group,
                               const float (&y)[kLaneGroup]) {
  const std::uint32_t position = group * kLaneGroup;
  const int count = GroupCount(job.values, position);
  float noise[kLaneGroup] = {};
  if (job.rule.rounding() == Rounding::kStochastic) {
    GroupNoise(job.key, std::uint64_t{sample.index} * job.values + position, noise);
  }
  std::uint64_t codes = 0;
  ForEachInGroup<true>(job, sample, position, count, UseCode{job.rule, count, y, noise, codes});
  StoreCodes(codes, job.rule.bits(), CodeAddress(job, sample.index, group));
}

// The levels of a group, ready to be rotated back.
SHOAL_LANE void LoadTileLevels(const TileJob& job, const DeviceSample& sample, std::uint32_t group,
                               float (&y)[kLaneGroup]) {
  const std::uint32_t position = group * kLaneGroup;
  if (job.widths == nullptr) {
    const int bits = job.rule.bits();
    const std::uint64_t codes = LoadCodes(CodeAddress(job, sample.index, group), bits);
    ForEachInGroup<false>(job, sample, position, GroupCount(job.values, position),
                          UseLevel{codes, bits, y});
  } else {
    const GroupCodes at = CodesOfGroup(job, sample, group);
    const LevelConstants decoder =
        RuleOfWidth(job.rule, at.width).Decoder(LoadScale(job, sample.index, TileOf(job, group)));
    const UseLevel use{LoadTileCodes(job, at), at.width, y};
    SHOAL_UNROLL
    for (int j = 0; j < kLaneGroup; ++j) use(j, decoder);
  }
  SHOAL_UNROLL
  for (int j = 0; j < kLaneGroup; ++j) y[j] = y[j] * job.factor;
  RotateInGroup(job.bucket, y);
}

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_DEVICE_CODECS_LANE_TILES_H_
