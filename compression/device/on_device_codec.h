// The MessageCodec of values on a device whose codec has a form there: device_codec.h with payloads
// and m images in ordinary memory of the host. Internal to compression/. Thread: any.

#ifndef SHOAL_COMPRESSION_DEVICE_ON_DEVICE_CODEC_H_
#define SHOAL_COMPRESSION_DEVICE_ON_DEVICE_CODEC_H_

#include <cstdint>
#include <memory>

#include "common/status.h"
#include "compression/api/codec.h"
#include "compression/device/copy_lane.h"

namespace shoal::compression {

// `host`: the codec itself. Unimplemented if it has no form on a device.
Result<std::shared_ptr<const MessageCodec>> NewOnDeviceCodec(
    std::shared_ptr<const MessageCodec> host, std::uint32_t hidden,
    std::shared_ptr<CopyLanes> lanes);

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_DEVICE_ON_DEVICE_CODEC_H_
