#include "common/process/machine_memory.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "tests/support/temporary_folder.h"

namespace shoal {
namespace {

TEST(MachineMemory, IsTheMachinesOrTheContainers) {
  const test_support::TemporaryFolder folder;
  const std::string file = folder / "memory.max";
  const char* const path = file.c_str();
  const auto with = [&](const std::string& text) {
    std::ofstream(path, std::ios::trunc) << text;
    return MachineMemoryBytes({&path, 1});
  };
  const std::uint64_t all = MachineMemoryBytes({&path, 1});  // there is no such file
  EXPECT_GT(all, 1U << 20);
  EXPECT_EQ(with("max\n"), all);
  EXPECT_EQ(with(""), all);
  EXPECT_EQ(with("0\n"), all);
  EXPECT_EQ(with("9223372036854771712\n"), all);
  EXPECT_EQ(with("99999999999999999999999\n"), all);
  EXPECT_EQ(with("1048576\n"), 1U << 20);
  EXPECT_LE(MachineMemoryBytes(), all);
}

}  // namespace
}  // namespace shoal
