#include "compression/api/epilogue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace shoal::compression {
namespace {

// By the schedule instead of by index. Stage s of 1F1B runs w = min(S - 1 - s, M) forwards, then M
// - w pairs of a forward and a backward, then w backwards.

// The sender compresses what its last steady backward and its cool-down make.
std::vector<bool> SenderFlags(unsigned stages, unsigned micro_batches, unsigned stage) {
  const unsigned warm_up = std::min(stages - 1 - stage, micro_batches);
  const unsigned steady = micro_batches - warm_up;
  std::vector<bool> flags;
  for (unsigned i = 0; i < steady; ++i) flags.push_back(i + 1 == steady);
  for (unsigned i = 0; i < warm_up; ++i) flags.push_back(true);
  return flags;
}

// The receiver expects factors for its cool-down.
std::vector<bool> ReceiverFlags(unsigned stages, unsigned micro_batches, unsigned stage) {
  const unsigned warm_up = std::min(stages - 1 - stage, micro_batches);
  std::vector<bool> flags(micro_batches - warm_up, false);
  flags.resize(micro_batches, true);
  return flags;
}

TEST(Epilogue, BothEndsOfALinkNameTheSameGradients) {
  for (unsigned stages = 2; stages <= 8; ++stages) {
    for (unsigned micro_batches = 1; micro_batches <= 64; ++micro_batches) {
      unsigned total = 0;
      for (unsigned stage = 1; stage < stages; ++stage) {
        std::vector<bool> flags;
        for (unsigned i = 0; i < micro_batches; ++i) {
          flags.push_back(InEpilogue({stages, stage, micro_batches, i}));
        }
        ASSERT_EQ(flags, SenderFlags(stages, micro_batches, stage))
            << stages << " " << micro_batches << " " << stage;
        ASSERT_EQ(flags, ReceiverFlags(stages, micro_batches, stage - 1))
            << stages << " " << micro_batches << " " << stage;
        const auto count = std::count(flags.begin(), flags.end(), true);
        ASSERT_EQ(EpilogueCount(stages, micro_batches, stage), count);
        total += static_cast<unsigned>(count);
      }
      if (micro_batches >= stages - 1) {
        EXPECT_EQ(total, stages * (stages - 1) / 2);
      }
    }
  }
}

TEST(Epilogue, SharesOfTheSetUpsThatAreKnown) {
  EXPECT_EQ(EpilogueCount(4, 16, 1), 3u);
  EXPECT_EQ(EpilogueCount(4, 16, 2), 2u);
  EXPECT_EQ(EpilogueCount(4, 16, 3), 1u);
  EXPECT_EQ(EpilogueCount(8, 16, 1), 7u);
  EXPECT_EQ(EpilogueCount(8, 4, 1), 4u);
}

}  // namespace
}  // namespace shoal::compression
