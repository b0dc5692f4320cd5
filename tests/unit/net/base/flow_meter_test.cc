#include "net/base/flow_meter.h"

#include <gtest/gtest.h>

namespace shoal::net {
namespace {

using std::chrono::milliseconds;

TEST(FlowMeter, IsTheRateBehindTheFirstPiece) {
  FlowMeter meter;
  const TimePoint start{};
  EXPECT_EQ(meter.Add(50'000'000, start), 0) << "how long it took is not known";
  EXPECT_EQ(meter.Add(FlowMeter::kBytesMin - 1, start + milliseconds(100)), 0);
  EXPECT_DOUBLE_EQ(meter.Add(1, start + milliseconds(500)), 16.0 * FlowMeter::kBytesMin);
  EXPECT_DOUBLE_EQ(meter.Add(0, start + milliseconds(1000)), 8.0 * FlowMeter::kBytesMin);
}

TEST(FlowMeter, NoTimeIsNoRate) {
  FlowMeter meter;
  EXPECT_EQ(meter.Add(1, TimePoint{}), 0);
  EXPECT_EQ(meter.Add(10 * FlowMeter::kBytesMin, TimePoint{}), 0);
}

}  // namespace
}  // namespace shoal::net
