// Spot checks as scripted peers take part in them.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "unit/scheduler/sim_swarm.h"

namespace shoal::scheduler {
namespace {

// Of what crosses a boundary.
std::uint64_t DigestAt(std::uint64_t step, int pipeline, int boundary, int place) {
  return 1 +
         ((step * 64 + static_cast<std::uint64_t>(pipeline)) * 64 +
          static_cast<std::uint64_t>(boundary)) *
             64 +
         static_cast<std::uint64_t>(place);
}

}  // namespace

void SimSwarm::AddDigests(const SimPeer& peer, int micro_batches,
                          control::v1::StepReady* ready) const {
  const int last = static_cast<int>(config_.stages) - 1;
  for (int place = 0; place < micro_batches; ++place) {
    const std::uint64_t forged = peer.forges ? 7 : 0;
    if (peer.stage > 0) {
      ready->add_input_digests(DigestAt(peer.applied, peer.pipeline, peer.stage - 1, place));
    }
    if (peer.stage < last) {
      ready->add_output_digests(DigestAt(peer.applied, peer.pipeline, peer.stage, place) + forged);
    }
  }
}

void SimSwarm::OnSpotCheck(SimPeer* peer, const control::v1::SpotCheck& check) {
  const int pipeline = static_cast<int>(check.pipeline()), stage = static_cast<int>(check.stage());
  EXPECT_TRUE(peer->stage != stage || peer->pipeline != pipeline) << "it must not know";
  if (peer->stage != stage) {
    EXPECT_TRUE(peer->pipeline == pipeline && std::abs(peer->stage - stage) == 1);
    return;
  }
  EXPECT_GT(std::ranges::count(check.checkers(), static_cast<std::uint32_t>(peer->pipeline)), 0);
  bool wrong = peer->slanders;
  for (const auto& other : peers_) {
    if (other->stage == stage && other->pipeline == pipeline) wrong = wrong || other->cheats;
  }
  control::v1::PeerMessage message;
  control::v1::SpotChecked* const checked = message.mutable_spot_checked();
  checked->set_generation(check.generation());
  checked->set_step(check.step());
  const int place = static_cast<int>(check.place());
  const bool last = stage + 1 == static_cast<int>(config_.stages);
  if (stage > 0) checked->set_input_digest(DigestAt(check.step(), pipeline, stage - 1, place));
  if (!last) checked->set_output_digest(DigestAt(check.step(), pipeline, stage, place));
  checked->set_difference(wrong ? 0.8 : 0.01);
  checked->set_coding_error(0.05);
  checked->set_labels(1);
  checked->set_loss_sum(wrong ? 1e6 : SimLossSum(check.step(), check.micro_batch().global_index()));
  Answer(peer, 300, message);
}

}  // namespace shoal::scheduler
