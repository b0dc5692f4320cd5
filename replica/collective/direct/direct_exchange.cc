// The direct exchange of exchange.h: encode, send, sum, send sums, decode, chunk by chunk.
//
// Every pass over values runs on `compute` (a thread or a pool), a few encodings ahead of the
// sending, so that sums find their turn. `control` only counts messages. Tag of a message: its
// round.

#include <algorithm>
#include <atomic>
#include <cmath>
#include <deque>
#include <optional>
#include <utility>

#include "replica/collective/direct/chunk_schedule.h"
#include "replica/collective/direct/early_messages.h"
#include "replica/collective/error_memories.h"
#include "replica/collective/exchange.h"
#include "replica/collective/exchange_coders.h"
#include "replica/collective/exchange_result.h"
#include "replica/collective/exchange_work.h"

namespace shoal::collective {
namespace {

constexpr std::size_t kEncodingMax = 4;  // contributions being encoded at once
constexpr std::size_t kWindowChunksMin = 4;
constexpr std::size_t kSparesMax = 2;  // of results: a shard's, and the vector's

// `shares_in`: of the reduction, by member; empty: by weight.
Status CheckRequest(const ExchangeRequest& request, std::size_t members,
                    const std::vector<double>& shares_in) {
  if (request.weights.size() != members) {
    return InvalidArgument("an exchange among " + std::to_string(members) + " members got " +
                           std::to_string(request.weights.size()) + " weights");
  }
  std::uint64_t all = 0;
  for (const std::uint64_t weight : request.weights) {
    if (weight > UINT64_MAX - all) return InvalidArgument("the weights of an exchange overflow");
    all += weight;
  }
  if (all == 0) return InvalidArgument("no member of the exchange has a weight above 0");
  const bool made = request.op == CollectiveOp::kAllGather && request.transform != nullptr;
  if (request.values == nullptr ? !made : request.values->size() % sizeof(float) != 0) {
    return InvalidArgument("an exchange takes fp32 values");
  }
  SHOAL_RETURN_IF_ERROR(CheckShares(request.shares, members));
  const std::vector<double> shares = SharesOf(request.weights, shares_in);
  if (std::none_of(shares.begin(), shares.end(), [](double share) { return share > 0; })) {
    return InvalidArgument("no member with a weight has a share of the reduction");
  }
  return Status::Ok();
}

// Thread: control. Tasks on `compute` own what they touch, and find the round gone by `running`.
class DirectExchange final : public BlendingExchange {
 public:
  DirectExchange(const ExchangeConfig& config, ExchangeCoders coders, std::size_t chunk_values,
                 GroupChannel* channel, Executor* control, Executor* compute)
      : config_(config),
        coders_(std::move(coders)),
        chunk_values_(chunk_values),
        channel_(channel),
        control_(control),
        compute_(compute),
        memories_(config.reuse_memory, config.home),
        early_(config.early_bytes_max) {
    channel_->SetReceiver([this](std::size_t from, std::uint64_t, Buffer message) {
      OnMessage(from, std::move(message));
    });
  }
  ~DirectExchange() override {
    *operation_ = 0;
    channel_->SetReceiver(nullptr);
  }

  // Thread: any.
  const compression::ValueHome& home() const override { return *config_.home; }
  void Start(ExchangeRequest request, std::function<void(Result<Buffer>)> done) override;
  void Abort() override {
    SHOAL_ASSERT_ON(*control_);
    Finish(Aborted("the exchange inside the stage group was aborted"));
  }
  void Commit() override {
    SHOAL_ASSERT_ON(*control_);
    SHOAL_CHECK(round_ == nullptr && !blending_);
    memories_.Commit();
  }
  void CommitPart(double factor, std::function<void(Status)> done) override;
  void Rollback() override {
    SHOAL_ASSERT_ON(*control_);
    SHOAL_CHECK(!blending_);
    Abort();
    memories_.Rollback();
  }
  void Recycle(Buffer result) override {
    SHOAL_ASSERT_ON(*control_);
    if (!config_.reuse_memory) return;
    spare_results_.push_back(std::move(result));
    if (spare_results_.size() > kSparesMax) spare_results_.pop_front();
  }
  KeptErrors TakeErrors() override {
    SHOAL_ASSERT_ON(*control_);
    return {memories_.Take(), {}, config_.home->on_host()};
  }
  void Adopt(KeptErrors kept) override {
    SHOAL_ASSERT_ON(*control_);
    SHOAL_CHECK(!started_);
    if (kept.on_host == config_.home->on_host()) memories_.Adopt(std::move(kept.memories));
  }
  std::vector<std::size_t> Awaited() const override;
  ExchangeTraffic traffic() const override {
    SHOAL_ASSERT_ON(*control_);
    return traffic_;
  }

