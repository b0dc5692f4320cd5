// The MessageCodec of values on a device whose codec has no form there: values are copied to the
// host and coded by the codec of the host. Internal to compression/. Thread: any.

#ifndef SHOAL_COMPRESSION_DEVICE_HOST_FORM_CODEC_H_
#define SHOAL_COMPRESSION_DEVICE_HOST_FORM_CODEC_H_

#include <memory>

#include "compression/api/codec.h"
#include "compression/device/copy_lane.h"

namespace shoal::compression {

std::shared_ptr<const MessageCodec> NewHostFormCodec(std::shared_ptr<const MessageCodec> host,
                                                     std::shared_ptr<CopyLanes> lanes);

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_DEVICE_HOST_FORM_CODEC_H_
