#include "daemon/peer_state.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <sstream>
#include <string>

#include "common/file.h"
#include "daemon_test_util.h"

namespace shoal::daemon {
namespace {

using S = PeerState;

constexpr S kAll[] = {S::kStarting, S::kIdle,   S::kJoining,  S::kWaiting, S::kSyncing,
                      S::kTraining, S::kPaused, S::kDraining, S::kStopped};

// The lifecycle once more, in the words of the status.
const std::map<std::string, std::set<std::string>> kChanges = {
    {"starting", {"idle", "joining", "draining", "stopped"}},
    {"idle", {"joining", "draining", "stopped"}},
    {"joining", {"waiting", "paused", "syncing", "idle", "draining", "stopped"}},
    {"waiting", {"syncing", "training", "joining", "paused", "draining", "stopped"}},
    {"syncing", {"training", "waiting", "joining", "paused", "draining", "stopped"}},
    {"training", {"waiting", "syncing", "joining", "paused", "draining", "stopped"}},
    {"paused", {"joining", "waiting", "draining", "stopped"}},
    {"draining", {"stopped"}},
    {"stopped", {}},
};

TEST(PeerState, NamesAreUnique) {
  std::set<std::string_view> names;
  for (const S state : kAll) names.insert(PeerStateName(state));
  EXPECT_EQ(names.size(), std::size(kAll));
  EXPECT_EQ(names.count("unknown"), 0u);
}

TEST(PeerState, AllowsExactlyTheChangesOfTheTable) {
  for (const S from : kAll) {
    const std::set<std::string>& allowed = kChanges.at(std::string(PeerStateName(from)));
    for (const S to : kAll) {
      EXPECT_EQ(CanChange(from, to), allowed.count(std::string(PeerStateName(to))) != 0)
          << PeerStateName(from) << " -> " << PeerStateName(to);
    }
  }
}

TEST(PeerState, ArchitecturePageHasTheSameTable) {
  const Result<std::string> page = ReadFile(SourceFile("docs/ARCHITECTURE.md"), 1 << 20);
  ASSERT_TRUE(page.ok()) << page.status().ToString();
  for (const S from : kAll) {
    if (from == S::kDraining || from == S::kStopped) continue;
    std::string list;
    for (const S to : kAll) {
      if (to == S::kDraining || to == S::kStopped || !CanChange(from, to)) continue;
      list += (list.empty() ? "" : ", ") + std::string(PeerStateName(to));
    }
    const std::string row = "\n" + std::string(PeerStateName(from)) + "|" + list + "|";
    EXPECT_NE(page->find(row), std::string::npos) << row;
  }
}

}  // namespace
}  // namespace shoal::daemon
