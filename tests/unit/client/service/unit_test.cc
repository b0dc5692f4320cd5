#include "client/service/unit.h"

#include <gmock/gmock.h>

namespace shoal::client {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

TEST(Unit, OfAUserHasNoOptionsThatOnlyTheMachinesManagerCanEnforce) {
  const std::string text = UnitText({false, "/usr/bin/shoald", "", ""});
  EXPECT_THAT(text, StartsWith(kUnitMark));
  EXPECT_THAT(text, HasSubstr("\nExecStart=\"/usr/bin/shoald\"\n"));
  EXPECT_THAT(text, HasSubstr("\nType=notify\n"));
  EXPECT_THAT(text, HasSubstr("\nRestart=on-failure\n"));
  EXPECT_THAT(text, HasSubstr("\nRestartPreventExitStatus=77 78\n"));
  EXPECT_THAT(text, HasSubstr("\nWantedBy=default.target\n"));
  EXPECT_THAT(text, Not(HasSubstr("ProtectSystem")));
}

TEST(Unit, OfTheMachineIsASandboxThatGpusWorkIn) {
  const std::string text = UnitText({true, "/usr/bin/shoald", "", "/etc/shoal/shoald.toml"});
  EXPECT_THAT(text, HasSubstr("\nExecStart=\"/usr/bin/shoald\" --dir \"/var/lib/shoal\" --config "
                              "\"/etc/shoal/shoald.toml\"\n"));
  for (const char* line :
       {"DynamicUser=yes", "StateDirectory=shoal", "ProtectSystem=strict", "ProtectHome=yes",
        "CapabilityBoundingSet=", "DeviceAllow=char-nvidia rw", "DeviceAllow=char-nvidia-uvm rw",
        "WantedBy=multi-user.target"}) {
    EXPECT_THAT(text, HasSubstr("\n" + std::string(line) + "\n"));
  }
  // Each of these takes the GPU away, or the compiled kernels.
  for (const char* word :
       {"PrivateDevices", "MemoryDenyWriteExecute", "ProcSubset", "ProtectKernelModules"}) {
    EXPECT_THAT(text, Not(HasSubstr(word)));
  }
  // It would hide the programs beside which the peer pauses: they run as other users.
  EXPECT_THAT(text, Not(HasSubstr("ProtectProc")));
}

TEST(Unit, KeepsPathsAsTheyAre) {
  EXPECT_THAT(UnitText({false, "/o p/shoald", "/50%/\"$x\\", ""}),
              HasSubstr("ExecStart=\"/o p/shoald\" --dir \"/50%%/\\\"$$x\\\\\"\n"));
}

}  // namespace
}  // namespace shoal::client
