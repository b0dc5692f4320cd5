// `aqsgd` on a device: AqsgdCodec (aqsgd_codec.h) with sections and m images of device memory.
// Internal to compression/. Thread: any, one call at a time.

#ifndef SHOAL_COMPRESSION_DEVICE_CODECS_DEVICE_AQSGD_CODEC_H_
#define SHOAL_COMPRESSION_DEVICE_CODECS_DEVICE_AQSGD_CODEC_H_

#include <cstdint>
#include <memory>

#include "common/status.h"
#include "compression/codecs/codec_entry.h"
#include "compression/device/device_codec.h"
#include "compression/device/device_section.h"

namespace shoal::compression {

// Unimplemented if a codec of its sections has no form on a device.
Result<std::unique_ptr<DeviceCodec>> NewDeviceAqsgdCodec(const CodecSpec& spec,
                                                         std::uint32_t hidden, MakeNested nested,
                                                         MakeSection section,
                                                         std::unique_ptr<DeviceQueue> queue);

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_DEVICE_CODECS_DEVICE_AQSGD_CODEC_H_
