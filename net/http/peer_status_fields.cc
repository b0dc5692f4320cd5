// What shoald says of itself.

#include "net/http/status_fields.h"

namespace shoal::net {
namespace {

using namespace field_rows;
using enum FieldUnit;

constexpr const char* kSentPayload = "Payload bytes sent, after the codec.";
constexpr const char* kSentUncompressed = "Bytes that the sent payloads would have as fp32.";
constexpr const char* kReceivedPayload = "Payload bytes received, before decoding.";
constexpr const char* kReceivedUncompressed =
    "Bytes that the received payloads would have as fp32.";
constexpr const char* kPhases = "Time of what runs beside compute in this generation.";
constexpr const char* kStalls = "Time that frames of a link waited, by reason.";
constexpr const char* kLookups = "Lookups in the delta store, by result.";
constexpr const char* kDropped = "Records that the delta store dropped, by reason.";
constexpr const char* kRatio = "Bytes as fp32 over bytes of payload, both ways.";

constexpr StatusField kFields[] = {
    Number("schemaVersion", kNone, "Version of this status's fields; 2."),
    Text("program", "Program that answers: shoald."),
    Text("version", "Version of the program.").Metric("shoal_build_info"),
    Text("peerId", "Public key of the peer, 64 hexadecimal digits."),
    Text("name", "Name of the peer, as the organiser sees it."),
    Text("state", "State that the peer is in.")
        .Values("starting; idle; joining; waiting; syncing; training; paused; draining; stopped")
        .Metric("shoal_peer_state", "", "1 for the state the peer is in."),
    Text("stateReasons[]", "Why the peer waits; empty while it trains."),
    Number("since", kMilliseconds, "Time of the last change of state, since 1970."),
    Number("time", kMilliseconds, "Time of this status, since 1970."),

    Object("scheduler", "Connection to the scheduler."),
    Flag("scheduler.connected", "Whether the scheduler is connected."),
    Text("scheduler.addresses[]", "Addresses of the invite."),
    Text("scheduler.trouble", "Why the last attempt to reach the scheduler failed."),
    Number("scheduler.rttMs", kMilliseconds,
           "From this peer's greeting to the scheduler's, when it connected last; 0: it does not."),
    Number("scheduler.upBps", kBitsPerSecond,
           "Rate of the last file of 5 MB or more to the scheduler; 0: none yet.")
        .Label("up"),
    Number("scheduler.downBps", kBitsPerSecond,
           "Rate of the last file of 5 MB or more from the scheduler; 0: none yet.")
        .Label("down"),

    Object("swarm", "The run as the scheduler last told.").Label("run"),
    Text("swarm.id", "Id of the run, 16 hexadecimal digits."),
    Text("swarm.name", "Name of the run."),
    Text("swarm.state", "State of the run."),
    Text("swarm.reason", "Why the run waits."),
    Number("swarm.step", kNone, "Optimizer steps applied by the run.")
        .Label("step")
        .Metric("shoal_global_step"),
    Number("swarm.targetStep", kNone, "Optimizer steps of the whole run."),
    Number("swarm.epochs", kNone, "Visits of every sample so far; 0: not known."),
    Number("swarm.targetEpochs", kNone, "Visits of every sample in the whole run; 0: not known."),
    Number("swarm.loss", kNone, "Token-mean loss of the last step.")
        .Label("loss")
        .Metric("shoal_training_loss"),
    Number("swarm.losses[][]", kNone, "Step and loss of recent steps, newest last.").Label("loss"),
    Number("swarm.heldOutLoss", kNone,
           "Token-mean loss on validation rows, measured last; null: not yet.")
        .Label("held out")
        .Metric("shoal_held_out_loss"),
    Number("swarm.heldOutStep", kNone, "Optimizer steps applied before that measurement.")
        .Metric("shoal_held_out_step"),
    Number("swarm.heldOut[][]", kNone, "Steps applied and held-out loss of recent measurements.")
        .Label("held out"),
    Number("swarm.peersUp", kNone, "Peers of the run that are connected."),
    Number("swarm.peersTotal", kNone, "Peers that the run needs."),

    Object("role", "Position of the peer in the plan; null: it has no stage.").Label("role"),
    Number("role.stage", kNone, "Stage of the peer."),
    Number("role.stages", kNone, "Stages of a pipeline."),
    Number("role.pipeline", kNone, "Pipeline of the peer."),
    Number("role.pipelines", kNone, "Pipelines of the run."),
    Number("role.layers[]", kNone, "First layer of the stage, and the layer behind its last."),
    Number("role.generation", kNone, "Number of the plan."),
    Text("role.forwardCodec", "Codec of activations."),
    Text("role.backwardCodec", "Codec of gradients of activations."),
    Text("role.replicaMethod", "How a stage group agrees on weights."),
    Number("role.lan[]", kNone,
           "Pipelines whose peers of this stage share a LAN with the peer, its own one too.")
        .Label("LAN"),

    Text("device", "Device that the model runs on.").Label("device"),
    Object("gpu", "NVIDIA GPU of this peer; null: its driver tells nothing, or there is none.")
        .Label("GPU"),
    Text("gpu.name", "Product name of the GPU."),
    Number("gpu.powerWatts", kNone, "Power that the GPU takes; null: not told.")
        .Label("power")
        .Metric("shoal_gpu_power_watts"),
    Number("gpu.powerLimitWatts", kNone, "Power limit of the GPU; null: not told.")
        .Metric("shoal_gpu_power_limit_watts"),
    Number("gpu.busyRatio", kNone, "Part of the time in which the GPU works; null: not told.")
        .Metric("shoal_gpu_busy_ratio"),
    Number("gpu.memoryUsedBytes", kBytes, "Memory of the GPU in use by all; null: not told.")
        .Metric("shoal_gpu_memory_used_bytes"),
    Number("gpu.memoryBytes", kBytes, "Memory of the GPU; null: not told.")
        .Metric("shoal_gpu_memory_bytes"),
    Object("bench", "Figures of a bench; null: none runs."),
    Number("bench.valuesCpuMs", kMilliseconds,
           "CPU time of making values, which no real stage would need."),
    Object("memory", "Memory of the stage and of the process."),
    Number("memory.stateBytes", kBytes,
           "Weights, gradients and optimizer state that are on this peer."),
    Number("memory.shardBytes", kBytes, "Own shard of what the stage group shares."),
    Number("memory.unitPeakBytes", kBytes, "Most weights and gradients gathered at a time."),
    Number("memory.residentPeakBytes", kBytes, "Most memory that the process had."),
    Number("memory.microBatchBytes", kBytes, "Memory of one micro-batch in flight."),
    Object("fetch", "Fetching of weights and data.").Label("fetched"),
    Number("fetch.doneBytes", kBytes, "Bytes of weights and data fetched."),
    Number("fetch.totalBytes", kBytes, "Bytes of weights and data that the stage needs."),

    Object("work", "What the stage does in this generation."),
    Number("work.step", kNone, "Step that runs."),
    Number("work.forwards", kNone, "Forwards done in this step."),
    Number("work.backwards", kNone, "Backwards done in this step."),
    Number("work.microBatches", kNone, "Micro-batches of this step."),
    Text("work.schedule", "Order of work in use: 1f1b or zero-bubble.").Label("schedule"),
    Number("work.inFlightMax", kNone, "Bound on micro-batches in flight.")
        .Label("most in flight")
        .Metric("shoal_in_flight_limit"),
    Number("work.pendingWeightsMax", kNone, "Bound on micro-batches with pending weight gradients.")
        .Label("most W pending")
        .Metric("shoal_pending_weights_limit"),
    Number("work.memoryMaxBytes", kBytes, "Memory of micro-batches when both bounds are reached.")
        .Label("most memory"),
    Number("work.simulatedMs", kMilliseconds,
           "Simulated step of up to 64 micro-batches with these bounds; 0: nothing measured yet.")
        .Label("simulated step"),
    Number("work.unlimitedMs", kMilliseconds,
           "Simulated step of up to 64 micro-batches without bounds; 0: nothing measured yet.")
        .Label("without bounds"),
    Number("work.samplesPerSecond", kNone, "Training samples per second.")
        .Label("samples per second"),
    Number("work.encodeMs", kMilliseconds, "Time of encoding in this generation.")
        .Metric("shoal_phase_seconds_total", "phase=encode", kPhases),
    Number("work.decodeMs", kMilliseconds, "Time of decoding in this generation.")
        .Metric("shoal_phase_seconds_total", "phase=decode", kPhases),
    Number("work.storeMs", kMilliseconds, "Time of the delta store's calls in this generation.")
        .Metric("shoal_phase_seconds_total", "phase=store", kPhases),
    Number("work.codecDeviceMs", kMilliseconds, "Time of the GPU that codecs took.")
        .Metric("shoal_codec_device_seconds_total"),
    Text("work.onHost",
         "What works on the host though values lie on the GPU, and what it costs; null: nothing.")
        .Label("on the host"),
    Object("work.time[]", "Time since the links opened by activity, without gaps.")
        .ItemLabels("activity"),
    Text("work.time[].activity", "What the stage's compute did or waited for.")
        .Values("forward; backward_input=input gradients; backward_weights=weight gradients; "
                "optimizer; wait_input=waits for activations; wait_gradient=waits for gradients; "
                "wait_codec=waits for its codec; wait_store=waits for its store; "
                "exchange=waits for exchange of gradients; wait_step=waits for end of step"),
    Number("work.time[].ms", kMilliseconds, "Time of the activity.")
        .Metric("shoal_stage_seconds_total", "",
                "What the stage's compute did or waited for in this generation, without gaps."),

    Object("links[]", "Bulk links of this generation.").Label("link").ItemLabels("peer:8 channel"),
    Text("links[].peer", "Public key of the peer at the other end."),
    Text("links[].name", "Name of the peer at the other end.").Label("peer"),
    Text("links[].channel", "What the link is for: boundary, stage group or shared tensors.")
        .Label("channel"),
    Text("links[].kind", "boundary or replica."),
    Text("links[].address", "Address of the other end."),
    Text("links[].path", "Way that the link takes; empty: not connected.")
        .Label("path")
        .Values("lan; direct; punched; relay"),
    Flag("links[].connected", "Whether the link is open."),
    Number("links[].connections", kNone, "TCP connections of the link."),
    Number("links[].rttMs", kMilliseconds, "Round trip of the last ping of a link.")
        .Label("rtt")
        .Metric("shoal_link_rtt_seconds"),
    Number("links[].rttMinMs", kMilliseconds, "Shortest round trip of a ping."),
    Number("links[].upBps", kBitsPerSecond, "Rate of sending.").Label("up"),
    Number("links[].downBps", kBitsPerSecond, "Rate of receiving.").Label("down"),
    Number("links[].upCapBps", kBitsPerSecond, "Cap on all uploads; 0: none.").Label("cap"),
    Number("links[].downCapBps", kBitsPerSecond, "Cap on all downloads; 0: none."),
    Number("links[].sentWireBytes", kBytes, "Wire bytes sent on a bulk link.")
        .Label("sent")
        .Metric("shoal_link_sent_bytes_total"),
    Number("links[].receivedWireBytes", kBytes, "Wire bytes received on a bulk link.")
        .Label("received")
        .Metric("shoal_link_received_bytes_total"),
    Number("links[].sentFrames", kNone, "Frames sent."),
    Number("links[].receivedFrames", kNone, "Frames received."),
    Number("links[].queueBytes", kBytes, "Bytes accepted for a link and not yet written.")
        .Label("queue")
        .Metric("shoal_link_send_queue_bytes"),
    Number("links[].stallRateLimitMs", kMilliseconds, "Time that frames waited for the cap.")
        .Metric("shoal_link_stall_seconds_total", "reason=rate_limit", kStalls),
    Number("links[].stallNetworkMs", kMilliseconds, "Time that frames waited for the network.")
        .Metric("shoal_link_stall_seconds_total", "reason=network", kStalls),
    Number("links[].sentRawBytes", kBytes, "Bytes of the sent payloads as fp32, at a boundary."),
    Number("links[].sentPayloadBytes", kBytes, "Bytes of payload sent, at a boundary."),
    Number("links[].receivedRawBytes", kBytes,
           "Bytes of the received payloads as fp32, at a boundary."),
    Number("links[].receivedPayloadBytes", kBytes, "Bytes of payload received, at a boundary."),
    Number("links[].ratio", kNone, kRatio).Label("ratio"),

    Object("relays[]", "Relays by which others reach this peer.")
        .Label("relay")
        .ItemLabels("relay"),
    Text("relays[].relay", "Address of the relay.").Label("relay"),
    Flag("relays[].registered", "Whether this peer is registered there.")
        .Metric("shoal_relay_registered"),
    Text("relays[].seenAddress", "Address of this peer, as the relay saw it last."),
    Text("relays[].ownAddress", "The same end of that connection, as this peer has it."),
    Text("relays[].dialBack", "Whether the relay reached this peer's port from outside.")
        .Values("reached; not reached; unknown=not known yet"),
    Text("relays[].trouble", "Why the peer is not registered at the relay."),
    Number("relays[].rttMs", kMilliseconds, "Round trip of the last ping to a relay."),

    Number("listenPort", kNone, "Port that neighbours connect to."),
    Object("mapping", "Port that the home's router leads to this peer."),
    Text("mapping.address", "Address from outside; empty: none."),
    Text("mapping.how", "How the router was asked: NAT-PMP or UPnP."),
    Text("mapping.trouble", "Why the router leads no port here; empty: it does, or was not asked."),

    Object("boundaries[]", "Own end of each boundary, in this generation; null: not measured here.")
        .ItemLabels("boundary side"),
    Number("boundaries[].boundary", kNone, "Number of the boundary, that of the stage below it.")
        .Label("boundary"),
    Text("boundaries[].side", "sender of activations (below) or their receiver (above).")
        .Label("sends")
        .Values("sender=activations; receiver=gradients"),
    Text("boundaries[].mode", "How samples with an m are sent.")
        .Label("mode")
        .Values("delta; wide delta=changes with twice the bits, as they are large; "
                "full=whole activations, as changes are too large")
        .Metric("shoal_boundary_mode", "", "1 for the way that samples with m are sent."),
    Number("boundaries[].relativeDelta", kNone,
           "A token's change since its sample's last visit against the token: median of a "
           "message's tokens, recent average.")
        .Label("change of tokens")
        .Metric("shoal_boundary_relative_delta"),
    Number("boundaries[].lastRelativeDelta", kNone,
           "Median change of the last message's tokens against the tokens.")
        .Label("last"),
    Number("boundaries[].relativeDeltaP90", kNone,
           "A token's change against the token: 90th percentile of a message's tokens, recent "
           "average.")
        .Label("a tenth above")
        .Metric("shoal_boundary_relative_delta_p90"),
    Number("boundaries[].forwardError", kNone,
           "Relative coding error of sent activations, recent average.")
        .Label("error of what is sent")
        .Metric("shoal_boundary_forward_error"),
    Number("boundaries[].lastForwardError", kNone,
           "Relative coding error of sent activations, in the last message."),
    Number("boundaries[].backwardError", kNone,
           "Relative coding error of sent gradients, recent average.")
        .Metric("shoal_boundary_backward_error"),
    Number("boundaries[].lastBackwardError", kNone,
           "Relative coding error of sent gradients, in the last message."),
    Number("boundaries[].firstVisitRatio", kNone,
           "Part of the samples that travelled without m, recent average.")
        .Metric("shoal_boundary_first_visit_ratio"),
    Number("boundaries[].lastFirstVisitRatio", kNone,
           "Part of the samples that travelled without m, in the last message."),
    Number("boundaries[].deltaHits", kNone, "Samples coded as changes, in this generation.")
        .Label("changes")
        .Metric("shoal_boundary_delta_hits_total"),
    Number("boundaries[].firstVisits", kNone, "Samples coded without m, in this generation.")
        .Label("first visits")
        .Metric("shoal_boundary_first_visits_total"),
    Number("boundaries[].resends", kNone, "Samples sent again in full, in this generation.")
        .Label("sent again")
        .Metric("shoal_boundary_resends_total"),
    Object("boundaries[].gradients", "Gradients that build on m; null: with another codec."),
    Text("boundaries[].gradients.mode", "How gradients with an m are sent.")
        .Values("delta; wide delta=changes with twice the bits; full=whole gradients"),
    Number("boundaries[].gradients.relativeDelta", kNone,
           "A token's gradient's change since its sample's last visit against it: median of a "
           "message's tokens, recent average; null: not measured at this end.")
        .Metric("shoal_boundary_gradient_relative_delta"),
    Number("boundaries[].gradients.relativeDeltaP90", kNone, "The same, 90th percentile."),
    Number("boundaries[].gradients.firstVisitRatio", kNone,
           "Part of the gradients that travelled without m, recent average.")
        .Metric("shoal_boundary_gradient_first_visit_ratio"),
    Number("boundaries[].gradients.deltaHits", kNone, "Gradients coded as changes."),
    Number("boundaries[].gradients.firstVisits", kNone, "Gradients coded without m."),
    Number("boundaries[].gradients.resends", kNone, "Gradients sent again in full."),
    Object("boundaries[].lowRank", "Gradients that travel as low rank; null: with another codec."),
    Number("boundaries[].lowRank.messages", kNone, "Messages of gradients."),
    Number("boundaries[].lowRank.ratio", kNone, "Part of the gradients sent as low rank.")
        .Metric("shoal_boundary_low_rank_ratio"),
    Number("boundaries[].lowRank.bitsPerValue", kNone,
           "Bits per value of low-rank payloads; 0: there were none."),
    Number("boundaries[].lowRank.otherBitsPerValue", kNone,
           "Bits per value of the other payloads; 0: there were none."),
    Number("boundaries[].lowRank.correlation", kNone,
           "Correlation of consecutive micro-batches' activations, recent average.")
        .Metric("shoal_boundary_activation_correlation"),
    Flag("boundaries[].lowRank.lazy",
         "Whether the error of the newest low-rank message is added to the next one."),

    Object("traffic", "Bytes over all generations."),
    Object("traffic.forward", "Bytes of activations."),
    Number("traffic.forward.wireSentBytes", kBytes, kSentPayload)
        .Metric("shoal_sent_payload_bytes_total", "kind=activation"),
    Number("traffic.forward.rawSentBytes", kBytes, kSentUncompressed)
        .Label("as fp32")
        .Metric("shoal_sent_uncompressed_bytes_total", "kind=activation"),
    Number("traffic.forward.wireReceivedBytes", kBytes, kReceivedPayload)
        .Metric("shoal_received_payload_bytes_total", "kind=activation"),
    Number("traffic.forward.rawReceivedBytes", kBytes, kReceivedUncompressed)
        .Metric("shoal_received_uncompressed_bytes_total", "kind=activation"),
    Number("traffic.forward.ratio", kNone, kRatio),
    Object("traffic.backward", "Bytes of gradients of activations."),
    Number("traffic.backward.wireSentBytes", kBytes, kSentPayload)
        .Metric("shoal_sent_payload_bytes_total", "kind=gradient"),
    Number("traffic.backward.rawSentBytes", kBytes, kSentUncompressed)
        .Metric("shoal_sent_uncompressed_bytes_total", "kind=gradient"),
    Number("traffic.backward.wireReceivedBytes", kBytes, kReceivedPayload)
        .Metric("shoal_received_payload_bytes_total", "kind=gradient"),
    Number("traffic.backward.rawReceivedBytes", kBytes, kReceivedUncompressed)
        .Metric("shoal_received_uncompressed_bytes_total", "kind=gradient"),
    Number("traffic.backward.ratio", kNone, kRatio),
    Object("traffic.replica", "Bytes that stage groups exchange."),
    Number("traffic.replica.wireSentBytes", kBytes, kSentPayload)
        .Metric("shoal_sent_payload_bytes_total", "kind=replica"),
    Number("traffic.replica.rawSentBytes", kBytes, kSentUncompressed)
        .Metric("shoal_sent_uncompressed_bytes_total", "kind=replica"),
    Number("traffic.replica.wireReceivedBytes", kBytes, kReceivedPayload)
        .Metric("shoal_received_payload_bytes_total", "kind=replica"),
    Number("traffic.replica.rawReceivedBytes", kBytes, kReceivedUncompressed)
        .Metric("shoal_received_uncompressed_bytes_total", "kind=replica"),
    Number("traffic.replica.ratio", kNone, kRatio),
    Object("traffic.control", "Bytes between this peer and the scheduler."),
    Number("traffic.control.wireSentBytes", kBytes, "Wire bytes to the scheduler.")
        .Metric("shoal_control_sent_bytes_total"),
    Number("traffic.control.wireReceivedBytes", kBytes, "Wire bytes from the scheduler.")
        .Metric("shoal_control_received_bytes_total"),
    Number("traffic.control.artefactSentBytes", kBytes, "Bytes of checkpoints uploaded."),
    Number("traffic.control.artefactReceivedBytes", kBytes, "Bytes of weights and data fetched."),
    Number("traffic.linkSentWireBytes", kBytes, "Wire bytes sent on all links."),
    Number("traffic.linkReceivedWireBytes", kBytes, "Wire bytes received on all links."),
    Number("traffic.sentWireBytes", kBytes, "Wire bytes sent on links and to the scheduler.")
        .Label("sent"),
    Number("traffic.receivedWireBytes", kBytes,
           "Wire bytes received on links and from the scheduler.")
        .Label("received"),

    Object("limits", "Caps in force.").Label("limits"),
    Number("limits.upBps", kBitsPerSecond, "Cap on all uploads; 0: none.").Label("cap"),
    Number("limits.downBps", kBitsPerSecond, "Cap on all downloads; 0: none."),
    Number(
        "limits.peerTimeoutMs", kMilliseconds,
        "The run's network.peer_timeout, of which `shoal doctor` derives all timeouts; its default "
        "until the scheduler has told it."),
    Object("quarantine",
           "Why the scheduler gives this peer no stage for a while; null: it may have one.")
        .Label("quarantine"),
    Number("quarantine.until", kMilliseconds, "End of the quarantine, since 1970."),
    Text("quarantine.kind", "What of this peer's results failed checks.")
        .Values("weights; values; outputs; failures; other"),
    Number("quarantine.faults", kNone, "Failed checks that led to it."),
    Object("terms", "What the rules of the peer's owner allow now.").Label("terms"),
    Text("terms.reason", "Why the peer takes no stage; none: it takes one.")
        .Values("none; user; hang; schedule; budget; program; battery; gpu")
        .Metric("shoal_pause_reason", "", "1 for the reason why the peer takes no stage."),
    Number("terms.until", kMilliseconds, "End of that pause, since 1970; 0: not known."),
    Text("terms.rules[]", "Rules in force, in words."),
    Number("terms.nextChange", kMilliseconds,
           "When the next rule begins or ends by the clock, since 1970; 0: none does."),
    Object("budget", "Transfer budget of the calendar month; null: none.").Label("budget"),
    Number("budget.usedBytes", kBytes, "Wire bytes sent and received in this month.")
        .Metric("shoal_transfer_budget_used_bytes"),
    Number("budget.limitBytes", kBytes, "Wire bytes that the month may have.")
        .Metric("shoal_transfer_budget_limit_bytes"),
    Number("budget.resetsAt", kMilliseconds, "When the next month begins, since 1970."),
    Object("pacing", "Pacing of uploads."),
    Text("pacing.mode", "Setting of the pacing: auto or off."),
    Number("pacing.lineBps", kBitsPerSecond,
           "Upload rate that the line was measured to take; 0: it was never full.")
        .Label("line"),
    Number("pacing.upBps", kBitsPerSecond, "Rate that uploads keep to; 0: only the cap."),

    Object("deltaStore", "The delta store: m of each visited sample.").Label("delta store"),
    Number("deltaStore.bytes", kBytes, "Bytes of m held.").Metric("shoal_delta_store_bytes"),
    Number("deltaStore.limit", kBytes, "Quota of the delta store.")
        .Metric("shoal_delta_store_limit_bytes"),
    Number("deltaStore.records", kNone, "Records held, one of each segment of a sample."),
    Number("deltaStore.hits", kNone, "Lookups that found a record.")
        .Metric("shoal_delta_store_lookups_total", "result=hit", kLookups),
    Number("deltaStore.misses", kNone, "Lookups that found no usable record.")
        .Metric("shoal_delta_store_lookups_total", "result=miss", kLookups),
    Number("deltaStore.corrupt", kNone, "Records that were damaged, and dropped.")
        .Metric("shoal_delta_store_lookups_total", "result=corrupt", kLookups)
        .Metric("shoal_delta_store_dropped_total", "reason=damage", kDropped),
    Number("deltaStore.evicted", kNone, "Records dropped because of the quota.")
        .Metric("shoal_delta_store_dropped_total", "reason=quota", kDropped),
    Number("deltaStore.lost", kNone, "Records lost to a failing disk.")
        .Metric("shoal_delta_store_dropped_total", "reason=disk", kDropped),
    Number("deltaStore.diskBytes", kBytes, "Size of the delta store's files.")
        .Metric("shoal_delta_store_disk_bytes"),
    Number("deltaStore.diskWrittenBytes", kBytes,
           "Bytes written to disk to hold what was committed.")
        .Metric("shoal_delta_store_disk_written_bytes_total"),
    Number("deltaStore.committedBytes", kBytes, "Bytes of m committed.")
        .Metric("shoal_delta_store_committed_bytes_total"),
    Number("deltaStore.memoryBytes", kBytes, "Memory of the delta store and of m read ahead.")
        .Metric("shoal_delta_store_memory_bytes"),
    Number("deltaStore.memoryLimit", kBytes, "Bound on the memory of store and m read ahead."),
    Number("deltaStore.prefetchedBytes", kBytes, "Bytes of m read ahead."),
    Number("deltaStore.stagedBytes", kBytes, "Bytes of m' of the running step, not yet committed."),
    Text("deltaStore.trouble", "Why the disk refuses what the store writes.")
        .Metric("shoal_delta_store_trouble", "", "1 while the disk refuses what the store writes."),
    Text("deltaStore.notice", "What was found when the store was opened."),
    Number("deltaStore.deltaHits", kNone, "Samples sent or received as changes."),
    Number("deltaStore.firstVisits", kNone, "Samples sent or received without m.")
        .Metric("shoal_first_visits_total"),
    Number("deltaStore.resends", kNone, "Samples sent again in full after a mismatch.")
        .Metric("shoal_resends_total"),
    Number("deltaStore.expectedBytes", kBytes, "Bytes of m when every sample was visited."),
    Number("deltaStore.expectedDiskBytes", kBytes,
           "Most that the files take when every sample was visited."),
    Number("deltaStore.sampleBytes", kBytes,
           "Bytes of a sample's m at one boundary, of both directions."),
    Number("deltaStore.residualSampleBytes", kBytes,
           "Bytes that are kept of a sample's gradients at one boundary."),
    Number("deltaStore.diskFreeBytes", kBytes, "Free disk when the stage began."),
    Object("deltaStore.boundaries[]", "Ends of boundaries after the last step."),
    Number("deltaStore.boundaries[].boundary", kNone, "Number of the boundary."),
    Text("deltaStore.boundaries[].side",
         "sender, receiver, residual, gradient sender or gradient receiver."),
    Text("deltaStore.boundaries[].checksum", "Checksum over all records of the end."),
    Number("deltaStore.boundaries[].records", kNone, "Records that the step committed."),

    Number("cacheBytes", kBytes, "Bytes of weights and data on disk."),
    Number("diskFreeBytes", kBytes,
           "Free bytes of the file system that holds the peer's folder; null: not known.")
        .Metric("shoal_disk_free_bytes"),
    Object("usage", "What taking part has cost, over all starts of shoald."),
    Number("usage.trainedMs", kMilliseconds, "Time of training, over all starts of shoald.")
        .Label("trained")
        .Metric("shoal_trained_seconds_total"),
    Number("usage.microBatches", kNone, "Micro-batches done, over all starts of shoald.")
        .Label("micro-batches"),
    Number("usage.sentBytes", kBytes, "Wire bytes sent, over all starts of shoald.").Label("sent"),
    Number("usage.receivedBytes", kBytes, "Wire bytes received, over all starts of shoald.")
        .Label("received"),
    Number("usage.energyJoules", kNone,
           "Energy of the GPU while it trained, over all starts of shoald; null: not told.")
        .Label("energy")
        .Metric("shoal_gpu_energy_joules_total"),
    Object("contribution", "What the peer has done, over all generations."),
    Number("contribution.microBatches", kNone, "Micro-batches done.")
        .Metric("shoal_microbatches_total"),
    Object("health[]", "What somebody should look at."),
    Text("health[].code", "Name of the finding."),
    Text("health[].severity", "warning or error."),
    Text("health[].text", "What was found."),
    Text("health[].fix", "What to do about it."),
};

constexpr ViewLabel kViews[] = {
    {"swarm.progress", "progress"},
    {"work.computes", "computes"},
    {"work.waitsFor", "waits for"},  // labels of activities that wait begin with it
    {"links[].from", "from"},
    {"links[].to", "to"},
    {"links[].stalled", "stalled"},
    {"links[].busy", "busy"},
    {"traffic.kind", "kind"},
    {"traffic.payload", "on the wire"},
    {"traffic.payloadBothWays", "sent and received"},
    {"traffic.payloadSent", "sent, compressed"},
    {"traffic.compression", "compression"},
    {"deltaStore.ofAll", "delta stores"},
    {"usage.traffic", "sent and received in all"},
};

}  // namespace

std::span<const StatusField> PeerStatusFields() { return kFields; }
std::span<const ViewLabel> PeerViewLabels() { return kViews; }

}  // namespace shoal::net
