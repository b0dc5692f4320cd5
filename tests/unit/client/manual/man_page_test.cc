#include "client/manual/man_page.h"

#include <gmock/gmock.h>

namespace shoal::client {
namespace {

using testing::HasSubstr;

TEST(ManPage, HasOptionsVerbsAndNotes) {
  CommandDescription go{
      "go", "Go there", "Examples:\n  shoal go --map x\nExit code: 0 done", {}, {}};
  go.options.push_back({{"--map"}, "FILE", {"a", "b"}, "A map", "city.map", "MAP", false, true});
  go.options.push_back({{"place"}, "TEXT", {}, "Where to", "", "", true, true, true});
  const CommandDescription program{"shoal", "shoal: a program", "", {}, {go}};
  const std::string page = ManPage(program, {"shoal"}, "1.2.3");
  EXPECT_THAT(page,
              testing::StartsWith(".TH \"SHOAL\" 1 \"\" \"shoal 1.2.3\" \"User Commands\"\n"));
  EXPECT_THAT(page, HasSubstr(".SH NAME\nshoal \\- a program\n"));
  EXPECT_THAT(page, HasSubstr(".SS \"shoal go\"\nGo there.\n"));
  EXPECT_THAT(page, HasSubstr("\\fBshoal go\\fR \\fB\\-\\-map\\fR \\fIFILE\\fR [\\fIoptions\\fR] "
                              "\\fIplace\\fR ...\n"));
  EXPECT_THAT(page, HasSubstr("A map (one of a b); if not given: city.map; also $MAP\n"));
  EXPECT_THAT(page, HasSubstr(".PP\nExamples:\n.RS 2\n.nf\nshoal go \\-\\-map x\n.fi\n.RE\n"
                              ".PP\nExit code: 0 done\n"));
}

TEST(ManPage, PrintsWhatTroffWouldObey) {
  const CommandDescription program{"a-b", "x", ".so /etc/passwd\n'hi\\n\n  .de x", {}, {}};
  const std::string page = ManPage(program, {"a-b"}, "1");
  EXPECT_THAT(page, HasSubstr("\n\\&.so /etc/passwd\n"));
  EXPECT_THAT(page, HasSubstr("\n\\&'hi\\en\n"));
  EXPECT_THAT(page, HasSubstr("\n\\&.de x\n"));
  EXPECT_THAT(page, HasSubstr(".SH NAME\na\\-b \\- x\n"));
}

}  // namespace
}  // namespace shoal::client
