// Which codecs have a form on a device. From outside of compression/: MakeDeviceCodec
// (device_codec.h), which is defined here. Internal to compression/. Thread: any.

#ifndef SHOAL_COMPRESSION_DEVICE_REGISTRY_DEVICE_REGISTRY_H_
#define SHOAL_COMPRESSION_DEVICE_REGISTRY_DEVICE_REGISTRY_H_

#include <memory>

#include "common/status.h"
#include "compression/codecs/plain_codec.h"
#include "compression/device/device_section.h"

namespace shoal::compression {

// MakeSection, of all codecs.
Result<std::unique_ptr<DeviceSection>> NewDeviceSection(const PlainCodec& codec);

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_DEVICE_REGISTRY_DEVICE_REGISTRY_H_
