// The direct all-reduce of all_reduce.h: split, send shards, sum, send sums, assemble.
//
// Every copy and sum runs on `compute`; `control` only counts messages. Tag of a message:
// round x 2 + phase (0: a member's values of the owner's shard, 1: the owner's sum).

#include <atomic>
#include <string>
#include <utility>
#include <vector>

#include "collective/all_reduce.h"

namespace shoal::collective {
namespace {

constexpr std::size_t kEarlyMax = 4;  // messages of later rounds held per member

enum class Phase : std::uint64_t { kShard = 0, kSum = 1 };

std::uint64_t Tag(std::uint64_t round, Phase phase) {
  return round * 2 + static_cast<std::uint64_t>(phase);
}

// Values [begin, end) that member `rank` of `size` owns.
struct Shard {
  std::size_t begin = 0, end = 0;
  std::size_t bytes() const { return (end - begin) * sizeof(float); }
};
Shard ShardOf(std::size_t values, std::size_t rank, std::size_t size) {
  // The first values % size members own one value more; no product, so no overflow.
  const std::size_t base = values / size, extra = values % size;
  const std::size_t begin = rank * base + std::min(rank, extra);
  return {begin, begin + base + (rank < extra ? 1 : 0)};
}

Buffer CopyShard(const Buffer& values, Shard shard) {
  return Buffer::CopyOf(values.bytes().subspan(shard.begin * sizeof(float), shard.bytes()));
}

// Sums parts[r] for the contributors in rank order; all parts have equal size.
Buffer SumInRankOrder(const std::vector<Buffer>& parts, std::uint64_t contributors) {
  Buffer sum;
  bool first = true;
  for (std::size_t r = 0; r < parts.size(); ++r) {
    if ((contributors >> r & 1) == 0) continue;
    if (std::exchange(first, false)) {
      sum = Buffer::CopyOf(parts[r].bytes());
      continue;
    }
    const std::span<float> into = sum.floats();
    const std::span<const float> from = parts[r].floats();
    for (std::size_t i = 0; i < into.size(); ++i) into[i] += from[i];
  }
  return sum;
}

// Thread: control. Tasks on `compute` own what they touch, and find the operation gone by `epoch`.
class DirectAllReduce final : public AllReduce {
 public:
  DirectAllReduce(GroupChannel* channel, Executor* control, Executor* compute)
      : channel_(channel), control_(control), compute_(compute) {
    channel_->SetReceiver([this](std::size_t from, std::uint64_t tag, Buffer payload) {
      OnMessage(from, tag, std::move(payload));
    });
  }
  ~DirectAllReduce() override {
    *epoch_ = 0;
    channel_->SetReceiver(nullptr);
  }

  void Start(std::uint64_t round, std::uint64_t contributors, Buffer values,
             std::function<void(Result<Buffer>)> done) override;
  void Abort() override { Finish(Aborted("the exchange inside the stage group was aborted")); }
  std::vector<std::size_t> Awaited() const override;

 private:
  enum class State { kIdle, kSplitting, kWaitingShards, kSumming, kWaitingSums, kAssembling };
  struct Early {
    std::size_t from;
    std::uint64_t tag;
    Buffer payload;
  };

  std::size_t size() const { return channel_->size(); }
  bool contributes(std::size_t rank) const { return (contributors_ >> rank & 1) != 0; }

  Status CheckStart(std::uint64_t round, std::uint64_t contributors, const Buffer& values) const;
  void OnMessage(std::size_t from, std::uint64_t tag, Buffer payload);
  Status Take(std::size_t from, Phase phase, Buffer payload);
  void Advance();
  void Split();
  void Sum();
  void Assemble();
  Status SendAll(std::vector<Buffer> messages, Phase phase);
  void Finish(Result<Buffer> result);
  // Runs `work` on compute, then `then` with its result here, unless the operation ended.
  template <typename Work, typename Then>
  void OnCompute(const char* name, Work work, Then then);

  GroupChannel* const channel_;
  Executor* const control_;
  Executor* const compute_;
  // Number of the operation; tasks of an earlier one see a difference and end. Shared, because a
  // task may outlive this object; 0 after destruction.
  std::shared_ptr<std::atomic<std::uint64_t>> epoch_ =
      std::make_shared<std::atomic<std::uint64_t>>(1);