 private:
  // What tasks on `compute` share. Each writes its own chunk of `result` and `fresh` only.
  struct Round {
    RoundPlan plan;
    std::shared_ptr<const Buffer> values;
    MemoryPlace place;
    std::shared_ptr<const ErrorMemory> memory;  // to build on; null: zeros
    std::shared_ptr<ErrorMemory> fresh;         // what this round leaves; null: nothing
    Buffer result;
  };
  struct OwnChunk {
    std::vector<Buffer> contributions;  // by member; empty: not there
    std::size_t missing = 0;
  };
  struct Summed {
    Coded coded;
    std::vector<Buffer> messages;  // by member, not for oneself
  };

  std::size_t size() const { return channel_->size(); }
  std::size_t rank() const { return channel_->rank(); }

  Status CheckStart(const ExchangeRequest& request) const;
  Result<ExchangeCoders> CodersOf(const ExchangeRequest& request) const;
  const std::vector<double>& SharesIn(const ExchangeRequest& request) const {
    return request.shares.empty() ? config_.shares : request.shares;
  }
  static std::size_t CountOf(const ExchangeRequest& request) {
    return request.values == nullptr ? request.count : request.values->size() / sizeof(float);
  }
  // By the config's coders: chunks, and so error memories, stay what they are when codecs change.
  std::size_t ChunkOf(const ExchangeRequest& request) const {
    return ChunkValuesOf(config_, coders_, chunk_values_, CountOf(request), size());
  }
  Result<std::shared_ptr<Round>> MakeRound(ExchangeRequest request, const ExchangeCoders& coders);
  void Expect();
  void Encode();
  void Encoded(ChunkId id, Coded coded);
  void Contributed(std::size_t chunk, std::size_t from, Buffer message);
  void Sum(std::size_t chunk);
  void OnSum(Summed summed);
  void Decode(ChunkId id, Buffer message);
  void MaybeEnd();
  Status Send(std::size_t to, Buffer message);
  void OnMessage(std::size_t from, Buffer message);
  void Refuse(std::size_t from, const Status& status);
  void Blame(std::size_t from, const Status& status);  // ends the round
  Status Take(std::size_t from, const MessageHeader& header, Buffer message);
  void Finish(Result<Buffer> result);
  // Runs `work` on compute, then `then` with its result here, unless the round ended.
  template <typename Work, typename Then>
  void OnCompute(const char* name, Work work, Then then);

  const ExchangeConfig config_;
  const ExchangeCoders coders_;     // of rounds that name no others
  const std::size_t chunk_values_;  // of vectors that are not large (ChunkValuesOf)
  GroupChannel* const channel_;
  Executor* const control_;
  Executor* const compute_;
  // Number of the operation; tasks of an earlier one see a difference and end. Shared, because a
  // task may outlive this object; 0 after destruction.
  std::shared_ptr<std::atomic<std::uint64_t>> operation_ =
      std::make_shared<std::atomic<std::uint64_t>>(1);
  TaskScope replies_{control_};

  ErrorMemories memories_;
  bool blending_ = false;  // a task on `compute` is at work on what was put there
  std::deque<Buffer> spare_results_;
  ExchangeTraffic traffic_;
  const std::shared_ptr<LargestNorm> norms_ = std::make_shared<LargestNorm>();
  bool started_ = false;          // any round yet
  std::uint64_t last_round_ = 0;  // running or last
  EarlyMessages early_;
  Status broken_;  // not OK: a member's messages were lost, so later rounds could not end

