// The scheduler's messages in the terms of the stage, and the stage's reports as messages. Pure.
// Thread: any.

#ifndef SHOAL_DAEMON_STAGE_MESSAGES_H_
#define SHOAL_DAEMON_STAGE_MESSAGES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "common/ids.h"
#include "common/status.h"
#include "net/links/link.h"
#include "pipeline/runner/stage_runner.h"
#include "proto/control.pb.h"
#include "storage/files/content_store.h"

namespace shoal::daemon {

// Zeros if the bytes are no peer id.
PeerId ToPeerId(const std::string& bytes);
// An error if the hash has a wrong length.
Result<storage::ArtefactRef> ToRef(const control::v1::ArtefactRef& proto);
pipeline::StageTimes ToTimes(const control::v1::StageTiming& timing);
// Whether so many addresses, of such lengths, are those of one peer.
Status CheckAddresses(const google::protobuf::RepeatedPtrField<std::string>& addresses);
// Whether a plan stays within the limits of run.toml, has at most one position for each stage of
// each pipeline, and a whole one: nothing is allocated or counted by its numbers before.
Status CheckPlan(const control::v1::Plan& plan);
// The same of its numbers alone, without positions.
Status CheckRun(const control::v1::RunConfig& run);
// Whether the plan has all stages of the pipeline. If not, its peers follow the others.
bool IsWhole(const control::v1::Plan& plan, std::uint32_t pipeline);
// Whether the pipeline has lost a peer by now.
bool LosesIn(const control::v1::StepPlan& plan, std::uint32_t pipeline);
// Of a peer that trains, for people: why it only follows; empty: it does not.
std::string FollowsText(bool shadow, bool whole);
pipeline::MicroBatchPlan ToMicroBatchPlan(const control::v1::MicroBatchPlan& planned);
// Of a plan that has `own` as one of its positions. `sharing`: MemberConfig's.
pipeline::StepPlan ToStepPlan(const control::v1::StepPlan& plan, const control::v1::Position& own,
                              const control::v1::RunConfig& config,
                              const std::vector<std::uint32_t>& sharing);
replica::ReduceOrder ToReduceOrder(const control::v1::Reduce& reduce);
replica::ApplyOrder ToApplyOrder(const control::v1::Apply& apply);
// As RunnerConfig has them; empty where the plan names no LAN of this stage.
std::vector<std::uint32_t> LansOf(const control::v1::Plan& plan, std::uint32_t stage);
std::vector<std::uint32_t> SharedLansOf(const control::v1::Plan& plan,
                                        const std::vector<std::uint32_t>& sharing);
// Pipelines whose peers share a LAN with that of `own` in its stage group, the own one too; or
// none.
std::vector<std::uint32_t> LanNeighbours(const control::v1::Plan& plan,
                                         const control::v1::Position& own);
// Pipelines whose peers hold the stage; none where no stage of the plan has a shadow.
std::vector<std::uint32_t> HoldersOf(const control::v1::Plan& plan, std::uint32_t stage);
// Peers of the stage that do not hold it.
std::uint32_t ShadowsOf(const control::v1::Plan& plan, std::uint32_t stage);
// Whether it carries what groups agree on, not a boundary.
bool IsGroupLink(const net::LinkStats& link);
// What is measured of the links inside groups, once per peer.
void AddRoundTrips(const std::vector<net::LinkStats>& links, control::v1::PlanReady* ready);

// The link to `peer` broke; for more, the fields of LinkBroken.
control::v1::PeerMessage LinkBrokenMessage(std::uint64_t generation, const Status& status,
                                           const PeerId& peer);
// The same for people.
std::string LinkBrokenText(const control::v1::LinkBroken& broken, const PeerId& peer);
control::v1::PeerMessage StepReadyMessage(std::uint64_t generation,
                                          const pipeline::StepReady& ready);
control::v1::PeerMessage SpotCheckedMessage(std::uint64_t generation,
                                            const pipeline::SpotResult& result);
control::v1::PeerMessage SyncDoneMessage(std::uint64_t generation, std::uint64_t step,
                                         std::uint32_t amendment, double squared_norm,
                                         const replica::ExactExchange& exchange);
// Residuals are left out: there is no other end to compare them with.
control::v1::PeerMessage AppliedMessage(std::uint64_t generation, std::uint64_t step,
                                        const std::vector<pipeline::BoundaryChecksum>& boundaries);

}  // namespace shoal::daemon

#endif  // SHOAL_DAEMON_STAGE_MESSAGES_H_
