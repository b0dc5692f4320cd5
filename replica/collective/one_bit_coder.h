// The coder `onebit`: the sign of each value and one scale per bucket.
//
// Source: 1-bit Adam (Tang et al., ICML 2021), algorithm 1: a value becomes sign(x) ||x||_2 /
// sqrt(n). sign(0) = sign(-0) = +. Bytes: docs/WIRE.md, "Payload of onebit": 4 per bucket and one
// bit a value. To be used with error feedback. Internal to collective/. Pure. Thread: any.

#ifndef SHOAL_REPLICA_COLLECTIVE_ONE_BIT_CODER_H_
#define SHOAL_REPLICA_COLLECTIVE_ONE_BIT_CODER_H_

#include <memory>

#include "common/status.h"
#include "compression/api/codec_spec.h"
#include "replica/collective/chunk_coder.h"

namespace shoal::collective {

// `onebit`: one scale per chunk; `onebit:bucket=N`: one per N values, 1 to 4294967295.
Result<std::shared_ptr<const ChunkCoder>> MakeOneBitCoder(const compression::CodecSpec& spec);

}  // namespace shoal::collective

#endif  // SHOAL_REPLICA_COLLECTIVE_ONE_BIT_CODER_H_
