#include "client/base/terminal.h"

#include <gtest/gtest.h>

#include <limits>

namespace shoal::client {
namespace {

TEST(Terminal, TablePadsToTheWidestCell) {
  EXPECT_EQ(FormatTable({{"a", "long", "x"}, {"longer", "b", "y"}}),
            "a       long  x\n"
            "longer  b     y\n");
  EXPECT_EQ(FormatTable({}), "");
  EXPECT_EQ(FormatTable({{"alone"}, {}, {"a", "b"}}), "alone\n\na      b\n");
}

TEST(Terminal, TableCountsCharactersNotBytes) {
  EXPECT_EQ(FormatTable({{"näme", "1"}, {"▁▂▃▄▅", "2"}}), "näme   1\n▁▂▃▄▅  2\n");
}

TEST(Terminal, TableCountsNoColours) {
  EXPECT_EQ(FormatTable({{"\x1b[32mok\x1b[0m", "1"}, {"hint", "2"}}),
            "\x1b[32mok\x1b[0m    1\nhint  2\n");
}

TEST(Terminal, TableEndsInNoSpaces) {
  const std::string table = FormatTable({{"a", "bbbb"}, {"c", "d"}});
  EXPECT_EQ(table.find(" \n"), std::string::npos);
}

TEST(Terminal, ClipsCellsNotBytes) {
  EXPECT_EQ(Clipped("abc", 3), "abc");
  EXPECT_EQ(Clipped("abcd", 3), "ab>");
  EXPECT_EQ(Clipped("näme", 3), "nä>");
  EXPECT_EQ(Clipped("\x1b[32mok\x1b[0m", 2), "\x1b[32mok\x1b[0m");
  EXPECT_EQ(Clipped("\x1b[32mokay\x1b[0m", 3), "\x1b[32mok>\x1b[0m");
  EXPECT_EQ(Clipped("abc", 0), "");
  EXPECT_EQ(Clipped("a\x1b[3", 0), "");
}

TEST(Terminal, DrawsCurvesInAscii) {
  EXPECT_EQ(ToAscii("▁▂▃▄▅▆▇█ näme …"), "__--==## n?me ?");
  EXPECT_EQ(ToAscii("\xe2\x96"), "?");
}

TEST(Terminal, BarFillsFromLeft) {
  EXPECT_EQ(Bar(0, 4), "[....]");
  EXPECT_EQ(Bar(0.5, 4), "[##..]");
  EXPECT_EQ(Bar(1, 4), "[####]");
  EXPECT_EQ(Bar(-3, 4), "[....]");
  EXPECT_EQ(Bar(7, 4), "[####]");
  EXPECT_EQ(Bar(std::numeric_limits<double>::quiet_NaN(), 4), "[....]");
}

TEST(Terminal, SparklineRunsFromLowToHigh) {
  EXPECT_EQ(Sparkline({0, 1, 2, 3, 4, 5, 6, 7}, 8), "▁▂▃▄▅▆▇█");
  EXPECT_EQ(Sparkline({8, 0}, 8), "█▁");
  EXPECT_EQ(Sparkline({3, 3, 3}, 8), "▁▁▁");
  EXPECT_EQ(Sparkline({0, 2, 10, 12}, 2), "▁█");  // means of 1 and 11
  EXPECT_EQ(Sparkline({1}, 8), "");
  EXPECT_EQ(Sparkline({1, 2}, 0), "");
}

TEST(Terminal, SparklineLeavesOutWhatIsNoNumber) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(Sparkline({1, nan, 2}, 8), "▁█");
  EXPECT_EQ(Sparkline({nan, nan, 2}, 8), "");
}

TEST(Terminal, PrintableTakesControlCharactersOut) {
  EXPECT_EQ(Printable("plain näme ▁"), "plain näme ▁");
  EXPECT_EQ(Printable("a\x1b[2Jb\nc\x7f"), "a?[2Jb?c?");
  EXPECT_EQ(Printable("\xc2\x9b"
                      "2J\xc2\xa9"),
            "?2J\xc2\xa9");
  EXPECT_EQ(Printable("\xc2"), "\xc2");
}

TEST(Terminal, ColoursOnlyOnATerminal) {
  // The tests' output is a pipe or a file, or else has colours: both are consistent.
  EXPECT_EQ(Green("x"), FancyOutput() ? "\x1b[32mx\x1b[0m" : "x");
}

}  // namespace
}  // namespace shoal::client
