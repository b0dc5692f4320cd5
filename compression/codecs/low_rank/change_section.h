// The bytes of low-rank changes behind the section's header: exponents of tokens, ranks and steps
// of samples, and the codes of all columns through tables that columns of like size share.
//
// A column whose codes exceed 8 bits gives its low bits away as they are: there is nothing to gain
// from them. Bytes: docs/WIRE.md, "Low-rank changes". Pure. Thread: any.

#ifndef SHOAL_COMPRESSION_CODECS_LOW_RANK_CHANGE_SECTION_H_
#define SHOAL_COMPRESSION_CODECS_LOW_RANK_CHANGE_SECTION_H_

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "common/status.h"
#include "compression/api/codec.h"
#include "compression/codecs/low_rank/change_factors.h"

namespace shoal::compression {

// For samples of ranks up to `rank`.
std::size_t ChangeSectionBytesMax(SampleShape shape, std::size_t samples, std::size_t rank);

// Writes the factors of a message's samples to `out` (at least ChangeSectionBytesMax) and returns
// the bytes.
std::size_t WriteChangeSection(std::span<const ChangeFactors> samples, SampleShape shape,
                               std::span<std::byte> out);

// Reads exactly `in` (foreign bytes): factors of `samples` samples of ranks up to `rank`, which is
// at most either side. `spec` names the codec in errors.
Result<std::vector<ChangeFactors>> ReadChangeSection(std::span<const std::byte> in,
                                                     SampleShape shape, std::size_t samples,
                                                     std::size_t rank, std::string_view spec);

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_CODECS_LOW_RANK_CHANGE_SECTION_H_
