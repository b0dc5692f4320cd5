#include "dataset/prepare/row_packing.h"

#include <algorithm>
#include <bit>
#include <cstddef>

#include "common/status.h"

namespace shoal::dataset {

std::vector<std::uint64_t> PackFirstFit(std::span<const std::uint32_t> lengths,
                                        std::uint32_t row_tokens) {
  // A tree over as many empty rows as samples: a node has the most room of the rows below it.
  const std::size_t leaves = std::bit_ceil(std::max<std::size_t>(lengths.size(), 1));
  std::vector<std::uint32_t> room(2 * leaves, row_tokens);
  std::vector<std::uint64_t> rows;
  rows.reserve(lengths.size());
  for (const std::uint32_t length : lengths) {
    SHOAL_CHECK(length > 0 && length <= row_tokens);
    std::size_t node = 1;
    while (node < leaves) node = room[2 * node] >= length ? 2 * node : 2 * node + 1;
    rows.push_back(node - leaves);
    room[node] -= length;
    for (node /= 2; node > 0; node /= 2) room[node] = std::max(room[2 * node], room[2 * node + 1]);
  }
  return rows;
}

}  // namespace shoal::dataset
