// The DeviceCodec of a codec without memory, whose messages are one section each. Internal to
// compression/. Thread: any, one call at a time.

#ifndef SHOAL_COMPRESSION_DEVICE_PLAIN_DEVICE_CODEC_H_
#define SHOAL_COMPRESSION_DEVICE_PLAIN_DEVICE_CODEC_H_

#include <memory>

#include "compression/codecs/plain_codec.h"
#include "compression/device/device_codec.h"
#include "compression/device/device_section.h"

namespace shoal::compression {

// `section` is that of `codec`.
std::unique_ptr<DeviceCodec> NewPlainDeviceCodec(std::shared_ptr<const PlainCodec> codec,
                                                 std::unique_ptr<DeviceSection> section,
                                                 std::unique_ptr<DeviceQueue> queue);

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_DEVICE_PLAIN_DEVICE_CODEC_H_
