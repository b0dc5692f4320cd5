#include "scheduler/config/log_target.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace shoal::scheduler {
namespace {

using ::testing::HasSubstr;

TEST(LogTargetTest, ReadsWhatItWrites) {
  for (const char* text : {"tensorboard:logs", "jsonl:/a/b.jsonl", "jsonl:C:odd"}) {
    const auto target = ParseLogTarget(text);
    ASSERT_TRUE(target.ok()) << text;
    EXPECT_EQ(target->ToString(), text);
  }
  EXPECT_EQ(*ParseLogTarget("tensorboard:x"), (LogTarget{LogTarget::Kind::kTensorboard, "x"}));
}

TEST(LogTargetTest, RefusesWhatIsNoLog) {
  for (const std::string& text : {std::string(), std::string("logs"), std::string("jsonl:"),
                                  std::string("wandb:x"), std::string("jsonl:a\0b", 9)}) {
    const auto target = ParseLogTarget(text);
    ASSERT_FALSE(target.ok()) << text;
    EXPECT_THAT(target.status().message(), HasSubstr("tensorboard:FOLDER or jsonl:FILE"));
  }
}

}  // namespace
}  // namespace shoal::scheduler
