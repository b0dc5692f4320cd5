// What several simulations of whole swarms need: names, options, looks into stores and failures.

#ifndef SHOAL_TESTS_SIM_SIM_UTIL_H_
#define SHOAL_TESTS_SIM_SIM_UTIL_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tests/support/sim_swarm.h"

namespace shoal::test_support {

inline std::string Why(SimSwarm& swarm) {
  for (const auto& peer : swarm.peers()) {
    if (peer->failure_) return peer->failure_->status.ToString();
  }
  return swarm.held() ? "the run is held" : "no failure";
}

inline SwarmOptions OptionsOf(const std::string& forward, const std::string& backward,
                              std::uint32_t stages = 2, std::uint32_t pipelines = 1,
                              unsigned seed = 1) {
  SwarmOptions options;
  options.stages = stages;
  options.pipelines = pipelines;
  options.forward = forward;
  options.backward = backward;
  options.seed = seed;
  return options;
}

inline SwarmOptions Quantised(std::uint32_t stages, std::uint32_t pipelines = 1,
                              unsigned seed = 1) {
  return OptionsOf("aqsgd:bits=4", "direct:bits=8", stages, pipelines, seed);
}

inline storage::BoundaryEnd Place(std::uint32_t boundary, storage::BoundarySide side) {
  return {kSimRun, boundary, side};
}

// Every record of one end of a boundary, byte for byte, by its sample.
using Images = std::map<std::uint64_t, std::vector<std::byte>>;

inline Images ImagesOf(SimSwarm::Peer& peer, const storage::BoundaryEnd& boundary_end) {
  Images images;
  const auto inventory = peer.store_->Inventory(boundary_end);
  EXPECT_TRUE(inventory.ok());
  if (!inventory.ok()) return images;
  for (const auto& entry : *inventory) {
    const auto record = peer.store_->Get(boundary_end, entry.segment);
    const bool there = record.ok() && record->has_value();
    EXPECT_TRUE(there) << entry.segment.value;
    if (!there) continue;
    const auto bytes = (*record)->image.bytes();
    images[entry.segment.value].assign(bytes.begin(), bytes.end());
  }
  return images;
}

}  // namespace shoal::test_support

#endif  // SHOAL_TESTS_SIM_SIM_UTIL_H_
