#include "daemon/tools/synthetic_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/file.h"
#include "tests/support/temporary_folder.h"

namespace shoal::daemon {
namespace {

using ::testing::HasSubstr;

Result<model::SyntheticOptions> Read(const std::string& text) {
  const test_support::TemporaryFolder folder;
  const std::string path = folder.path() + "/stage.json";
  EXPECT_TRUE(WriteFileAtomic(path, text).ok());
  return ReadSyntheticFile(path);
}

TEST(SyntheticFile, GivesWhatItSays) {
  const auto options = Read(
      R"({"forwardMs": 4.5, "backwardMs": 13, "weightMs": 6, "weightParts": 3, "change": 0.25,
          "changeDecay": 0.5})");
  ASSERT_TRUE(options.ok()) << options.status().ToString();
  EXPECT_EQ(options->forward_ms, 4.5);
  EXPECT_EQ(options->backward_ms, 13);
  EXPECT_EQ(options->weight_ms, 6);
  EXPECT_EQ(options->weight_parts, 3u);
  EXPECT_EQ(options->change, 0.25);
  EXPECT_EQ(options->change_decay, 0.5);
}

TEST(SyntheticFile, SaysWhatIsWrong) {
  const auto why = [](const std::string& text) {
    const auto options = Read(text);
    EXPECT_EQ(options.status().code(), StatusCode::kInvalidArgument) << text;
    return options.status().message();
  };
  EXPECT_THAT(why("4"), HasSubstr("no JSON object"));
  EXPECT_THAT(why(R"({"forwardMs": 4})"), HasSubstr("backwardMs is missing"));
  const std::string rest = R"(, "weightMs": 6, "change": 0.25, "changeDecay": 0.5)";
  EXPECT_THAT(why(R"({"forwardMs": "4", "backwardMs": 13, "weightParts": 3)" + rest + "}"),
              HasSubstr("forwardMs is missing or no number"));
  EXPECT_THAT(why(R"({"forwardMs": 4, "backwardMs": 13, "weightParts": -1)" + rest + "}"),
              HasSubstr("weightParts"));
  EXPECT_THAT(why(R"({"forwardMs": 4, "backwardMs": 5, "weightParts": 1)" + rest + "}"),
              HasSubstr("weight_ms"));
  EXPECT_THAT(why(R"({"forwardMs": 4, "backwardMs": 13, "weightParts": 3, "x": 1)" + rest + "}"),
              HasSubstr("too many"));
}

}  // namespace
}  // namespace shoal::daemon
