// The opening of a link, without a link: phases, attempts, and what is said about failures.

#include "net/links/link_handshake.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace shoal::net {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

LinkTarget TwoAddresses() {
  LinkTarget target;
  target.addresses = {"one:1", "two:2"};
  target.run = {7};
  target.generation = 3;
  target.channel = "boundary/0/1";
  return target;
}

TEST(LinkPhase, OnlyWhatIsInTheTableFollows) {
  using enum LinkPhase;
  const LinkPhase all[] = {kConnecting, kGreeting, kOpen, kClosed};
  const bool may[4][4] = {{true, true, true, true},
                          {true, false, true, true},
                          {false, false, false, true},
                          {false, false, false, false}};
  for (int from = 0; from < 4; ++from) {
    for (int to = 0; to < 4; ++to) {
      EXPECT_EQ(MayFollow(all[from], all[to]), may[from][to]) << from << " to " << to;
    }
  }
}

TEST(LinkHandshake, AttemptsWaitLongerAndLonger) {
  LinkHandshake handshake(TwoAddresses());
  const Status why = Unavailable("nobody there");
  for (const int delay_ms : {200, 400, 800, 1600, 2000, 2000}) {
    ASSERT_TRUE(handshake.Dial());
    EXPECT_FALSE(handshake.Dial());  // one at a time
    EXPECT_EQ(handshake.AttemptFailed(why), milliseconds(delay_ms));
  }
}

TEST(LinkHandshake, OnlyTheAttemptThatGoesOnCanBeUnanswered) {
  LinkHandshake handshake(TwoAddresses());
  const auto first = handshake.Dial();
  EXPECT_TRUE(handshake.Unanswered(*first));
  handshake.AttemptFailed(Unavailable(""));
  EXPECT_FALSE(handshake.Unanswered(*first));
  const auto second = handshake.Dial();
  EXPECT_FALSE(handshake.Unanswered(*first));
  EXPECT_TRUE(handshake.Unanswered(*second));
  handshake.Greet("two:2");
  EXPECT_FALSE(handshake.Unanswered(*second));
}

TEST(LinkHandshake, WithoutAnAddressNothingIsDialled) {
  EXPECT_FALSE(LinkHandshake(LinkTarget{}).Dial());
}

TEST(LinkHandshake, TheHelloNamesTheLink) {
  const bulk::v1::LinkHello hello = LinkHandshake(TwoAddresses()).Hello();
  EXPECT_EQ(hello.run(), 7u);
  EXPECT_EQ(hello.generation(), 3u);
  EXPECT_EQ(hello.channel(), "boundary/0/1");
}

TEST(LinkHandshake, AnswersToAHello) {
  bulk::v1::ChunkHeader answer;
  answer.mutable_ping();
  EXPECT_EQ(LinkHandshake::CheckAnswer(answer).code(), StatusCode::kInvalidArgument);
  answer.mutable_accept();
  EXPECT_TRUE(LinkHandshake::CheckAnswer(answer).ok());
  answer.mutable_accept()->set_code(static_cast<int>(StatusCode::kFailedPrecondition));
  answer.mutable_accept()->set_error(std::string(5000, 'x'));
  EXPECT_EQ(LinkHandshake::CheckAnswer(answer).code(), StatusCode::kFailedPrecondition);
  EXPECT_LT(LinkHandshake::CheckAnswer(answer).message().size(), 1100u);
  for (const int code : {-1, 17, 1 << 30}) {
    answer.mutable_accept()->set_code(code);
    EXPECT_EQ(LinkHandshake::CheckAnswer(answer).code(), StatusCode::kUnknown);
  }
}

TEST(LinkHandshake, LateSaysHowFarTheLinkCame) {
  LinkHandshake handshake(TwoAddresses());
  EXPECT_THAT(handshake.Late(false).message(), HasSubstr("did not connect in time"));
  EXPECT_THAT(handshake.Late(true).message(), HasSubstr("no answer"));
  handshake.Dial();
  handshake.AttemptFailed(Unavailable("no route"));
  EXPECT_THAT(handshake.Late(true).message(), HasSubstr("no route"));
  handshake.Dial();
  handshake.AttemptFailed(PermissionDenied("key"));
  EXPECT_THAT(handshake.Late(true).message(), HasSubstr("does not take this peer's key"));
  handshake.Dial();
  handshake.Greet("one:1");
  EXPECT_THAT(handshake.Late(true).message(), HasSubstr("reached at one:1"));
}

}  // namespace
}  // namespace shoal::net
