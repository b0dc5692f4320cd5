#include "compression/api/epilogue.h"

#include <algorithm>

#include "common/status.h"

namespace shoal::compression {

std::uint32_t EpilogueCount(std::uint32_t stages, std::uint32_t micro_batches,
                            std::uint32_t stage) {
  SHOAL_CHECK(stage >= 1 && stage < stages);
  return std::min(micro_batches, stages - stage);
}

bool InEpilogue(const LinkPosition& position) {
  SHOAL_CHECK(position.micro_batch < position.micro_batches);
  return position.micro_batches - position.micro_batch <=
         EpilogueCount(position.stages, position.micro_batches, position.stage);
}

}  // namespace shoal::compression