  State state_ = State::kIdle;
  std::uint64_t round_ = 0;  // running or last
  bool started_ = false;     // any round yet
  std::uint64_t contributors_ = 0;
  std::function<void(Result<Buffer>)> done_;
  std::size_t values_ = 0;
  std::shared_ptr<Buffer> own_;              // values, then the sum
  std::vector<Buffer> shards_, sums_;        // by member
  std::vector<bool> have_shard_, have_sum_;  // by member
  std::vector<Early> early_;                 // messages of later rounds, few per member
  Status flooded_;                           // not OK: a member flooded early_
};

template <typename Work, typename Then>
void DirectAllReduce::OnCompute(const char* name, Work work, Then then) {
  const std::uint64_t mine = *epoch_;
  auto task = std::make_shared<Work>(std::move(work));  // shared: std::function must be copyable
  compute_->Post(name, [name, mine, epoch = epoch_, control = control_, task, then] {
    if (*epoch != mine) return;
    auto result = std::make_shared<decltype((*task)())>((*task)());
    control->Post(name, [mine, epoch, result, then] {
      if (*epoch == mine) then(std::move(*result));
    });
  });
}

Status DirectAllReduce::CheckStart(std::uint64_t round, std::uint64_t contributors,
                                   const Buffer& values) const {
  SHOAL_RETURN_IF_ERROR(flooded_);
  if (state_ != State::kIdle) return FailedPrecondition("an all-reduce is still running");
  if (started_ && round <= round_) {
    return InvalidArgument("all-reduce round " + std::to_string(round) + " does not follow round " +
                           std::to_string(round_));
  }
  if (round >= 1ull << 63) return InvalidArgument("all-reduce round is too large for a tag");
  if (size() == 0 || size() > 64 || channel_->rank() >= size()) {
    return InvalidArgument("a stage group has 1 to 64 members, this one has " +
                           std::to_string(size()));
  }
  const std::uint64_t members = size() == 64 ? ~0ull : (1ull << size()) - 1;
  if (contributors == 0 || (contributors & ~members) != 0) {
    return InvalidArgument("the contributors to an all-reduce must be one or more of its " +
                           std::to_string(size()) + " members");
  }
  if (values.size() % sizeof(float) != 0) {
    return InvalidArgument("an all-reduce takes fp32 values, not " + std::to_string(values.size()) +
                           " bytes");
  }
  return Status::Ok();
}

void DirectAllReduce::Start(std::uint64_t round, std::uint64_t contributors, Buffer values,
                            std::function<void(Result<Buffer>)> done) {
  if (Status status = CheckStart(round, contributors, values); !status.ok()) {
    control_->Post("reduce.refused", [status, done = std::move(done)] { done(status); });
    return;
  }
  started_ = true;
  round_ = round;
  contributors_ = contributors;
  done_ = std::move(done);
  values_ = values.size() / sizeof(float);
  own_ = std::make_shared<Buffer>(std::move(values));
  shards_.clear();
  sums_.clear();
  shards_.resize(size());
  sums_.resize(size());
  have_shard_.assign(size(), false);
  have_sum_.assign(size(), false);
  state_ = State::kSplitting;
  Split();
  std::vector<Early> early = std::exchange(early_, {});
  for (Early& message : early) OnMessage(message.from, message.tag, std::move(message.payload));
}

void DirectAllReduce::Split() {
  const std::size_t rank = channel_->rank();
  auto cut = [own = own_, members = size()] {
    std::vector<Buffer> parts;
    for (std::size_t r = 0; r < members; ++r) {
      parts.push_back(CopyShard(*own, ShardOf(own->size() / sizeof(float), r, members)));
    }
    return parts;
  };
  OnCompute("reduce.split", std::move(cut), [this, rank](std::vector<Buffer> parts) {
    state_ = State::kWaitingShards;
    if (contributes(rank)) {
      shards_[rank] = std::move(parts[rank]);
      have_shard_[rank] = true;
      if (Status sent = SendAll(std::move(parts), Phase::kShard); !sent.ok()) return Finish(sent);
    }
    Advance();
  });
}

Status DirectAllReduce::SendAll(std::vector<Buffer> messages, Phase phase) {
  for (std::size_t r = 0; r < size(); ++r) {
    if (r == channel_->rank()) continue;
    SHOAL_RETURN_IF_ERROR(channel_->Send(r, Tag(round_, phase), std::move(messages[r])));
  }
  return Status::Ok();
}

void DirectAllReduce::OnMessage(std::size_t from, std::uint64_t tag, Buffer payload) {
  const std::uint64_t round = tag / 2;
  if (started_ && (round < round_ || (round == round_ && state_ == State::kIdle))) return;  // late
  if (!started_ || round > round_) {
    // A member can be one round ahead at most, with one message of each phase. More is a flood:
    // the messages after it are lost, so no later operation could end.
    std::size_t held = 0;
    for (const Early& message : early_) held += message.from == from ? 1 : 0;
    if (held < kEarlyMax) {
      early_.push_back({from, tag, std::move(payload)});
    } else {
      flooded_ = InvalidArgument("member " + std::to_string(from) +
                                 " of the stage group sent messages of rounds far ahead");
      Finish(flooded_);
    }
    return;
  }
  if (Status taken = Take(from, static_cast<Phase>(tag % 2), std::move(payload)); !taken.ok()) {
    return Finish(taken);
  }
  Advance();
}

Status DirectAllReduce::Take(std::size_t from, Phase phase, Buffer payload) {
  const bool is_sum = phase == Phase::kSum;
  const std::string what = std::string(is_sum ? "sum" : "shard") + " from member " +
                           std::to_string(from) + " of the stage group";
  if (from >= size() || from == channel_->rank()) return InvalidArgument("unexpected " + what);
  const Shard shard = ShardOf(values_, is_sum ? from : channel_->rank(), size());
  if (payload.size() != shard.bytes()) {
    return InvalidArgument(what + " has " + std::to_string(payload.size()) + " bytes instead of " +
                           std::to_string(shard.bytes()) + "; are all members in the same plan?");
  }
  if (!is_sum && !contributes(from)) return InvalidArgument(what + ", which does not contribute");
  std::vector<bool>& have = is_sum ? have_sum_ : have_shard_;
  if (have[from]) return InvalidArgument("second " + what);
  have[from] = true;
  (is_sum ? sums_ : shards_)[from] = std::move(payload);
  return Status::Ok();
}

std::vector<std::size_t> DirectAllReduce::Awaited() const {
  std::vector<std::size_t> members;
  for (std::size_t r = 0; r < size(); ++r) {
    if (state_ == State::kWaitingShards && contributes(r) && !have_shard_[r]) members.push_back(r);
    if (state_ == State::kWaitingSums && !have_sum_[r]) members.push_back(r);
  }
  return members;
}

void DirectAllReduce::Advance() {
  if (!Awaited().empty()) return;
  if (state_ == State::kWaitingShards) {
    state_ = State::kSumming;
    Sum();
  } else if (state_ == State::kWaitingSums) {
    state_ = State::kAssembling;
    Assemble();
  }
}

void DirectAllReduce::Sum() {
  auto parts = std::make_shared<std::vector<Buffer>>(std::move(shards_));
  auto sum = [parts, contributors = contributors_, members = size()] {
    std::vector<Buffer> copies;
    copies.push_back(SumInRankOrder(*parts, contributors));
    while (copies.size() < members) copies.push_back(Buffer::CopyOf(copies.front().bytes()));
    return copies;
  };
  OnCompute("reduce.sum", std::move(sum), [this, rank = channel_->rank()](auto copies) {
    state_ = State::kWaitingSums;
    sums_[rank] = std::move(copies[rank]);
    have_sum_[rank] = true;
    if (Status sent = SendAll(std::move(copies), Phase::kSum); !sent.ok()) return Finish(sent);
    Advance();
  });
}

void DirectAllReduce::Assemble() {
  auto sums = std::make_shared<std::vector<Buffer>>(std::move(sums_));
  auto assemble = [sums, own = own_] {
    std::size_t offset = 0;
    for (const Buffer& sum : *sums) {
      if (!sum.empty()) std::memcpy(own->data() + offset, sum.data(), sum.size());
      offset += sum.size();
    }
    return std::move(*own);
  };
  OnCompute("reduce.assemble", std::move(assemble), [this](Buffer sum) { Finish(std::move(sum)); });
}

void DirectAllReduce::Finish(Result<Buffer> result) {
  if (state_ == State::kIdle) return;
  state_ = State::kIdle;
  ++*epoch_;
  own_.reset();
  shards_.clear();
  sums_.clear();
  std::exchange(done_, nullptr)(std::move(result));  // last: it may destroy this
}

}  // namespace

std::unique_ptr<AllReduce> NewDirectAllReduce(GroupChannel* channel, Executor* control,
                                              Executor* compute) {
  return std::make_unique<DirectAllReduce>(channel, control, compute);
}

}  // namespace shoal::collective
