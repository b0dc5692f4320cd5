#include "scheduler/peers/memory_shortage.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "scheduler/plan/placement.h"

namespace shoal::scheduler {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::uint64_t kGiB = 1ull << 30;

RunConfig SomeConfig() {
  RunConfig config;
  config.stages = 2;
  config.stage_bytes = {kGiB, 3 * kGiB};
  config.micro_batch_bytes = {kGiB / 4, kGiB};
  return config;
}

TEST(MemoryShortage, SaysWhatDoesNotFitWhereAndWhatToChange) {
  EXPECT_EQ(MemoryShortageText(SomeConfig(), {{"anna", 2 * kGiB}, {"bob", kGiB}}),
            "too little memory: stage 1 needs 3.00 GiB, 1.00 GiB of it for one micro-batch; 0 of "
            "1 peers with as much are here: anna has 2.00 GiB, bob has 1.00 GiB; wait for a peer "
            "with more, or change run.toml: more stages or other cuts (shoal-scheduler --config "
            "run.toml --print-size --memory 2.00GiB says which fit), [adapter] kind = \"lora\", "
            "recompute = true, fewer micro_batch_rows, data with a shorter --row");
  // What is set already is not advised.
  RunConfig config = SomeConfig();
  config.adapter_kind = "lora";
  config.recompute = true;
  config.micro_batch_rows = 1;
  std::string text = MemoryShortageText(config, {{"anna", 2 * kGiB}, {"bob", kGiB}});
  EXPECT_THAT(text, HasSubstr("[model] base = \"nf4\", data"));
  config.base = "nf4";
  text = MemoryShortageText(config, {{"anna", 2 * kGiB}, {"bob", kGiB}});
  EXPECT_THAT(text, Not(HasSubstr("base")));
  // Nor is what would help little.
  config = SomeConfig();
  config.micro_batch_bytes = {0, kGiB / 4};
  text = MemoryShortageText(config, {{"anna", 2 * kGiB}, {"bob", kGiB}});
  EXPECT_TRUE(text.ends_with("[adapter] kind = \"lora\"")) << text;
  config.micro_batch_bytes = {0, 3 * kGiB - 1000};
  text = MemoryShortageText(config, {{"anna", 2 * kGiB}, {"bob", kGiB}});
  EXPECT_THAT(text, Not(HasSubstr("lora")));
}

TEST(MemoryShortage, NamesTheSmallOnesOnly) {
  RunConfig config = SomeConfig();
  config.pipelines = 4;
  std::vector<PeerMemory> peers = {{"large", 4 * kGiB}, {"gpu", 0}};
  for (int i = 0; i < 6; ++i) peers.push_back({"peer" + std::to_string(i), kGiB + i});
  const std::string text = MemoryShortageText(config, peers);
  EXPECT_THAT(text, HasSubstr("[replica] method = \"qsdp\""));
  EXPECT_THAT(text, HasSubstr("2 of 4 peers with as much are here: peer5 has"));
  EXPECT_THAT(text, HasSubstr("peer2 has 1.00 GiB and 2 more;"));
  EXPECT_THAT(text, Not(HasSubstr("large")));
  EXPECT_THAT(text, Not(HasSubstr("gpu")));
}

// A text where placement finds no plan, and none where it finds one.
TEST(MemoryShortage, SpeaksWherePlacementFails) {
  std::mt19937 random(5);
  int failed = 0;
  for (int round = 0; round < 2000; ++round) {
    RunConfig config;
    config.stages = 1 + random() % 4;
    config.pipelines = 1 + random() % 3;
    for (std::uint32_t s = 0; s < config.stages; ++s) {
      config.stage_bytes.push_back(1 + random() % 5);
    }
    std::vector<PeerMemory> named;
    std::vector<PlacementPeer> peers;
    const std::size_t count = std::size_t{config.stages} * config.pipelines + random() % 3;
    for (std::size_t i = 0; i < count; ++i) {
      PeerId id;
      id.key[0] = static_cast<std::uint8_t>(i);
      id.key[1] = 1;
      const std::uint64_t memory = random() % 8;
      peers.push_back({id, i, memory});
      named.push_back({std::to_string(i), memory});
    }
    const auto plan =
        Place(peers, {}, {config.stages, config.pipelines, config.stage_bytes}, nullptr);
    EXPECT_EQ(MemoryShortageText(config, named).empty(), plan.has_value()) << round;
    failed += !plan;
  }
  EXPECT_GT(failed, 200);
  EXPECT_LT(failed, 1800);
}

}  // namespace
}  // namespace shoal::scheduler
