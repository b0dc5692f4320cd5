#include "common/command_line/description.h"

#include <gmock/gmock.h>

#include <CLI/CLI.hpp>

#include "common/command_line/usage_error.h"

namespace shoal {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class Program : public testing::Test {
 protected:
  Program() {
    app_.footer("notes");
    app_.require_subcommand(1);
    CLI::App* eat = app_.add_subcommand("eat", "Eat something");
    eat->add_option("-w,--with", with_, "Tool")->check(CLI::IsMember({"fork", "spoon"}));
    eat->add_option("--menu", menu_, "What there is")->type_name(kFileValue)->envname("MENU");
    eat->add_option("--salt", salt_, "Grains")->check(CLI::Range(0, 9))->capture_default_str();
    eat->add_flag("--fast", fast_, "Do not chew");
    eat->add_flag("--secret", fast_, "Not for people")->group("");
    eat->add_option("dish", dishes_, "What to eat")->required();
    app_.add_subcommand("hidden", "Not for people")->group("");
  }

  std::string ErrorOf(const std::string& line) {
    try {
      app_.parse(line);
    } catch (const CLI::ParseError& error) {
      return UsageError(app_, error);
    }
    return "";
  }

  CLI::App app_{"A program", "table"};
  std::string with_, menu_;
  std::vector<std::string> dishes_;
  int salt_ = 3;
  bool fast_ = false;
};

TEST_F(Program, IsDescribedAsPeopleSeeIt) {
  const CommandDescription all = Describe(app_);
  EXPECT_EQ(all.name, "table");
  EXPECT_EQ(all.notes, "notes");
  ASSERT_EQ(all.commands.size(), 1u);
  const CommandDescription& eat = all.commands[0];
  ASSERT_EQ(eat.options.size(), 6u) << "--help and five";
  const OptionDescription& with = eat.options[1];
  EXPECT_THAT(with.names, ElementsAre("-w", "--with"));
  EXPECT_THAT(with.choices, ElementsAre("fork", "spoon"));
  EXPECT_EQ(eat.options[2].value, kFileValue);
  EXPECT_EQ(eat.options[2].environment, "MENU");
  EXPECT_EQ(eat.options[3].preset, "3");
  EXPECT_THAT(eat.options[3].choices, IsEmpty());
  EXPECT_EQ(eat.options[4].value, "") << "a flag";
  const OptionDescription& dish = eat.options[5];
  EXPECT_TRUE(dish.positional && dish.required && dish.many);
  EXPECT_THAT(dish.names, ElementsAre("dish"));
}

TEST_F(Program, SurvivesItsJson) {
  const std::string json = FormatDescription(Describe(app_));
  const auto again = ParseDescription(json);
  ASSERT_TRUE(again.ok()) << again.status().ToString();
  EXPECT_EQ(FormatDescription(*again), json);
}

TEST_F(Program, IsRefusedWhereItsJsonIsMalformed) {
  std::string deep = R"({"name":"a"})";
  for (int i = 0; i < 12; ++i) deep = R"({"name":"a","commands":[)" + deep + "]}";
  for (const std::string& json : std::vector<std::string>{
           "", "[]", "{}", R"({"name":3})", R"({"name":"a","options":[{}]})",
           R"({"name":"a","options":[7]})", R"({"name":"a","commands":["b"]})", deep}) {
    EXPECT_FALSE(ParseDescription(json).ok()) << json;
  }
}

TEST_F(Program, SaysWhatIsWrongAndWasMeant) {
  EXPECT_EQ(ErrorOf("eta"), "there is no command 'eta'; did you mean 'eat'? See `table --help`");
  EXPECT_EQ(ErrorOf("eta eat"), ErrorOf("eta")) << "another command behind it";
  EXPECT_EQ(ErrorOf(""), "a command is missing; see `table --help`");
  EXPECT_EQ(ErrorOf("--hlep"),
            "there is no option '--hlep'; did you mean '--help'? See `table --help`");
  EXPECT_EQ(ErrorOf("eat pie --slat=3"),
            "there is no option '--slat'; did you mean '--salt'? See `table eat --help`");
  EXPECT_THAT(ErrorOf("eat pie --secrt"), testing::Not(HasSubstr("did you mean")));
  EXPECT_THAT(ErrorOf("eat pie --salt 10"), HasSubstr("range 0 to 9"));
  EXPECT_THAT(ErrorOf("eat"), HasSubstr("dish is required"));
  EXPECT_THAT(ErrorOf("hiden"), testing::Not(HasSubstr("did you mean")));
}

}  // namespace
}  // namespace shoal
