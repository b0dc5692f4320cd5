// Tiles (tiles_codec.h, adaptive_tiles.h) on a device: a tile is rotated and coded in the registers
// of its lanes. Widths by range are chosen on the host, from the ranges of all tiles. Internal to
// compression/. Thread: as DeviceSection.

#ifndef SHOAL_COMPRESSION_DEVICE_CODECS_DEVICE_TILE_SECTION_H_
#define SHOAL_COMPRESSION_DEVICE_CODECS_DEVICE_TILE_SECTION_H_

#include <memory>

#include "compression/codecs/adaptive_tiles.h"
#include "compression/codecs/tiles_codec.h"
#include "compression/device/device_section.h"

namespace shoal::compression {

// `codec` outlives the section.
std::unique_ptr<DeviceSection> NewDeviceTileSection(const TilesCodec& codec);
std::unique_ptr<DeviceSection> NewDeviceAdaptiveTileSection(const AdaptiveTilesCodec& codec);

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_DEVICE_CODECS_DEVICE_TILE_SECTION_H_
