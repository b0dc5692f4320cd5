#include "net/http/metric_families.h"

#include <gtest/gtest.h>

namespace shoal::net {
namespace {

TEST(MetricFamiliesTest, OneHeadPerNameAndEscapedLabels) {
  MetricFamilies families;
  families.Counter("shoal_a_total", "Of a.", 3, {{"kind", "x\"y"}});
  families.Counter("shoal_a_total", "Of a.", 4, {{"kind", "z"}});
  families.Gauge("shoal_b_bytes", "Of b.", 0.5);
  EXPECT_EQ(families.Text(),
            "# HELP shoal_a_total Of a.\n"
            "# TYPE shoal_a_total counter\n"
            "shoal_a_total{kind=\"x\\\"y\"} 3\n"
            "shoal_a_total{kind=\"z\"} 4\n"
            "# HELP shoal_b_bytes Of b.\n"
            "# TYPE shoal_b_bytes gauge\n"
            "shoal_b_bytes 0.5\n");
}

}  // namespace
}  // namespace shoal::net