  std::shared_ptr<Round> round_;  // running; null: none
  std::function<void(Result<Buffer>)> done_;
  ChunkSchedule schedule_;
  std::size_t encoding_ = 0;
  std::vector<OwnChunk> own_;                   // chunks of the own shard
  std::vector<std::vector<bool>> have_result_;  // by member, chunk
  std::vector<std::size_t> results_left_;       // messages by member
  std::size_t chunks_left_ = 0;                 // not yet in the result
};

template <typename Work, typename Then>
void DirectExchange::OnCompute(const char* name, Work work, Then then) {
  const std::uint64_t mine = *operation_;
  auto task = std::make_shared<Work>(std::move(work));  // shared: std::function must be copyable
  compute_->Post(name, [name, mine, operation = operation_, control = control_, task, then] {
    if (*operation != mine) return;
    auto result = std::make_shared<decltype((*task)())>((*task)());
    control->Post(name, [mine, operation, result, then] {
      if (*operation == mine) then(std::move(*result));
    });
  });
}

Status DirectExchange::CheckStart(const ExchangeRequest& request) const {
  SHOAL_RETURN_IF_ERROR(broken_);
  if (round_ != nullptr) return FailedPrecondition("an exchange is still running");
  if (started_ && request.round <= last_round_) {
    return InvalidArgument("exchange round " + std::to_string(request.round) +
                           " does not follow round " + std::to_string(last_round_));
  }
  return CheckRequest(request, size(), SharesIn(request));
}

void DirectExchange::Start(ExchangeRequest request, std::function<void(Result<Buffer>)> done) {
  SHOAL_ASSERT_ON(*control_);
  SHOAL_CHECK(!blending_);
  Status status = CheckStart(request);
  const Result<ExchangeCoders> coders =
      status.ok() ? CodersOf(request) : Result<ExchangeCoders>(status);
  if (!coders.ok()) {
    status = coders.status();
    return PostResult(&replies_, std::move(done), std::move(status));
  }
  const std::uint64_t number = request.round;
  Result<std::shared_ptr<Round>> round = MakeRound(std::move(request), *coders);
  if (!round.ok()) return PostResult(&replies_, std::move(done), round.status());
  done_ = std::move(done);
  last_round_ = number;
  round_ = std::move(*round);
  started_ = true;
  traffic_ = {};
  Expect();
  Encode();
  MaybeEnd();
  for (EarlyMessages::Message& held : early_.TakeAll()) {
    OnMessage(held.from, std::move(held.bytes));
  }
}

Result<ExchangeCoders> DirectExchange::CodersOf(const ExchangeRequest& request) const {
  if (request.codec.empty() && request.result_codec.empty()) return coders_;
  SHOAL_ASSIGN_OR_RETURN(ExchangeCoders coders,
                         MakeExchangeCoders(config_, request.codec, request.result_codec));
  const std::size_t chunk = ChunkOf(request);
  if (coders.MessageBytesMax(chunk) <= config_.chunk_bytes) return coders;
  return InvalidArgument("a chunk of " + std::to_string(chunk) +
                         " values does not fit a message with the codecs of this round; name the "
                         "one with more bytes when the exchange is made");
}

Result<std::shared_ptr<DirectExchange::Round>> DirectExchange::MakeRound(
    ExchangeRequest request, const ExchangeCoders& coders) {
  SHOAL_CHECK(request.transform == nullptr || config_.home->on_host());
  auto round = std::make_shared<Round>();
  RoundPlan& plan = round->plan;
  const std::size_t values = CountOf(request);
  const std::size_t chunk = ChunkOf(request);
  plan.rank = rank();
  plan.layout =
      ShardLayout(values, SharesOf(request.weights, SharesIn(request)), config_.row, chunk);
  plan.contribution_coder = coders.contribution;
  plan.result_coder = coders.result;
  plan.method = coders.method;
  plan.round = request.round;
  plan.epoch = config_.epoch;
  plan.seed = config_.seed;
  plan.tensor = request.tensor;
  plan.combine = request.combine;
  plan.op = request.op;
  plan.transform = std::move(request.transform);
  if (request.alike && plan.op != CollectiveOp::kAllGather) {
    plan.check = std::make_shared<const ContributionCheck>(request.values, &plan.home(), norms_);
  }
  for (const std::uint64_t weight : request.weights) plan.weight += weight;
  plan.weights = std::move(request.weights);
  const bool result_feedback = ResultFeedback(config_);
  // What a member has not sent waits while it only listens. Without feedback it may have some of an
  // earlier exchange, and says it once.
  const bool has = config_.error_feedback || result_feedback || !memories_.empty();
  if (has && plan.weights[rank()] != 0) {
    round->place = MemoryPlace(plan.layout, rank(), OwnPart(plan));
    round->memory = memories_.Find(plan.tensor, values);
    const bool worker = config_.error_feedback && plan.op != CollectiveOp::kAllGather;
    const bool server = result_feedback && plan.op != CollectiveOp::kReduceScatter;
    SHOAL_ASSIGN_OR_RETURN(round->fresh, memories_.Fresh(plan.tensor, round->place,
                                                         worker && !coders.contribution->exact(),
                                                         server && !coders.result->exact()));
  }
  const std::size_t bytes = plan.Wanted().size() * sizeof(float);
  for (Buffer& spare : spare_results_) {
    if (spare.size() == bytes) round->result = std::move(spare);
  }
  if (round->result.size() != bytes) {
    SHOAL_ASSIGN_OR_RETURN(round->result, config_.home->Allocate(plan.Wanted().size()));
  }
  round->values = std::move(request.values);
  return round;
}

// What this member has to send and to get.
void DirectExchange::Expect() {
  const RoundPlan& plan = round_->plan;
  const ShardLayout& layout = plan.layout;
  const bool gather = plan.op == CollectiveOp::kAllGather;
  ChunkSchedule::Config schedule;
  for (std::size_t r = 0; r < size(); ++r) schedule.chunks.push_back(layout.chunks(r));
  schedule.rank = rank();
  schedule.gather = gather;
  schedule.sends = plan.weights[rank()] != 0;
  schedule.window =
      std::max(kWindowChunksMin,
               config_.window_bytes / std::max<std::size_t>(1, size() - 1) /
                   (kMessageHeaderBytes + coders_.contribution->BytesMax(layout.chunk_values())));
  schedule_ = ChunkSchedule(std::move(schedule));
  encoding_ = 0;
  const auto contributors =
      static_cast<std::size_t>(size() - std::count(plan.weights.begin(), plan.weights.end(), 0u));
  own_.clear();
  own_.resize(layout.chunks(rank()));
  for (OwnChunk& own : own_) {
    if (gather) continue;
    own.contributions.resize(size());
    own.missing = contributors;
  }
  chunks_left_ = 0;
  results_left_.assign(size(), 0);
  have_result_.assign(size(), {});
  for (std::size_t r = 0; r < size(); ++r) {
    chunks_left_ += layout.chunks(r);
    if (r == rank()) continue;
    results_left_[r] = layout.chunks(r);
    have_result_[r].assign(layout.chunks(r), false);
  }
}

void DirectExchange::Encode() {
  while (encoding_ < kEncodingMax) {
    const std::optional<ChunkId> next = schedule_.Next();
    if (!next) return;
    const ChunkId id = *next;
    ++encoding_;
    if (round_->plan.op == CollectiveOp::kAllGather) {
      Sum(id.chunk);
      continue;
    }
    auto encode = [round = round_, id] {
      const ValueRange chunk = round->plan.layout.chunk(id.owner, id.chunk);
      Buffer folded;
      const Result<std::span<const float>> before =
          ErrorsBefore(round->plan, round->memory.get(), round->place, chunk, &folded);
      if (!before.ok()) return Coded{before.status(), {}};
      return EncodeContribution(round->plan, id.owner, id.chunk, round->values->floats(),
                                {*before, WorkerError(round->fresh.get(), chunk)});
    };
    OnCompute("exchange.encode", std::move(encode),
              [this, id](Coded coded) { Encoded(id, std::move(coded)); });
  }
}

void DirectExchange::Encoded(ChunkId id, Coded coded) {
  if (!coded.status.ok()) return Finish(coded.status.WithContext("own values"));
  --encoding_;
  Encode();
  if (id.owner == rank()) {
    Contributed(id.chunk, rank(), std::move(coded.message));
  } else if (Status sent = Send(id.owner, std::move(coded.message)); !sent.ok()) {
    return Finish(sent);
  }
  MaybeEnd();
}

void DirectExchange::Contributed(std::size_t chunk, std::size_t from, Buffer message) {
  OwnChunk& own = own_[chunk];
  own.contributions[from] = std::move(message);
  if (--own.missing == 0) Sum(chunk);
}

void DirectExchange::Sum(std::size_t chunk) {
  auto sum = [round = round_, chunk, members = size(),
              contributions = std::move(own_[chunk].contributions)] {
    const RoundPlan& plan = round->plan;
    const ValueRange range = plan.layout.chunk(plan.rank, chunk);
    const std::span<const float> values =
        round->values != nullptr ? round->values->floats() : std::span<const float>();
    Summed summed;
    summed.coded = SumChunk(plan, chunk, contributions, values,
                            {ServerError(round->memory.get(), round->place, range),
                             ServerError(round->fresh.get(), range)},
                            round->result.floats());
    if (!summed.coded.status.ok()) return summed;
    summed.messages.resize(members);
    for (std::size_t r = 0; r < members; ++r) {
      if (r != plan.rank) summed.messages[r] = Buffer::CopyOf(summed.coded.message.bytes());
    }
    return summed;
  };
  OnCompute("exchange.sum", std::move(sum), [this](Summed summed) { OnSum(std::move(summed)); });
}

void DirectExchange::OnSum(Summed summed) {
  if (const Coded& c = summed.coded; !c.status.ok()) return Blame(c.by.value_or(rank()), c.status);
  for (std::size_t i = 1; i < size(); ++i) {
    const std::size_t to = (rank() + i) % size();
    if (Status sent = Send(to, std::move(summed.messages[to])); !sent.ok()) return Finish(sent);
  }
  --chunks_left_;
  schedule_.Answered(rank());
  if (round_->plan.op == CollectiveOp::kAllGather) --encoding_;
  Encode();
  MaybeEnd();
}

void DirectExchange::Decode(ChunkId id, Buffer message) {
  auto decode = [round = round_, id, message = std::move(message)] {
    return DecodeResult(round->plan, id.owner, id.chunk, message, round->result.floats());
  };
  OnCompute("exchange.decode", std::move(decode), [this, from = id.owner](Status status) {
    if (!status.ok()) return Blame(OfMessage(status) ? from : rank(), status);
    --chunks_left_;
    MaybeEnd();
  });
}

void DirectExchange::MaybeEnd() {
  if (chunks_left_ > 0 || encoding_ > 0 || !schedule_.all_begun()) return;
  if (round_->fresh) memories_.Put(round_->plan.tensor, std::move(round_->fresh));
  Finish(std::move(round_->result));
}

void DirectExchange::CommitPart(double factor, std::function<void(Status)> done) {
  SHOAL_ASSERT_ON(*control_);
  SHOAL_CHECK(round_ == nullptr && !blending_);
  if (!MayBlend(factor)) {
    return replies_.Post("exchange.refuse", [factor, done = std::move(done)] {
      done(InvalidArgument("an exchange cannot count by a factor of " + std::to_string(factor)));
    });
  }
  Result<std::vector<MemoryStep>> steps =
      factor == 1 ? std::vector<MemoryStep>() : memories_.Steps();
  if (!steps.ok()) {
    return replies_.Post("exchange.refuse",
                         [status = steps.status(), done = std::move(done)] { done(status); });
  }
  SHOAL_CHECK(steps->empty() || config_.home->on_host());
  blending_ = true;
  auto blend = [steps = std::move(*steps), factor = static_cast<float>(factor)] {
    for (const MemoryStep& step : steps) SHOAL_RETURN_IF_ERROR(Blend(step, factor));
    return Status::Ok();
  };
  OnCompute("exchange.blend", std::move(blend), [this, done = std::move(done)](Status status) {
    blending_ = false;
    memories_.Commit();
    done(std::move(status));
  });
}

Status DirectExchange::Send(std::size_t to, Buffer message) {
  traffic_.sent_bytes += message.size();
  ++traffic_.sent_messages;
  return channel_->Send(to, last_round_, std::move(message));
}

void DirectExchange::OnMessage(std::size_t from, Buffer message) {
  SHOAL_ASSERT_ON(*control_);
  if (from >= size() || from == rank()) return Refuse(from, InvalidArgument("it is no member"));
  const Result<MessageHeader> header = ParseMessageHeader(std::as_const(message).bytes());
  if (!header.ok()) return Refuse(from, header.status());
  if (header->epoch < config_.epoch) return;  // late
  if (header->epoch > config_.epoch) {
    return Refuse(from,
                  InvalidArgument("it belongs to generation " + std::to_string(header->epoch) +
                                  ", not " + std::to_string(config_.epoch)));
  }
  const bool running = round_ != nullptr;
  if (started_ && (header->round < last_round_ || (header->round == last_round_ && !running))) {
    return;  // late
  }
  if (!running || header->round > last_round_) {
    if (early_.Hold(from, std::move(message))) return;
    return Refuse(from, ResourceExhausted("it is ahead by more messages than are buffered"));
  }
  if (Status taken = Take(from, *header, std::move(message)); !taken.ok()) Blame(from, taken);
}

void DirectExchange::Blame(std::size_t from, const Status& status) {
  channel_->Blame(from, status);
  Finish(status);
}

// A message that cannot be put right: something is lost, so no later round could end either.
void DirectExchange::Refuse(std::size_t from, const Status& status) {
  broken_ =
      status.WithContext("a message of member " + std::to_string(from) + " of the stage group");
  early_.TakeAll();
  Blame(from, broken_);
}

Status DirectExchange::Take(std::size_t from, const MessageHeader& header, Buffer message) {
  const RoundPlan& plan = round_->plan;
  const bool is_result = header.phase == Phase::kResult;
  const std::string what = std::string(is_result ? "result" : "contribution") + " of member " +
                           std::to_string(from) + " of the stage group";
  const std::size_t owner = is_result ? from : rank();
  if (!is_result && plan.weights[from] == 0) {
    return InvalidArgument("a " + what + ", which only listens");
  }
  if (header.chunk >= plan.layout.chunks(owner) ||
      header != HeaderOf(plan, header.phase, from, owner, header.chunk)) {
    return InvalidArgument("a " + what + " has chunk " + std::to_string(header.chunk) +
                           " with other values, weight or codec than here; are all members in the "
                           "same plan?");
  }
  if (message.size() > MessageBytesMax(plan, header)) {
    return InvalidArgument("a " + what + " has " + std::to_string(message.size()) +
                           " bytes, more than its values can make");
  }
  const bool have = is_result ? have_result_[from][header.chunk]
                              : own_[header.chunk].contributions.empty() ||
                                    !own_[header.chunk].contributions[from].empty();
  if (have) return InvalidArgument("a second " + what);
  traffic_.received_bytes += message.size();
  ++traffic_.received_messages;
  if (is_result) {
    have_result_[from][header.chunk] = true;
    --results_left_[from];
    schedule_.Answered(from);
    Encode();
    Decode({owner, header.chunk}, std::move(message));
  } else {
    Contributed(header.chunk, from, std::move(message));
  }
  return Status::Ok();
}

// Members behind with the first chunk that is not complete: those without a later one may only be
// waiting for the answer to it. In an all-gather, whose members wait for each other, the one that
// is furthest behind.
std::vector<std::size_t> DirectExchange::Awaited() const {
  SHOAL_ASSERT_ON(*control_);
  if (round_ == nullptr || encoding_ > 0) return {};
  const auto first =
      std::find_if(own_.begin(), own_.end(), [](const OwnChunk& own) { return own.missing > 0; });
  std::size_t least = SIZE_MAX;
  for (std::size_t r = 0; r < size(); ++r) {
    if (round_->plan.op != CollectiveOp::kAllGather) break;
    if (results_left_[r] > 0) least = std::min(least, schedule_.answered(r));
  }
  std::vector<std::size_t> members;
  for (std::size_t r = 0; r < size(); ++r) {
    const bool behind = first != own_.end()
                            ? round_->plan.weights[r] != 0 && first->contributions[r].empty()
                            : results_left_[r] > 0 && schedule_.answered(r) <= least;
    if (behind && r != rank()) members.push_back(r);
  }
  return members;
}

void DirectExchange::Finish(Result<Buffer> result) {
  if (round_ == nullptr) return;
  ++*operation_;
  if (!result.ok()) memories_.MarkRead(round_->plan.tensor);
  round_.reset();
  own_.clear();
  PostResult(&replies_, std::exchange(done_, nullptr), std::move(result));
}

}  // namespace

Result<std::unique_ptr<BlendingExchange>> NewBlendingExchange(const ExchangeConfig& config,
                                                              GroupChannel* channel,
                                                              Executor* control,
                                                              Executor* compute) {
  if (channel->rank() >= channel->size()) {
    return InvalidArgument("this member is not in its stage group");
  }
  SHOAL_ASSIGN_OR_RETURN(ExchangeCoders coders, CheckedCoders(config, channel->size()));
  const std::size_t chunk_values = ChunkValues(config, coders);
  return std::unique_ptr<BlendingExchange>(std::make_unique<DirectExchange>(
      config, std::move(coders), chunk_values, channel, control, compute));
}

Result<std::unique_ptr<Exchange>> NewDirectExchange(const ExchangeConfig& config,
                                                    GroupChannel* channel, Executor* control,
                                                    Executor* compute) {
  SHOAL_ASSIGN_OR_RETURN(std::unique_ptr<Exchange> exchange,
                         NewBlendingExchange(config, channel, control, compute));
  return exchange;
}

}  // namespace shoal::collective
