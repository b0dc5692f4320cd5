#include "collective/marsit_exchange.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <string>
#include <utility>

namespace shoal::collective {
namespace {

// What members have to agree on beside the shape of the round.
std::string MarsitLabel(const MarsitOptions& options, const MarsitRates& rates) {
  std::string label = "marsit seed=" + std::to_string(options.seed) +
                      " every=" + std::to_string(options.every) +
                      " rates=" + std::to_string(std::bit_cast<std::uint32_t>(rates.local)) + "/" +
                      std::to_string(std::bit_cast<std::uint32_t>(rates.global)) + " masked=";
  for (const RowRange& range : options.masked) {
    label += std::to_string(range.first) + "+" + std::to_string(range.rows) + "x" +
             std::to_string(range.columns) + ",";
  }
  return label;
}

class MarsitExchangeImpl final : public MarsitExchange {
 public:
  MarsitExchangeImpl(const MarsitOptions& options, std::size_t values, RingReduce* ring,
                     Executor* control, Executor* compute)
      : options_(std::make_shared<const MarsitOptions>(options)),
        values_(values),
        ring_(ring),
        control_(control),
        compute_(compute) {
    Buffer zeros(values * sizeof(float));
    std::ranges::fill(zeros.floats(), 0.0F);
    compensation_ = std::make_shared<const Buffer>(std::move(zeros));
  }
  ~MarsitExchangeImpl() override {
    *epoch_ = 0;
    if (state_ == State::kExchanging) ring_->Abort();
  }

  void Start(std::uint64_t round, std::uint64_t contributors, const MarsitRates& rates,
             std::shared_ptr<const Buffer> input,
             std::function<void(Result<Buffer>)> done) override;
  void Commit() override;
  void Rollback() override {
    if (state_ == State::kStaged) Reset();
  }
  void Abort() override;

  bool NextIsExact() const override {
    return exact_requested_ || one_bit_rounds_ >= options_->every - 1;
  }
  void RequestExact() override { exact_requested_ = true; }

  std::span<const float> compensation() const override { return compensation_->floats(); }
  std::uint64_t one_bit_rounds() const override { return one_bit_rounds_; }
  Status Restore(Buffer compensation, std::uint64_t one_bit_rounds) override;

 private:
  // idle -> opening -> exchanging -> closing -> staged -> idle; any -> idle by an error or abort.
  enum class State { kIdle, kOpening, kExchanging, kClosing, kStaged };

  Status CheckStart(std::uint64_t contributors, const MarsitRates& rates,
                    const Buffer* input) const;
  bool contributes() const { return (contributors_ >> ring_->rank() & 1) != 0; }
  void Exchange(std::uint64_t round);
  void Close(Buffer exchanged);
  void Fail(Status status);
  void Reset();
  // Runs `task` on compute, then `then` with its result here, unless the round ended.
  template <typename Task, typename Then>
  void OnCompute(const char* name, Task task, Then then);

  const std::shared_ptr<const MarsitOptions> options_;
  const std::size_t values_;
  RingReduce* const ring_;
  Executor* const control_;
  Executor* const compute_;
  // Number of the round's work; late results see a difference and end. 0 after destruction.
  std::shared_ptr<std::atomic<std::uint64_t>> epoch_ =
      std::make_shared<std::atomic<std::uint64_t>>(1);

  std::shared_ptr<const Buffer> compensation_;  // c
  std::uint64_t one_bit_rounds_ = 0;            // committed since the last exact one
  bool exact_requested_ = true;

