// All that a device can be asked to do: one job type per kind of section, each in a header of its
// own. Internal to compression/.
//
// Jobs over groups of values have `values`, `count`, `samples` and `extremes` (device_section.h
// fills them).

#ifndef SHOAL_COMPRESSION_DEVICE_JOBS_DEVICE_JOBS_H_
#define SHOAL_COMPRESSION_DEVICE_JOBS_DEVICE_JOBS_H_

#include <variant>

#include "compression/device/jobs/bucket_jobs.h"
#include "compression/device/jobs/channel_jobs.h"
#include "compression/device/jobs/dither_jobs.h"
#include "compression/device/jobs/image_jobs.h"
#include "compression/device/jobs/range_jobs.h"
#include "compression/device/jobs/raw_jobs.h"
#include "compression/device/jobs/scale_jobs.h"
#include "compression/device/jobs/stats_jobs.h"
#include "compression/device/jobs/tile_jobs.h"
#include "compression/device/jobs/topk_jobs.h"
#include "compression/device/jobs/turn_jobs.h"
#include "compression/device/jobs/vector_jobs.h"

namespace shoal::compression {

using DeviceJob =
    std::variant<BucketJob, ChannelJob, ChannelRangeJob, ChannelTryJob, DitherJob, EnergyJob,
                 EscapeJob, ImageJob, KeptJob, LookJob, RangeJob, RawJob, ScaleJob, SelectJob,
                 StatsJob, TileJob, TokenJob, TurnJob, VectorJob>;

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_DEVICE_JOBS_DEVICE_JOBS_H_
