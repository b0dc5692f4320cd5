#include "client/demo_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace shoal::client {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<std::string> Shown(const std::map<std::uint64_t, AskedQuestion>& asked,
                               std::size_t count) {
  std::vector<std::string> prompts;
  for (const AskedQuestion& question : QuestionsToShow(asked, count)) {
    prompts.push_back(question.prompt);
  }
  return prompts;
}

TEST(DemoReport, ShowsFirstWhatWasLearned) {
  const std::map<std::uint64_t, AskedQuestion> asked = {{1, {"known", "a", "a", "a"}},
                                                        {2, {"lost", "a", "a", "b"}},
                                                        {4, {"learned", "a", "b", "a"}},
                                                        {5, {"never", "a", "b", "c"}},
                                                        {7, {"later", "a", "", "a"}}};
  EXPECT_THAT(Shown(asked, 1), ElementsAre("learned"));
  EXPECT_THAT(Shown(asked, 3), ElementsAre("learned", "later", "known"));
  EXPECT_THAT(Shown(asked, 9), ElementsAre("learned", "later", "known", "lost", "never"));
  EXPECT_THAT(Shown({}, 3), IsEmpty());
}

}  // namespace
}  // namespace shoal::client