  State state_ = State::kIdle;
  std::uint64_t contributors_ = 0;
  std::shared_ptr<MarsitRound> round_;
  std::function<void(Result<Buffer>)> done_;
};

template <typename Task, typename Then>
void MarsitExchangeImpl::OnCompute(const char* name, Task task, Then then) {
  const std::uint64_t mine = *epoch_;
  auto shared = std::make_shared<Task>(std::move(task));  // std::function must be copyable
  compute_->Post(name, [name, mine, epoch = epoch_, control = control_, shared, then] {
    if (*epoch != mine) return;
    auto result = std::make_shared<decltype((*shared)())>((*shared)());
    control->Post(name, [mine, epoch, result, then] {
      if (*epoch == mine) then(std::move(*result));
    });
  });
}

Status MarsitExchangeImpl::CheckStart(std::uint64_t contributors, const MarsitRates& rates,
                                      const Buffer* input) const {
  if (state_ == State::kStaged) {
    return FailedPrecondition("the last marsit round is neither committed nor rolled back");
  }
  if (state_ != State::kIdle) return FailedPrecondition("a marsit round is still running");
  SHOAL_RETURN_IF_ERROR(CheckMarsitRates(rates));
  const bool needed = (contributors >> ring_->rank() & 1) != 0;
  if (needed && (input == nullptr || input->size() != values_ * sizeof(float))) {
    return InvalidArgument("a marsit round takes " + std::to_string(values_) + " values, not " +
                           std::to_string(input == nullptr ? 0 : input->size()) + " bytes");
  }
  return Status::Ok();
}

void MarsitExchangeImpl::Start(std::uint64_t round, std::uint64_t contributors,
                               const MarsitRates& rates, std::shared_ptr<const Buffer> input,
                               std::function<void(Result<Buffer>)> done) {
  if (Status status = CheckStart(contributors, rates, input.get()); !status.ok()) {
    control_->Post("marsit.refused", [status, done = std::move(done)] { done(status); });
    return;
  }
  state_ = State::kOpening;
  contributors_ = contributors;
  done_ = std::move(done);
  auto open = [options = options_, rates, exact = NextIsExact(), takes_part = contributes(),
               c = compensation_, x = std::move(input)]() -> Result<MarsitRound> {
    if (!takes_part) return OpenMarsitListener(*options, rates, exact, c->floats());
    return OpenMarsitRound(*options, rates, exact, c->floats(), x->floats());
  };
  OnCompute("marsit.open", std::move(open), [this, round](Result<MarsitRound> opened) {
    if (!opened.ok()) return Fail(opened.status());
    round_ = std::make_shared<MarsitRound>(std::move(*opened));
    Exchange(round);
  });
}

void MarsitExchangeImpl::Exchange(std::uint64_t round) {
  state_ = State::kExchanging;
  ring_->Start({.round = round,
                .contributors = contributors_,
                .label = MarsitLabel(*options_, round_->rates),
                .vector = std::move(round_->vector),
                .merge = MarsitMerge(*options_, values_, round_->exact)},
               [this, mine = epoch_->load(), epoch = epoch_](Result<Buffer> exchanged) {
                 if (*epoch != mine) return;
                 if (!exchanged.ok()) return Fail(exchanged.status());
                 Close(std::move(*exchanged));
               });
}

void MarsitExchangeImpl::Close(Buffer exchanged) {
  state_ = State::kClosing;
  auto close = [options = options_, members = std::popcount(contributors_),
                takes_part = contributes(), round = round_,
                held = std::make_shared<Buffer>(std::move(exchanged))] {
    return CloseMarsitRound(*options, std::move(*held), static_cast<std::uint32_t>(members),
                            takes_part, round.get());
  };
  OnCompute("marsit.close", std::move(close), [this](Result<Buffer> update) {
    if (!update.ok()) return Fail(update.status());
    state_ = State::kStaged;
    std::exchange(done_, nullptr)(std::move(update));  // last: it may destroy this
  });
}

void MarsitExchangeImpl::Commit() {
  if (state_ != State::kStaged) return;
  // A listener of an exact round keeps its c, so the round was none to it; but the count is common.
  if (round_->exact) {
    one_bit_rounds_ = 0;
    exact_requested_ = false;
  } else {
    ++one_bit_rounds_;
  }
  compensation_ = std::make_shared<const Buffer>(std::move(round_->compensation));
  Reset();
}

void MarsitExchangeImpl::Abort() {
  if (state_ == State::kStaged) return Reset();
  if (state_ != State::kIdle) Fail(Aborted("the exchange inside the stage group was aborted"));
}

void MarsitExchangeImpl::Fail(Status status) {
  Reset();
  std::exchange(done_, nullptr)(std::move(status));  // last: it may destroy this
}

void MarsitExchangeImpl::Reset() {
  ++*epoch_;
  round_.reset();
  if (std::exchange(state_, State::kIdle) == State::kExchanging) ring_->Abort();
}

Status MarsitExchangeImpl::Restore(Buffer compensation, std::uint64_t one_bit_rounds) {
  if (state_ != State::kIdle) return FailedPrecondition("a marsit round is under way");
  if (compensation.size() != values_ * sizeof(float)) {
    return InvalidArgument("marsit's memory has " + std::to_string(values_) + " values, not " +
                           std::to_string(compensation.size()) + " bytes");
  }
  const auto finite = [](float value) { return std::isfinite(value); };
  if (!std::ranges::all_of(compensation.floats(), finite)) {
    return InvalidArgument("marsit's memory has values that are not finite");
  }
  compensation_ = std::make_shared<const Buffer>(std::move(compensation));
  one_bit_rounds_ = one_bit_rounds;
  exact_requested_ = false;
  return Status::Ok();
}

}  // namespace

Result<std::unique_ptr<MarsitExchange>> NewMarsitExchange(const MarsitOptions& options,
                                                          std::size_t values, RingReduce* ring,
                                                          Executor* control, Executor* compute) {
  SHOAL_RETURN_IF_ERROR(CheckMarsitOptions(options, values));
  return std::unique_ptr<MarsitExchange>(
      std::make_unique<MarsitExchangeImpl>(options, values, ring, control, compute));
}

}  // namespace shoal::collective
