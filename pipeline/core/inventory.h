// Inventory: what the two ends of a boundary tell each other at link-up about their m. Pure.
//
// Payload of a kInventory frame, little endian: u32 layout version (1), u64 count, then count
// times u64 segment, u64 version of m, u64 checksum of m, segments strictly growing. Payload of a
// kEvicted frame: the same without versions and checksums.

#ifndef SHOAL_PIPELINE_CORE_INVENTORY_H_
#define SHOAL_PIPELINE_CORE_INVENTORY_H_

#include <cstddef>
#include <span>
#include <vector>

#include "common/memory/buffer.h"
#include "common/status.h"
#include "pipeline/core/runner_types.h"
#include "storage/delta/delta_store.h"

namespace shoal::pipeline {

// `entries` in order of segment.
Buffer EncodeInventory(std::span<const storage::DeltaInventoryEntry> entries);
// Reads foreign bytes: a wrong size, layout version or order is an error.
Result<std::vector<storage::DeltaInventoryEntry>> DecodeInventory(
    std::span<const std::byte> payload);
// `segments` in any order, none twice.
Buffer EncodeLosses(std::vector<SegmentId> segments);
// Reads foreign bytes, as DecodeInventory.
Result<std::vector<SegmentId>> DecodeLosses(std::span<const std::byte> payload);
// Segments of `own` that `theirs` lacks, or has in another version or with another checksum: they
// are first visits from now on. Both lists in order of segment.
std::vector<SegmentId> Disagreeing(std::span<const storage::DeltaInventoryEntry> own,
                                   std::span<const storage::DeltaInventoryEntry> theirs);

// Of each end of a boundary one figure for its m of both directions, by boundary, kSender before
// kReceiver: the two ends' are equal if all of it is. Residuals have no other end and are left out.
std::vector<BoundaryChecksum> SharedChecksums(std::span<const BoundaryChecksum> ends);

}  // namespace shoal::pipeline

#endif  // SHOAL_PIPELINE_CORE_INVENTORY_H_
