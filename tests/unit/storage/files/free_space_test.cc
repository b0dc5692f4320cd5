#include "storage/files/free_space.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>

#include "tests/support/on_executor.h"
#include "tests/support/temporary_folder.h"

namespace shoal::storage {
namespace {

TEST(FreeBytes, AreThoseOfAFolderThatIsThere) {
  const test_support::TemporaryFolder folder;
  const auto free = FreeBytes(folder.path());
  ASSERT_TRUE(free);
  const auto space = std::filesystem::space(folder.path());
  EXPECT_LE(*free, space.capacity);
  EXPECT_FALSE(FreeBytes(folder.path() + "/none"));
}

TEST(FreeSpace, LooksOnTheOtherThreadAndMayGoBeforeItsAnswer) {
  const test_support::TemporaryFolder folder;
  const auto owner = NewThreadExecutor("control");
  const auto store = NewThreadExecutor("store");
  auto space = std::make_unique<FreeSpace>(owner.get(), store.get(), folder.path());
  test_support::RunOn(owner.get(), [&] {
    EXPECT_FALSE(space->bytes());
    space->Look();
    space->Look();
    return 0;
  });
  EXPECT_TRUE(test_support::WaitUntil(owner.get(), [&] { return space->bytes().has_value(); }));
  auto gone = std::make_unique<FreeSpace>(owner.get(), store.get(), folder.path());
  test_support::RunOn(owner.get(), [&] {
    gone->Look();
    gone.reset();
    return 0;
  });
  test_support::RunOn(store.get(), [] { return 0; });
  test_support::RunOn(owner.get(), [] { return 0; });
}

}  // namespace
}  // namespace shoal::storage
