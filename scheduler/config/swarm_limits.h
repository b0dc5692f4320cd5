// Named limits of the SwarmState. That of connections is net::kControlConnectionsMax; after how
// long something counts as broken is in common/timeouts.h.

#ifndef SHOAL_SCHEDULER_CONFIG_SWARM_LIMITS_H_
#define SHOAL_SCHEDULER_CONFIG_SWARM_LIMITS_H_

#include <cstddef>
#include <cstdint>

#include "common/clock.h"

namespace shoal::scheduler {

inline constexpr std::uint32_t kStepPlansAhead = 3;  // in progress and ahead
// While shadows catch up: whoever comes in step counts from the first plan on that is not out.
inline constexpr std::uint32_t kStepPlansWithShadows = 2;
inline constexpr std::uint64_t kDealtStepsMax = 64;   // ahead, that a stored event may name
inline constexpr std::uint32_t kFailuresMax = 5;      // in a row, without progress
inline constexpr std::uint32_t kSavesFailedMax = 2;   // in a row, then a spare takes the position
inline constexpr std::uint32_t kSkippedStepsMax = 2;  // in a row; one more is not applied
inline constexpr std::size_t kPendingCheckpointsMax = 2;  // being uploaded at once
inline constexpr std::size_t kLossesPerEvent = 64;
inline constexpr Duration kLossesEvery = std::chrono::seconds(10);  // stored sooner then
// Comings and goings that are stored: at once, then one in every while; of all, and of one member.
inline constexpr std::uint32_t kAttendanceMax = 256;
inline constexpr Duration kAttendanceEvery = std::chrono::seconds(10);
inline constexpr std::uint32_t kAttendanceOfMemberMax = 8;
inline constexpr Duration kAttendanceOfMemberEvery = std::chrono::minutes(5);
inline constexpr std::uint32_t kEvaluateRowsMax = 65536;  // validation rows of a measurement
// Of a micro-batch of them: its activations are one frame, 256 MiB at a hidden size of 8192.
inline constexpr std::uint32_t kEvaluationTokensMax = 16384;
inline constexpr std::uint32_t kWeightRepairsMax = 3;  // of one peer; then the run is held
// Of one member, to its neighbours: at once, then in every while.
inline constexpr Duration kAddressesEvery = std::chrono::seconds(10);
inline constexpr Duration kAwayLimit = std::chrono::minutes(10);  // then a spare is forgotten
inline constexpr Duration kBackoffFirst = std::chrono::seconds(1);
inline constexpr Duration kBackoffMax = std::chrono::seconds(30);
inline constexpr std::size_t kAbsentMax = 64;  // without a position; then the longest away goes
inline constexpr std::size_t kStatusBytesInAll = 32u << 20;  // of members without a position

// For peers to come back with what they hold: where a stage has no other member, and after a
// restart of the scheduler, from the first that is back.
inline constexpr Duration kReturnGrace = std::chrono::seconds(2);
// And longer where the organiser is to make space on a disk, and resume.
inline constexpr Duration kHeldWait = std::chrono::minutes(9);
// An upload line that nobody knows counts as this, in bit/s, where time is given.
inline constexpr double kUnknownBps = 20e6;
// To save a stage to the disk of who holds it, once nothing orders it to.
inline constexpr Duration kSaveLimit = std::chrono::minutes(1);
// For more peers to come before a run whose steps nobody holds goes on with fewer pipelines.
inline constexpr Duration kFewerPipelinesAfter = std::chrono::seconds(15);
// After the last member was lost of those that go together, the others go on.
inline constexpr Duration kLostTogether = std::chrono::milliseconds(500);
// Of a step, done by those who are left: more than a new generation costs them.
inline constexpr Duration kWorthKeeping = std::chrono::seconds(2);
// What a plan in place costs those who train, about.
inline constexpr double kPlanInPlaceSeconds = 3;
// For a peer to be lost of which others only say that their link to it broke.
inline constexpr Duration kLinkGrace = std::chrono::seconds(1);
// Members of a stage: with fewer than that one comes in that makes no pipeline whole.
inline constexpr std::size_t kCopiesWanted = 12;
// It waits for others to get ready, who may make one whole.
inline constexpr Duration kCopiesWait = std::chrono::seconds(30);
inline constexpr Duration kPrepareAgainAfter = std::chrono::minutes(1);  // what failed
inline constexpr Duration kPrepareAgainFirst = std::chrono::seconds(2);  // who went as a shadow
inline constexpr Duration kPrepareAgainMax = std::chrono::minutes(10);
// Where only a checkpoint lets further pipelines in: until some are tried that did not train last
// time, at first and at most.
inline constexpr Duration kGrowAgainAfter = std::chrono::minutes(1);
inline constexpr Duration kGrowAgainAfterMost = std::chrono::hours(1);
inline constexpr std::uint32_t kInPlaceTries = 3;  // from the same step
inline constexpr Duration kRestartGrace = std::chrono::seconds(15);
inline constexpr Duration kReleaseAfter = std::chrono::minutes(1);  // a checkpoint has it
// To save what a broken generation made: what always pays, and how long it may take beyond three
// times what the lines need.
inline constexpr double kClosingAlwaysSeconds = 10;
inline constexpr Duration kClosingLimit = std::chrono::minutes(1);

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_CONFIG_SWARM_LIMITS_H_
