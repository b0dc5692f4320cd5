#include "scheduler/peers/peer_message_check.h"

#include <algorithm>
#include <cmath>

#include "common/text.h"
#include "net/control/control.h"
#include "scheduler/config/swarm_limits.h"

namespace shoal::scheduler {
namespace {

constexpr std::uint64_t kLineBpsMax = 1'000'000'000'000'000;

using control::v1::PeerMessage;

Status TooLong(const char* field, std::size_t size, std::size_t limit) {
  return InvalidArgument(std::string("malformed message: ") + field + " has " +
                         std::to_string(size) + ", the limit is " + std::to_string(limit));
}

Status CheckAddresses(const google::protobuf::RepeatedPtrField<std::string>& texts) {
  const auto addresses = static_cast<std::size_t>(texts.size());
  if (addresses > kAddressesMax) return TooLong("addresses", addresses, kAddressesMax);
  for (const std::string& address : texts) {
    if (address.size() > kAddressCharactersMax) {
      return TooLong("address", address.size(), kAddressCharactersMax);
    }
  }
  return Status::Ok();
}

Status CheckHeartbeat(const control::v1::Heartbeat& heartbeat) {
  if (heartbeat.status_json().size() > kStatusBytesMax) {
    return TooLong("status_json", heartbeat.status_json().size(), kStatusBytesMax);
  }
  if (heartbeat.mapped_address().size() > kAddressCharactersMax) {
    return TooLong("mapped_address", heartbeat.mapped_address().size(), kAddressCharactersMax);
  }
  if (heartbeat.state().size() > kNameCharactersMax) {
    return TooLong("state", heartbeat.state().size(), kNameCharactersMax);
  }
  if (std::max(heartbeat.line().upload_bps(), heartbeat.line().download_bps()) > kLineBpsMax) {
    return InvalidArgument("malformed message: a line rate above one petabit per second");
  }
  return CheckAddresses(heartbeat.addresses());
}

Status CheckHello(const control::v1::Hello& hello) {
  if (hello.name().size() > kNameCharactersMax) {
    return TooLong("name", hello.name().size(), kNameCharactersMax);
  }
  if (hello.version().size() > kNameCharactersMax) {
    return TooLong("version", hello.version().size(), kNameCharactersMax);
  }
  if (hello.device().size() > kDeviceCharactersMax) {
    return TooLong("device", hello.device().size(), kDeviceCharactersMax);
  }
  SHOAL_RETURN_IF_ERROR(CheckAddresses(hello.addresses()));
  if (hello.listen_port() > 65535) {
    return InvalidArgument("malformed message: listen_port " + std::to_string(hello.listen_port()) +
                           " is above 65535");
  }
  const auto losses = static_cast<std::size_t>(hello.held().losses_size());
  if (losses > kHeldLossesMax) return TooLong("held.losses", losses, kHeldLossesMax);
  for (const double loss : hello.held().losses()) {
    if (!std::isfinite(loss)) return InvalidArgument("malformed message: a loss is not finite");
  }
  return Status::Ok();
}

bool Measured(double value) { return std::isfinite(value) && value >= 0; }

Status CheckPlanReady(const control::v1::PlanReady& ready, const RunConfig& config) {
  // The members of the stage group, and those of other stages that share tensors.
  const std::size_t stages = std::max<std::size_t>(config.sharing.size(), 1);
  const std::size_t most = stages * config.pipelines;
  const auto round_trips = static_cast<std::size_t>(ready.round_trips_size());
  if (round_trips > most) return TooLong("round_trips", round_trips, most);
  for (const control::v1::RoundTrip& trip : ready.round_trips()) {
    if (trip.peer().size() != kHashBytes) return TooLong("peer", trip.peer().size(), kHashBytes);
    if (!Measured(trip.ms())) {
      return InvalidArgument("malformed message: a round-trip time is negative or not finite");
    }
  }
  return Status::Ok();
}

Status CheckStepReady(const control::v1::StepReady& ready, const RunConfig& config) {
  if (ready.micro_batches() > config.micro_batches) {
    return InvalidArgument("malformed message: more micro-batches than a step has");
  }
  const std::uint64_t labels_max =
      std::uint64_t{config.micro_batches} * config.micro_batch_rows * config.row_tokens;
  if (ready.labels() > labels_max) {
    return InvalidArgument("malformed message: more labels than a step has tokens");
  }
  if (ready.evaluation_labels() > std::uint64_t{kEvaluateRowsMax} * config.row_tokens) {
    return InvalidArgument("malformed message: more labels than an evaluation has tokens");
  }
  // Not finite: its gradient is lost.
  if (ready.squared_norm() < 0) {
    return InvalidArgument("malformed message: squared norm below zero");
  }
  const int most = static_cast<int>(config.micro_batches);
  if (ready.input_digests_size() > most || ready.output_digests_size() > most ||
      ready.losses_size() > most) {
    return InvalidArgument(
        "malformed message: more digests or losses than a step has micro-batches");
  }
  const control::v1::StageTiming& timing = ready.timing();
  if (!Measured(timing.forward_ms()) || !Measured(timing.backward_ms()) ||
      !Measured(timing.send_forward_ms()) || !Measured(timing.send_backward_ms()) ||
      !Measured(timing.backward_weights_ms()) || !Measured(timing.round_trip_ms())) {
    return InvalidArgument("malformed message: a measured time is negative or not finite");
  }
  return Status::Ok();
}

Status CheckCheckpointDone(const control::v1::CheckpointDone& done, const RunConfig& config) {
  const std::size_t files_max = 2 * (std::size_t{config.layers} + 3);
  const auto files = static_cast<std::size_t>(done.files_size());
  if (files > files_max) return TooLong("files", files, files_max);
  for (const control::v1::ArtefactRef& file : done.files()) {
    if (file.name().empty() || file.name().size() > kNameCharactersMax) {
      return InvalidArgument("malformed message: the name of a file is empty or longer than " +
                             std::to_string(kNameCharactersMax) + " characters");
    }
    if (file.hash().size() != kHashBytes) {
      return TooLong("hash", file.hash().size(), kHashBytes);
    }
    if (file.size() == 0) return InvalidArgument("malformed message: a file is empty");
  }
  return Status::Ok();
}

Status CheckSyncDone(const control::v1::SyncDone& done) {
  // Infinity and NaN are answers of a diverging run; a negative sum of squares is nonsense.
  if (done.squared_norm() < 0) {
    return InvalidArgument("malformed message: squared norm below zero");
  }
  if (!std::isfinite(done.exchange_ms()) || done.exchange_ms() < 0 ||
      done.factor_values() > done.exact_values()) {
    return InvalidArgument(
        "malformed message: exchange_ms is negative or not finite, or factor_values is above "
        "exact_values");
  }
  return Status::Ok();
}

Status CheckSpotChecked(const control::v1::SpotChecked& checked) {
  if (checked.error().size() > kReasonCharactersMax) {
    return TooLong("error", checked.error().size(), kReasonCharactersMax);
  }
  if (!Measured(checked.difference()) || !Measured(checked.coding_error())) {
    return InvalidArgument("malformed message: a measured difference is negative or not finite");
  }
  return Status::Ok();
}

}  // namespace

Status CheckAdmission(const control::v1::Hello& hello, const RunConfig& config) {
  if (hello.protocol() != net::kProtocolVersion) {
    const bool older = hello.protocol() < net::kProtocolVersion;
    return FailedPrecondition(
        "this scheduler speaks protocol version " + std::to_string(net::kProtocolVersion) +
        ", your shoald (" + CleanText(hello.version(), kNameCharactersMax) + ") speaks version " +
        std::to_string(hello.protocol()) + "; update " +
        (older ? "shoald on your machine" : "shoal-scheduler, or use the shoald that fits it"));
  }
  if (hello.run() != 0 && hello.run() != config.run.value) {
    return FailedPrecondition("this scheduler serves run " + config.run.ToHex() +
                              ", your peer expects run " + RunId{hello.run()}.ToHex() +
                              "; leave the old run and join with the new invite line");
  }
  return Status::Ok();
}

Status CheckPeerMessage(const PeerMessage& message, const RunConfig& config) {
  switch (message.kind_case()) {
    case PeerMessage::kHello: return CheckHello(message.hello());
    case PeerMessage::kHeartbeat: return CheckHeartbeat(message.heartbeat());
    case PeerMessage::kStepReady: return CheckStepReady(message.step_ready(), config);
    case PeerMessage::kSyncDone: return CheckSyncDone(message.sync_done());
    case PeerMessage::kApplied:
      return message.applied().boundaries_size() > 2
                 ? InvalidArgument("malformed message: more entries than a stage has boundaries")
                 : Status::Ok();
    case PeerMessage::kCheckpointDone:
      return CheckCheckpointDone(message.checkpoint_done(), config);
    case PeerMessage::kLinkBroken:
      return message.link_broken().peer().size() != kHashBytes
                 ? TooLong("peer", message.link_broken().peer().size(), kHashBytes)
                 : Status::Ok();
    case PeerMessage::kPlanReady: return CheckPlanReady(message.plan_ready(), config);
    case PeerMessage::kPrepared:
      return message.prepared().stage() >= config.stages
                 ? InvalidArgument("malformed message: a stage that the run does not have")
                 : Status::Ok();
    case PeerMessage::kSpotChecked: return CheckSpotChecked(message.spot_checked());
    case PeerMessage::kCaughtUp:
    case PeerMessage::kArtefactsOffered:
    case PeerMessage::kPlanFailed:
    case PeerMessage::kLeaving:
    case PeerMessage::kHandingOver: return Status::Ok();
    case PeerMessage::KIND_NOT_SET: break;
  }
  return InvalidArgument("malformed message: it has no kind that this version knows");
}

}  // namespace shoal::scheduler
