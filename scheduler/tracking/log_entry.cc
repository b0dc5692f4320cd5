#include "scheduler/tracking/log_entry.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <variant>

#include <nlohmann/json.hpp>

#include "common/version.h"
#include "scheduler/history/run_timeline.h"

namespace shoal::scheduler {
namespace {

using Json = nlohmann::ordered_json;
using Kind = TimelineEntry::Kind;

Json Begin(std::string_view kind, std::uint64_t step, std::uint64_t at_ms) {
  return {{"kind", kind}, {"time", at_ms}, {"step", step}};
}

LogEntry Finish(Json json, std::uint64_t step, std::uint64_t at_ms,
                std::vector<LoggedScalar> scalars = {}) {
  LogEntry entry;
  entry.at_ms = at_ms;
  entry.step = step;
  for (const LoggedScalar& scalar : scalars) {
    if (!std::isfinite(scalar.value)) continue;
    Json& value = json[std::string(scalar.field)];
    value = scalar.value;
    if (scalar.whole) value = static_cast<std::uint64_t>(scalar.value);
    entry.scalars.push_back(scalar);
  }
  entry.json = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  return entry;
}

// One event as JSON; none where it is nothing for people.
class EventLine {
 public:
  EventLine(std::uint64_t step, std::uint64_t generation, std::uint64_t at_ms)
      : step_(step), generation_(generation), at_ms_(at_ms) {}

  std::optional<LogEntry> Take() {
    if (!json_) return std::nullopt;
    LogEntry entry = Finish(*std::move(json_), step_, at_ms_, std::move(scalars_));
    entry.void_from = void_from_;
    return entry;
  }

  void operator()(const SchedulerStarted&) { New(Kind::kScheduler); }
  void operator()(const MemberCame& e) {
    New(Kind::kJoined);
    Member(e.peer, e.name);
    (*json_)["unstored"] = e.unstored;
  }
  void operator()(const MemberGone& e) {
    New(Kind::kLeft);
    Member(e.peer, e.name);
    (*json_)["reason"] = e.reason;
    (*json_)["unstored"] = e.unstored;
  }
  void operator()(const PlanMade& e) {
    const std::uint64_t lost = step_ - std::min(step_, e.resume_step);
    step_ = e.resume_step;
    New(Kind::kRepair);
    (*json_)["generation"] = e.generation;
    (*json_)["stepsLost"] = lost;
    (*json_)["peers"] =
        std::ranges::count_if(e.hosts, [](const PeerId& host) { return host != PeerId{}; });
    if (lost > 0) void_from_ = e.resume_step + 1;
  }
  void operator()(const PipelinesCount& e) {
    if (e.only_followers()) return;
    New(Kind::kCounting);
    (*json_)["pipelines"] = e.pipelines;
    (*json_)["reason"] = e.cause;
  }
  void operator()(const GenerationEnded& e) {
    New(Kind::kEnded);
    (*json_)["generation"] = generation_;
    (*json_)["reason"] = e.cause;
  }
  void operator()(const GenerationGoesOn&) {
    New(Kind::kGoesOn);
    (*json_)["generation"] = generation_;
  }
  void operator()(const HeldOutMeasured& e) {
    step_ = e.step;
    New("held_out");
    scalars_.push_back({"loss/held_out", "heldOutLoss", e.loss});
  }
  void operator()(const StepSkipped& e) {
    New(Kind::kSkipped);
    (*json_)["reason"] = e.cause;
  }
  void operator()(const CheckpointMade& e) {
    std::uint64_t bytes = 0;
    for (const auto& file : e.files) bytes += file.size();
    New("checkpoint");
    (*json_)["checkpointStep"] = e.step;
    (*json_)["bytes"] = bytes;
  }
  void operator()(const RunHeld& e) {
    New(Kind::kPaused);
    (*json_)["reason"] = e.reason;
  }
  void operator()(const RunReleased&) { New(Kind::kResumed); }
  void operator()(const RunFinished&) { New(Kind::kFinished); }
  template <typename Other>
  void operator()(const Other&) {}

 private:
  void New(std::string_view kind) { json_ = Begin(kind, step_, at_ms_); }
  void New(Kind kind) { New(TimelineKindName(kind)); }
  void Member(const PeerId& peer, const std::string& name) {
    (*json_)["peer"] = peer.ToHex();
    (*json_)["name"] = name;
  }

  std::uint64_t step_;
  const std::uint64_t generation_, at_ms_;
  std::optional<Json> json_;
  std::vector<LoggedScalar> scalars_;
  std::optional<std::uint64_t> void_from_;
};

}  // namespace

LogEntry MakeStepEntry(const LoggedStep& step, std::uint64_t at_ms) {
  std::vector<LoggedScalar> scalars = {{"loss/train", "loss", step.loss}};
  if (step.figures) {
    const LoggedStep::Figures& f = *step.figures;
    scalars.push_back({"time/step_s", "stepSeconds", f.seconds});
    scalars.push_back({"time/control_s", "controlSeconds", f.control_seconds});
    if (f.seconds > 0) {
      scalars.push_back(
          {"rate/samples_per_s", "samplesPerSecond", static_cast<double>(f.samples) / f.seconds});
    }
    scalars.push_back({"optimizer/learning_rate", "learningRate", f.learning_rate});
    if (!f.skipped) {
      scalars.push_back({"optimizer/gradient_norm", "gradientNorm", f.gradient_norm});
    }
    scalars.push_back({"swarm/pipelines", "pipelines", static_cast<double>(f.pipelines), true});
  }
  return Finish(Begin("step", step.step, at_ms), step.step, at_ms, std::move(scalars));
}

LogEntry MakeTrafficEntry(const TrafficFigures& traffic, std::uint64_t step, std::uint64_t at_ms) {
  std::vector<LoggedScalar> scalars = {
      {"swarm/peers", "peers", static_cast<double>(traffic.peers), true},
      {"wire/sent_bytes", "sentWireBytes", traffic.sent_bytes, true}};
  const auto add = [&](std::string_view tag, std::string_view field, std::optional<double> bits) {
    if (bits) scalars.push_back({tag, field, *bits});
  };
  add("wire/forward_bits", "forwardBitsPerValue", traffic.forward_bits);
  add("wire/backward_bits", "backwardBitsPerValue", traffic.backward_bits);
  add("wire/replica_bits", "replicaBitsPerValue", traffic.replica_bits);
  return Finish(Begin("traffic", step, at_ms), step, at_ms, std::move(scalars));
}

LogEntry MakeOpenedEntry(RunId run, std::string_view name, std::uint64_t steps, std::uint64_t step,
                         std::uint64_t at_ms) {
  Json json = Begin("opened", step, at_ms);
  json["schemaVersion"] = 1;
  json["program"] = "shoal-scheduler";
  json["version"] = kVersion;
  json["run"] = run.ToHex();
  json["name"] = name;
  json["steps"] = steps;
  LogEntry entry = Finish(std::move(json), step, at_ms);
  entry.void_from = step + 1;
  return entry;
}

std::optional<LogEntry> MakeEventEntry(const StoredEvent& event, std::uint64_t step,
                                       std::uint64_t generation, std::uint64_t at_ms) {
  EventLine line(step, generation, at_ms);
  std::visit(line, event);
  return line.Take();
}

}  // namespace shoal::scheduler
