#include "replica/state/state_transfer.h"

#include <algorithm>
#include <string>
#include <utility>

#include "replica/state/state_share.h"

namespace shoal::replica {
namespace {

constexpr std::size_t kChunkValuesFirst = std::size_t{1} << 14;
constexpr std::size_t kChunkValuesMin = std::size_t{1} << 8;
constexpr Duration kRestMax = std::chrono::seconds(30);

constexpr model::StateVector kVectors[kStateVectors] = {model::StateVector::kWeights,
                                                        model::StateVector::kFirstMoment,
                                                        model::StateVector::kSecondMoment};

Status ReadState(model::StageModel* model, const StateMessage& wanted, std::span<float> values) {
  for (std::size_t v = 0; v < kStateVectors; ++v) {
    SHOAL_RETURN_IF_ERROR(
        model->Read(kVectors[v], wanted.first, values.subspan(v * wanted.values, wanted.values)));
  }
  return Status::Ok();
}

Status WriteState(model::StageModel* model, const StateMessage& header,
                  std::span<const float> values) {
  for (std::size_t v = 0; v < kStateVectors; ++v) {
    SHOAL_RETURN_IF_ERROR(
        model->Write(kVectors[v], header.first, values.subspan(v * header.values, header.values)));
  }
  return Status::Ok();
}

}  // namespace

StateTransfer::StateTransfer(Member* member, collective::GroupChannel* channel, Options options)
    : member_(member),
      channel_(channel),
      options_(std::move(options)),
      holders_(options_.holders),
      missing_(options_.missing),
      chunk_values_(std::min(kChunkValuesFirst, options_.chunk_values_max)),
      scope_(member->control) {
  channel_->SetReceiver([this](std::size_t from, std::uint64_t /*tag*/, Buffer payload) {
    OnMessage(from, std::move(payload));
  });
}

StateTransfer::~StateTransfer() { channel_->SetReceiver(nullptr); }

void StateTransfer::Start() {
  SHOAL_ASSERT_ON(*member_->control);
  if (!options_.shadow) return;
  if (!missing_.empty()) return Ask();
  complete_ = true;  // since a generation before
  options_.on_complete();
}

void StateTransfer::OnApplied() {
  SHOAL_ASSERT_ON(*member_->control);
  Judge();
  Serve();
}

void StateTransfer::Leave(std::span<const std::uint32_t> members) {
  SHOAL_ASSERT_ON(*member_->control);
  const auto left = [&](std::size_t member) { return std::ranges::count(members, member) > 0; };
  std::erase_if(holders_, left);
  std::erase_if(requests_, [&](const Request& request) { return left(request.from); });
  std::erase_if(asked_, [&](const auto& entry) {
    if (!left(entry.second.holder)) return false;
    missing_.Add(entry.second.run);
    return true;
  });
  if (options_.shadow && !complete_) Ask();
}

void StateTransfer::Fail(std::size_t from, const Status& status) {
  member_->fail(status.WithContext("state from member " + std::to_string(from) + " of the group"),
                options_.peer ? options_.peer(from) : nullptr);
}

void StateTransfer::OnMessage(std::size_t from, Buffer payload) {
  SHOAL_ASSERT_ON(*member_->control);
  const auto message = ParseStateMessage(std::span<const std::byte>(payload.data(), payload.size()),
                                         options_.state_size);
  if (!message.ok()) return Fail(from, message.status());
  if (message->kind == StateMessage::Kind::kRequest) return OnRequest(from, *message);
  OnChunk(from, *message, std::move(payload));
}

// ---- a holder

void StateTransfer::OnRequest(std::size_t from, const StateMessage& request) {
  if (options_.shadow) {
    return Fail(from, FailedPrecondition("it asks a peer for state that lacks it, too"));
  }
  if (std::ranges::count(requests_, from, &Request::from) > 0) {
    return Fail(from, ResourceExhausted("it asks for more state than it may at a time"));
  }
  // It asks when it has the chunk before: so long that one was on its way.
  const TimePoint now = member_->control->clock().Now();
  const auto served = served_.find(from);
  const Duration took = served == served_.end() ? Duration::zero() : now - served->second;
  const auto shadows = static_cast<double>(options_.shadows);
  const double rests = shadows / StateShareOf(holders_.size(), options_.shadows) - 1;
  const Duration rest = std::min(
      std::chrono::duration_cast<Duration>(rests * std::chrono::duration<double>(took)), kRestMax);
  requests_.push_back({from, request, now + rest});
  if (rest <= Duration::zero()) return Serve();
  scope_.PostAfter("state.serve", rest, [this] { Serve(); });
}

void StateTransfer::Serve() {
  const std::optional<std::uint64_t> steps = options_.steps_held();
  if (reading_ || !steps) return;
  const TimePoint now = member_->control->clock().Now();
  const auto due =
      std::ranges::find_if(requests_, [now](const Request& one) { return one.due <= now; });
  if (due == requests_.end()) return;
  Request request = *due;
  requests_.erase(due);
  request.wanted.kind = StateMessage::Kind::kChunk;
  request.wanted.steps = *steps;
  Read(request);
}

void StateTransfer::Read(const Request& request) {
  reading_ = true;
  // Posted before any further step of the model, which therefore sees what it reads.
  scope_.Run(
      member_->compute, "state.read",
      [model = member_->model, wanted = request.wanted]() -> Result<Buffer> {
        Buffer chunk = NewStateMessage(wanted);
        SHOAL_RETURN_IF_ERROR(ReadState(model, wanted, StateValues(&chunk)));
        SealStateMessage(&chunk);
        return chunk;
      },
      [this, to = request.from](Result<Buffer> chunk) {
        reading_ = false;
        if (!chunk.ok()) return Fail(to, chunk.status());
        served_[to] = member_->control->clock().Now();
        const Status sent = channel_->Send(to, 0, std::move(*chunk));
        if (!sent.ok()) return Fail(to, sent);
        Serve();
      });
}

// ---- a shadow

void StateTransfer::Ask() {
  for (bool any = true; any && !missing_.empty();) {
    any = false;
    for (const std::size_t holder : holders_) {
      const bool busy = std::ranges::any_of(
          asked_, [&](const auto& entry) { return entry.second.holder == holder; });
      if (busy) continue;
      const std::optional<ValueRun> run = missing_.Take(chunk_values_);
      if (!run) return;
      asked_[run->first] = {holder, *run};
      const Status sent =
          channel_->Send(holder, 0,
                         NewStateMessage({StateMessage::Kind::kRequest, run->first,
                                          static_cast<std::uint32_t>(run->values), 0}));
      if (!sent.ok()) return Fail(holder, sent);
      any = true;
    }
  }
}

void StateTransfer::OnChunk(std::size_t from, const StateMessage& header, Buffer bytes) {
  const auto asked = asked_.find(header.first);
  if (asked == asked_.end() || asked->second.holder != from ||
      asked->second.run.values != header.values) {
    return Fail(from, InvalidArgument("it sends state that it was not asked for"));
  }
  asked_.erase(asked);
  member_->progress();
  waiting_.push_back({from, header, std::make_shared<Buffer>(std::move(bytes))});
  Judge();
}

// What has come: it fits the own model now, or after the step that this is at, or never.
void StateTransfer::Judge() {
  const std::optional<std::uint64_t> steps = options_.steps_held();
  if (!steps) return;  // at the end of this step
  for (Chunk& chunk : std::exchange(waiting_, {})) {
    if (chunk.header.steps > *steps + 1) {
      return Fail(chunk.from, InvalidArgument("it holds steps that nobody has made yet"));
    }
    if (chunk.header.steps == *steps) {
      Write(std::move(chunk));
    } else if (chunk.header.steps > *steps) {
      waiting_.push_back(std::move(chunk));  // a holder is a step ahead at most
    } else {
      Again({chunk.header.first, chunk.header.values});
    }
  }
  Ask();
}

void StateTransfer::Again(const ValueRun& run) {
  chunk_values_ = std::max(std::min(kChunkValuesMin, chunk_values_), chunk_values_ / 2);
  missing_.Add(run);
}

void StateTransfer::Write(Chunk chunk) {
  const ValueRun run{chunk.header.first, chunk.header.values};
  writing_[run.first] = run.values;
  scope_.Run(
      member_->compute, "state.write",
      [model = member_->model, chunk = std::move(chunk)] {
        return WriteState(model, chunk.header, StateValues(chunk.bytes.get()));
      },
      [this, run](const Status& status) { OnWritten(run, status); });
}

void StateTransfer::OnWritten(const ValueRun& run, const Status& status) {
  writing_.erase(run.first);
  if (!status.ok()) return member_->fail(status.WithContext("state of the stage"), nullptr);
  chunk_values_ = std::min(options_.chunk_values_max, chunk_values_ * 2);
  if (complete_ || !missing().empty()) return Ask();
  complete_ = true;
  options_.on_complete();
}

MissingValues StateTransfer::missing() const {
  SHOAL_ASSERT_ON(*member_->control);
  MissingValues all = missing_;
  for (const auto& [first, asked] : asked_) all.Add(asked.run);
  for (const Chunk& chunk : waiting_) all.Add({chunk.header.first, chunk.header.values});
  for (const auto& [first, values] : writing_) all.Add({first, values});
  return all;
}

std::uint64_t StateTransfer::bytes_wanted() const {
  SHOAL_ASSERT_ON(*member_->control);
  return options_.shadow ? kStateVectors * sizeof(float) * options_.state_size : 0;
}

std::uint64_t StateTransfer::bytes_here() const {
  SHOAL_ASSERT_ON(*member_->control);
  return options_.shadow ? bytes_wanted() - kStateVectors * sizeof(float) * missing().count() : 0;
}

}  // namespace shoal::replica
