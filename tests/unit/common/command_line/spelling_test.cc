#include "common/command_line/spelling.h"

#include <gmock/gmock.h>

namespace shoal {
namespace {

const std::vector<std::string> kWords = {"status", "stop", "swarm", "set", "--kill-every"};

TEST(Spelling, FindsWhatWasMeant) {
  EXPECT_EQ(Nearest("stauts", kWords), "status");  // two letters swapped
  EXPECT_EQ(Nearest("statu", kWords), "status");   // one is missing
  EXPECT_EQ(Nearest("swaarm", kWords), "swarm");   // one too many
  EXPECT_EQ(Nearest("stup", kWords), "stop");
  EXPECT_EQ(DidYouMean("stauts", kWords), "; did you mean 'status'?");
}

TEST(Spelling, FindsAWordByItsBeginning) {
  EXPECT_EQ(Nearest("--kill", kWords), "--kill-every");
  EXPECT_EQ(Nearest("stat", kWords), "status");
  EXPECT_EQ(Nearest("aqsgd-", {"aqsgd-a-long-one", "aqsgd-b-long-one"}), "") << "which one?";
}

TEST(Spelling, SaysNothingOfAnotherWord) {
  EXPECT_EQ(Nearest("frobnicate", kWords), "");
  EXPECT_EQ(Nearest("se", kWords), "") << "of two letters none may be wrong";
  EXPECT_EQ(Nearest("", kWords), "");
  EXPECT_EQ(Nearest(std::string(1 << 20, 's'), kWords), "");
  EXPECT_EQ(DidYouMean("frobnicate", kWords), "");
  EXPECT_EQ(DidYouMean("x", {}), "");
}

}  // namespace
}  // namespace shoal
