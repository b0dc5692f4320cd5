#include "scheduler/door/membership_office.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "net/identity/membership.h"
#include "tests/support/temporary_folder.h"

namespace shoal::scheduler {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr std::uint64_t kNow = 1'700'000'000'000, kHour = 3'600'000;

TEST(MembershipOffice, RenewsLongBeforeTheEnd) {
  const test_support::TemporaryFolder folder;
  const auto scheduler = *net::LoadOrCreateIdentity(folder.path());
  MembershipOffice office(scheduler);
  const PeerId peer{{7}};
  const auto first =
      net::ReadMembership(office.Issue(1, RunId{5}, peer, kNow), scheduler->id).value();
  EXPECT_EQ(first.peer, peer);
  EXPECT_EQ(first.run, RunId{5});
  EXPECT_EQ(first.not_after_s, kNow / 1000 + 23 * 3600);
  EXPECT_THAT(office.Due(kNow + 11 * kHour - 1), IsEmpty());
  EXPECT_THAT(office.Due(kNow + 11 * kHour), ElementsAre(1));
  const auto second =
      net::ReadMembership(office.Issue(1, RunId{5}, peer, kNow + 11 * kHour), scheduler->id)
          .value();
  EXPECT_GT(second.serial, first.serial);
  EXPECT_THAT(office.Due(kNow + 11 * kHour), IsEmpty());
  EXPECT_THAT(office.Due(kNow - 3 * kHour), ElementsAre(1)) << "the clock was set back";
  office.Forget(1);
  EXPECT_THAT(office.Due(kNow + 100 * kHour), IsEmpty());
}

}  // namespace
}  // namespace shoal::scheduler
