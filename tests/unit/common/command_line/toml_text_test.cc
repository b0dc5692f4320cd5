#include "common/command_line/toml_text.h"

#include <gmock/gmock.h>

namespace shoal {
namespace {

TEST(TomlText, AValueThatLacksQuotesIsFound) {
  for (const char* value : {"fast", "20GiB", "10s", "/a/b", "127.0.0.1:80", "  off # x"}) {
    const std::string text = "[a]\nkey = " + std::string(value) + "\nother = 1\n";
    EXPECT_THAT(TomlQuotesHint(text, 2), testing::HasSubstr("needs quotes")) << value;
    EXPECT_EQ(TomlQuotesHint(text, 1), "") << value;
    EXPECT_EQ(TomlQuotesHint(text, 3), "") << value;
  }
  for (const char* value : {"", " ", "1,000", "\"off", "'a", "[a", "{ a = b", "1 # off"}) {
    EXPECT_EQ(TomlQuotesHint("key = " + std::string(value), 1), "") << value;
  }
  EXPECT_EQ(TomlQuotesHint("key\n", 1), "");
  EXPECT_EQ(TomlQuotesHint("", 7), "");
}

}  // namespace
}  // namespace shoal
