#include "common/process/descriptor_limit.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>

namespace shoal {
namespace {

TEST(DescriptorLimit, IsRaisedAsFarAsItMay) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit low = before;
  low.rlim_cur = std::min<rlim_t>(256, before.rlim_max);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &low), 0);
  EXPECT_EQ(DescriptorLimit(), low.rlim_cur);
  RaiseDescriptorLimit();
  EXPECT_EQ(DescriptorLimit(), std::min<rlim_t>(before.rlim_max, kDescriptorsWanted));
  ::setrlimit(RLIMIT_NOFILE, &before);
}

}  // namespace
}  // namespace shoal
