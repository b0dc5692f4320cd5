#include "client/manual/completion.h"

#include <gmock/gmock.h>

namespace shoal::client {
namespace {

using testing::HasSubstr;
using testing::Not;

CommandDescription Program() {
  CommandDescription go{"go", "Go there: far", "", {}, {}};
  go.options.push_back({{"-m", "--map"}, kFileValue, {}, "Map of it; of paper", "", ""});
  go.options.push_back({{"--by"}, "TEXT", {"car", "foot"}, "It's how", "", ""});
  go.options.push_back({{"--fast"}, "", {}, "Run", "", ""});
  CommandDescription set{"set", "Change", "", {}, {}};
  set.options.push_back({{"settings"}, kSettingValue, {}, "Limits", "", "", true, true, true});
  CommandDescription far{"far", "A group", "", {}, {go}};
  return {"shoal", "A program", "", {}, {far, set}};
}

TEST(Completion, OfBashFollowsTheVerbs) {
  const std::string script = CompletionScript("bash", Program(), {"upload", "download"});
  EXPECT_THAT(script, HasSubstr("    '') flags='' words='far set'; ;;"));
  EXPECT_THAT(script, HasSubstr("    ' far') flags='' words='go'; ;;"));
  EXPECT_THAT(script, HasSubstr("    ' far go') flags='-m --map --by --fast' words=''; ;;"));
  EXPECT_THAT(script, HasSubstr("    ' far go -m'|' far go --map') _shoal_paths -f; return ;;"));
  EXPECT_THAT(script, HasSubstr("compgen -W 'car foot'"));
  EXPECT_THAT(script, HasSubstr("compgen -W 'upload= download='"));
  EXPECT_THAT(script, Not(HasSubstr("' far go --fast')"))) << "takes no value";
}

TEST(Completion, OfZshQuotesWhatItDescribes) {
  const std::string script = CompletionScript("zsh", Program(), {"upload"});
  EXPECT_THAT(script, HasSubstr("'--by:It'\\''s how'"));
  EXPECT_THAT(script, HasSubstr("(' far go -m'|' far go --map') _files; return ;;"));
  EXPECT_THAT(script, HasSubstr("compadd -S '' -- upload="));
  EXPECT_THAT(script, HasSubstr("'go:Go there'")) << "the first sentence only";
}

TEST(Completion, OfFishHasALineForEachOption) {
  const std::string script = CompletionScript("fish", Program(), {"upload"});
  const std::string at = "complete -c shoal -n 'test (__shoal_at) = \"shoal far go\"'";
  EXPECT_THAT(script, HasSubstr(at + " -s m -l map -r -F -d 'Map of it'\n"));
  EXPECT_THAT(script, HasSubstr(at + " -l by -x -a 'car foot' -d 'It\\'s how'\n"));
  EXPECT_THAT(script, HasSubstr(at + " -l fast -d 'Run'\n"));
  EXPECT_THAT(script, HasSubstr("\"shoal\"' -a far -d 'A group'\n"));
}

}  // namespace
}  // namespace shoal::client
