// The passes of turned tokens and of factors per channel as loops on the host (host_lanes.h).

#ifndef SHOAL_TESTS_UNIT_COMPRESSION_DEVICE_HOST_TURN_LANES_H_
#define SHOAL_TESTS_UNIT_COMPRESSION_DEVICE_HOST_TURN_LANES_H_

#include "compression/device/codecs/lane_scale.h"
#include "compression/device/codecs/lane_turn.h"

namespace shoal::compression {

inline void RunOnHost(const ScaleJob& job) {
  for (std::uint32_t s = 0; s < job.count; ++s) {
    for (std::uint32_t group = 0; group < (job.values + kLaneGroup - 1) / kLaneGroup; ++group) {
      ScaleGroup(job, job.samples[s], group);
    }
  }
}

inline void RunOnHost(const TurnJob& job) {
  TurnTile tile;
  for (std::uint32_t row = 0; row < TurnRowsOf(job); row += kTurnRows) {
    for (std::uint32_t column = 0; column < TurnColumnsOf(job); column += kTurnColumns) {
      TurnSums totals[kTurnLanes] = {};
      for (std::uint32_t term = 0; term < TurnTermsOf(job); term += kTurnTerms) {
        for (std::uint32_t lane = 0; lane < kTurnLanes; ++lane) {
          LoadTurnTile(job, row, column, term, lane, tile);
        }
        for (std::uint32_t lane = 0; lane < kTurnLanes; ++lane) {
          AddTurnTile(job, tile, term, lane, totals[lane]);
        }
      }
      for (std::uint32_t lane = 0; lane < kTurnLanes; ++lane) {
        StoreTurnSums(job, row, column, lane, totals[lane]);
      }
    }
  }
}

}  // namespace shoal::compression

#endif  // SHOAL_TESTS_UNIT_COMPRESSION_DEVICE_HOST_TURN_LANES_H_
