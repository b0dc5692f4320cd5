// The coders of an exchange, by the names that configurations have for them. Pure. Thread: any.

#ifndef SHOAL_REPLICA_COLLECTIVE_CHUNK_CODERS_H_
#define SHOAL_REPLICA_COLLECTIVE_CHUNK_CODERS_H_

#include <cstdint>
#include <memory>
#include <string_view>

#include "common/status.h"
#include "replica/collective/chunk_coder.h"

namespace shoal::collective {

// `spec`: `raw:dtype=fp32`, `onebit`, `onebit:bucket=N`, or a codec of compression/ without memory
// (no m, no feedback), which sees rows of `row` values (1 to 2^20). `home`: where values lie.
// Unimplemented if the coder does not work there.
Result<std::shared_ptr<const ChunkCoder>> MakeChunkCoder(
    std::string_view spec, std::uint32_t row,
    std::shared_ptr<const compression::ValueHome> home = compression::HostValues());

}  // namespace shoal::collective

#endif  // SHOAL_REPLICA_COLLECTIVE_CHUNK_CODERS_H_
