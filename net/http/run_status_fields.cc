// What shoal-scheduler says of its run.

#include "net/http/status_fields.h"

namespace shoal::net {
namespace {

using namespace field_rows;
using enum FieldUnit;

constexpr StatusField Foreign(std::string_view path, const char* help) {
  return {.path = path, .kind = FieldKind::kForeign, .help = help};
}

constexpr StatusField kFields[] = {
    Number("schemaVersion", kNone, "Version of this status's fields; 2."),
    Text("program", "Program that answers: shoal-scheduler."),
    Text("version", "Version of the program.").Metric("shoal_build_info"),
    Text("role", "Whether this scheduler leads the run.")
        .Values("leader; standby")
        .Metric("shoal_scheduler_role", "", "1 for the role of this scheduler."),

    Object("standby", "What a scheduler that stands by says in place of the run."),
    Text("standby.run", "Name of the run."),
    Text("standby.leader", "Machine and port of the scheduler that leads, or why it is not known."),
    Number("standby.leaderSeenSeconds", kSeconds,
           "Time since etcd named a leader last; null: not yet.")
        .Metric("shoal_standby_leader_seen_seconds"),
    Number("standby.events", kNone, "Events of the history that are known here.")
        .Metric("shoal_standby_events"),
    Number("standby.missingFiles", kNone, "Files of the newest checkpoint that are not here yet.")
        .Metric("shoal_standby_missing_files"),

    Object("run", "The run that this scheduler serves."),
    Text("run.id", "Id of the run, 16 hexadecimal digits."),
    Text("run.name", "Name of the run."),
    Flag("run.withoutWeights", "Whether a bench runs, whose stages compute nothing."),
    Text("run.state", "State that the run is in.")
        .Values("waiting; preparing; training; paused; finished; failed")
        .Metric("shoal_run_state", "", "1 for the state the run is in."),
    Text("run.reason", "Why the run waits, is paused or failed."),
    Number("run.generation", kNone, "Number of the newest plan.").Metric("shoal_generation"),
    Number("run.step", kNone, "Optimizer steps applied by the run.").Metric("shoal_global_step"),
    Number("run.steps", kNone, "Optimizer steps of the whole run.").Metric("shoal_target_step"),
    Number("run.loss", kNone, "Token-mean loss of the last step.")
        .Label("loss")
        .Metric("shoal_training_loss"),
    Number("run.losses[]", kNone, "Token-mean loss of each step, from step 0.").Label("loss"),
    Number("run.heldOutLoss", kNone,
           "Token-mean loss on validation rows, measured last; null: not yet.")
        .Label("held out")
        .Metric("shoal_held_out_loss"),
    Number("run.heldOutStep", kNone, "Optimizer steps applied before that measurement.")
        .Metric("shoal_held_out_step"),
    Number("run.heldOut[][]", kNone, "Steps applied and held-out loss of each measurement.")
        .Label("held out"),
    Number("run.samplesPerSecond", kNone, "Training samples per second, recent steps.")
        .Metric("shoal_samples_per_second"),
    Number("run.stepSeconds", kSeconds, "Duration of a step, recent steps.")
        .Metric("shoal_step_seconds"),
    Number("run.controlSeconds", kSeconds,
           "Time from the last StepReady to the last SyncDone of the last step.")
        .Metric("shoal_step_control_seconds"),
    Number("run.lastStepSeconds[]", kSeconds, "Durations of up to 16 steps, the newest last."),
    Number("run.checkpointStep", kNone, "Steps applied in the newest complete checkpoint.")
        .Label("checkpoint")
        .Metric("shoal_checkpoint_step"),
    Number("run.checkpointEvery", kNone, "Steps from one checkpoint to the next, now."),
    Number("run.skippedSteps", kNone,
           "Applied steps that changed no weights, as a gradient was not finite.")
        .Metric("shoal_skipped_steps"),
    Text("run.lastSkipped", "Whose gradient was not finite at the last skipped step."),
    Number("run.samplesPerStep", kNone, "Samples of a step, over all pipelines."),

    Object("members[]", "Peers of the run, spares and those that are away too."),
    Text("members[].peer", "Public key of the peer, 64 hexadecimal digits.").Label("id"),
    Text("members[].name", "Name that the peer's owner chose.").Label("peer"),
    Text("members[].device", "Device that the peer's model runs on."),
    Text("members[].address", "Address of the peer, as the scheduler sees it."),
    Text("members[].state", "State that the peer says it is in.").Label("state"),
    Flag("members[].connected", "Whether the peer is connected."),
    Flag("members[].wantsStage", "Whether the peer takes a stage if there is one."),
    Text("members[].quarantine", "Why the peer gets no stage for a while; empty: it may have one."),
    Number("members[].quarantineSeconds", kSeconds,
           "Time until the quarantine ends; 0: there is none."),
    Number("members[].pipeline", kNone, "Pipeline of the peer; -1: spare."),
    Number("members[].stage", kNone, "Stage of the peer; -1: spare."),
    Number("members[].lastHeardSeconds", kSeconds, "Time since the peer's last message."),
    Foreign("members[].links", "Links as the peer's own status has them."),
    Foreign("members[].status", "Status of the peer as of its last heartbeat."),

    Object("stages[]", "Stages of the run."),
    Number("stages[].stage", kNone, "Number of the stage."),
    Number("stages[].layers[]", kNone, "First layer of the stage, and the layer behind its last."),
    Text("stages[].peers[]", "Public keys of the peers with this stage."),
    Number("stages[].lans[][]", kNone, "Pipelines whose peers of the stage share a LAN, by LAN."),
    Object("stages[].timing", "Times and memory of a micro-batch, of the slowest pipeline."),
    Number("stages[].timing.forwardMs", kMilliseconds, "Time of a forward."),
    Number("stages[].timing.backwardMs", kMilliseconds, "Time of a backward."),
    Number("stages[].timing.backwardWeightsMs", kMilliseconds,
           "Part of a backward that computes weight gradients."),
    Number("stages[].timing.roundTripMs", kMilliseconds,
           "Time from a step's first output until its gradient."),
    Number("stages[].timing.sendForwardMs", kMilliseconds, "Time of sending an activation."),
    Number("stages[].timing.sendBackwardMs", kMilliseconds, "Time of sending a gradient."),
    Number("stages[].timing.microBatchBytes", kBytes, "Memory of a micro-batch in flight."),
    Number("stages[].timing.pendingWeightsBytes", kBytes,
           "Memory of a micro-batch whose weight gradients are pending."),

    Number("pipelines", kNone, "Pipelines of the run."),
    Number("peersNeeded", kNone, "Peers that the run needs.").Metric("shoal_peers_needed"),
    Object("codecs", "Codecs of run.toml."),
    Text("codecs.forward", "Codec of activations."),
    Text("codecs.backward", "Codec of gradients of activations."),
    Text("codecs.replica", "How a stage group agrees on weights."),

    Object("consistency", "Comparisons of what must be equal on several peers."),
    Number("consistency.mChecks", kNone, "Comparisons of m on both ends of a boundary.")
        .Metric("shoal_delta_checks_total"),
    Number("consistency.mMismatches", kNone, "Comparisons of m that found a difference.")
        .Metric("shoal_delta_mismatches_total"),
    Number("consistency.weightChecks", kNone, "Comparisons of weights inside stage groups.")
        .Metric("shoal_weight_checks_total"),
    Number("consistency.weightMismatches", kNone, "Comparisons of weights that differed.")
        .Metric("shoal_weight_mismatches_total"),
    Text("consistency.lastDifference", "Whose weights differed last, and what was done."),
    Number("consistency.refusedValues", kNone, "Losses and norms that were refused."),
    Text("consistency.lastRefused", "Whose loss or norm was refused last, and why."),
    Text("consistency.warning", "What the organiser should look at."),

    Object("spotChecks", "Micro-batches that were computed again by others."),
    Number("spotChecks.done", kNone, "Micro-batches that were computed again and compared.")
        .Metric("shoal_spot_checks_total"),
    Number("spotChecks.failed", kNone, "Of those, the ones that differed: a fault of their member.")
        .Metric("shoal_spot_checks_failed_total"),
    Number("spotChecks.undecided", kNone, "Of those, the ones where word stands against word.")
        .Metric("shoal_spot_checks_undecided_total"),
    Number("spotChecks.missed", kNone, "Drawn, but not compared, as the step ended first.")
        .Metric("shoal_spot_checks_missed_total"),
    Text("spotChecks.last", "Who failed last, or who contradicts whom."),

    Object("checkpointStore", "Copies of complete checkpoints in the store of run.toml."),
    Text("checkpointStore.address",
         "Store that complete checkpoints are copied to; empty: there is none."),
    Text("checkpointStore.state", "What the copying does.")
        .Values("idle; uploading; waiting=waits to try again")
        .Metric("shoal_checkpoint_store_state", "", "1 for what the copying of checkpoints does."),
    Number("checkpointStore.step", kNone,
           "Steps in the newest checkpoint there; null: none is known.")
        .Label("stored")
        .Metric("shoal_checkpoint_store_step"),
    Number("checkpointStore.pendingStep", kNone,
           "Steps in the checkpoint that is being copied; null: there is none."),
    Number("checkpointStore.sentBytes", kBytes,
           "Bytes sent to the store since the scheduler was started.")
        .Metric("shoal_checkpoint_store_sent_bytes_total"),
    Number("checkpointStore.failures", kNone, "Tries to copy a checkpoint that failed.")
        .Metric("shoal_checkpoint_store_failures_total"),
    Text("checkpointStore.lastFailure", "Why the last try failed; empty: it did not."),

    Object("logs", "Logs for trackers, log_to of run.toml."),
    Text("logs.targets[]", "Log that is written: tensorboard:FOLDER or jsonl:FILE."),
    Number("logs.failures", kNone, "Writes to logs that failed.")
        .Metric("shoal_log_failures_total"),
    Text("logs.lastFailure", "Why the last write to a log failed; empty: it did not."),

    Object("traffic", "Bytes between scheduler and peers."),
    Number("traffic.sentWireBytes", kBytes, "Wire bytes sent to peers.")
        .Metric("shoal_control_sent_bytes_total"),
    Number("traffic.receivedWireBytes", kBytes, "Wire bytes received from peers.")
        .Metric("shoal_control_received_bytes_total"),
    Number("traffic.artefactSentBytes", kBytes, "Bytes of weights and data sent to peers.")
        .Metric("shoal_artefact_sent_bytes_total"),
    Number("traffic.artefactReceivedBytes", kBytes, "Bytes of checkpoints received from peers.")
        .Metric("shoal_artefact_received_bytes_total"),

    Number("contentBytes", kBytes, "Bytes of weights, data and checkpoints held.")
        .Metric("shoal_content_store_bytes"),
    Number("diskFreeBytes", kBytes,
           "Free bytes of the file system that holds the run's folder; null: not known.")
        .Metric("shoal_disk_free_bytes"),
    Number("port", kNone, "Port that peers dial."),
    Text("statusAddress", "Host and port of the status page."),
    Number("uptimeSeconds", kSeconds, "Time since the scheduler was started.")
        .Metric("shoal_uptime_seconds"),
};

constexpr ViewLabel kViews[] = {
    {"members[].position", "position"},
};

}  // namespace

std::span<const StatusField> RunStatusFields() { return kFields; }
std::span<const ViewLabel> RunViewLabels() { return kViews; }

}  // namespace shoal::net
