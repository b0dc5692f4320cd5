// Runs a check once with every SIMD level that this machine has.

#ifndef SHOAL_TESTS_UNIT_COMPRESSION_SIMD_LEVELS_H_
#define SHOAL_TESTS_UNIT_COMPRESSION_SIMD_LEVELS_H_

#include <gtest/gtest.h>
#include <hwy/highway.h>
#include <hwy/targets.h>

#include <cstdint>

namespace shoal::compression {

template <typename Check>
void AtEveryLevel(Check check) {
  int levels = 0;
  std::int64_t left = hwy::SupportedTargets();
  while (left != 0) {
    const std::int64_t level = left & -left;
    left &= ~level;
    hwy::SetSupportedTargetsForTest(level);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    SCOPED_TRACE(hwy::TargetName(level));
    check();
    ++levels;
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  EXPECT_GE(levels, 1);
}

}  // namespace shoal::compression

#endif  // SHOAL_TESTS_UNIT_COMPRESSION_SIMD_LEVELS_H_
