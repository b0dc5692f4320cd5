#include "replica/collective/ring/marsit_exchange.h"

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
                     Executor* control)
      : options_(std::make_shared<const MarsitOptions>(options)),
        values_(values),
        ring_(ring),
        control_(control),
        compensation_(std::make_shared<Buffer>(values * sizeof(float))) {
    std::ranges::fill(compensation_->floats(), 0.0F);
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
    SHOAL_ASSERT_ON(*control_);
    if (state_ == State::kStaged) Reset();
  }
  void Abort() override;
  void Recycle(Buffer update) override {
    SHOAL_ASSERT_ON(*control_);
    if (options_->reuse_memory) spare_update_ = std::move(update);
  }

  bool NextIsExact() const override {
    SHOAL_ASSERT_ON(*control_);
    return exact_requested_ || one_bit_rounds_ >= options_->every - 1;
  }
  void RequestExact() override {
    SHOAL_ASSERT_ON(*control_);
    exact_requested_ = true;
  }

  std::span<const float> compensation() const override {
    SHOAL_ASSERT_ON(*control_);
    return std::as_const(*compensation_).floats();
  }
  std::shared_ptr<const Buffer> TakeCompensation() override {
    SHOAL_ASSERT_ON(*control_);
    return std::move(compensation_);
  }
  std::uint64_t one_bit_rounds() const override {
    SHOAL_ASSERT_ON(*control_);
    return one_bit_rounds_;
  }
  Status Restore(Buffer compensation, std::uint64_t one_bit_rounds) override;

 private:
  // idle -> exchanging -> staged -> idle; any -> idle by an error or abort.
  enum class State { kIdle, kExchanging, kStaged };

  Status CheckStart(std::uint64_t contributors, const MarsitRates& rates,
                    const Buffer* input) const;
  void OnExchanged(Result<Buffer> exchanged);
  void Fail(Status status);
  void Reset();

  const std::shared_ptr<const MarsitOptions> options_;
  const std::size_t values_;
  RingReduce* const ring_;
  Executor* const control_;
  // Number of the round; late results see a difference and end. 0 after destruction.
  std::shared_ptr<std::atomic<std::uint64_t>> epoch_ =
      std::make_shared<std::atomic<std::uint64_t>>(1);

  std::shared_ptr<Buffer> compensation_;  // c; rounds only read it
  bool abandoned_ = false;                // work of a failed round may still read it
  Buffer spare_update_, spare_compensation_;
  std::uint64_t one_bit_rounds_ = 0;  // committed since the last exact one
  bool exact_requested_ = true;

  State state_ = State::kIdle;
  std::shared_ptr<MarsitRound> round_;
  std::function<void(Result<Buffer>)> done_;
};

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
  SHOAL_ASSERT_ON(*control_);
  if (Status status = CheckStart(contributors, rates, input.get()); !status.ok()) {
    control_->Post("marsit.refused", [status, done = std::move(done)] { done(status); });
    return;
  }
  state_ = State::kExchanging;
  done_ = std::move(done);
  const bool counts = (contributors >> ring_->rank() & 1) != 0;
  const bool exact = NextIsExact();
  round_ = std::make_shared<MarsitRound>(
      MarsitRoundPlan{.options = options_,
                      .rates = rates,
                      .exact = exact,
                      .contributors = static_cast<std::uint32_t>(std::popcount(contributors)),
                      .compensation = compensation_,
                      .input = counts ? std::move(input) : nullptr,
                      .spare_update = std::exchange(spare_update_, {}),
                      .spare_compensation = std::exchange(spare_compensation_, {})});
  ring_->Start({.round = round,
                .contributors = contributors,
                .label = MarsitLabel(*options_, rates),
                .vector = Buffer(round_->vector_bytes()),
                .merge = MarsitMerge(*options_, values_, exact),
                .ends = round_},
               [this, mine = epoch_->load(), epoch = epoch_](Result<Buffer> exchanged) {
                 if (*epoch == mine) OnExchanged(std::move(exchanged));
               });
}

void MarsitExchangeImpl::OnExchanged(Result<Buffer> exchanged) {
  SHOAL_ASSERT_ON(*control_);
  if (!exchanged.ok()) return Fail(exchanged.status());
  state_ = State::kStaged;
  // Last: it may destroy this.
  std::exchange(done_, nullptr)(round_->TakeUpdate(std::move(*exchanged)));
}

void MarsitExchangeImpl::Commit() {
  SHOAL_ASSERT_ON(*control_);
  if (state_ != State::kStaged) return;
  // A listener of an exact round keeps its c, so the round was none to it; but the count is common.
  if (round_->exact()) {
    one_bit_rounds_ = 0;
    exact_requested_ = false;
  } else {
    ++one_bit_rounds_;
  }
  if (auto next = round_->TakeCompensation(); next != nullptr) {
    if (options_->reuse_memory && !abandoned_) spare_compensation_ = std::move(*compensation_);
    compensation_ = std::move(next);
    abandoned_ = false;
  }
  Reset();
}

void MarsitExchangeImpl::Abort() {
  SHOAL_ASSERT_ON(*control_);
  if (state_ == State::kStaged) return Reset();
  if (state_ != State::kIdle) Fail(Aborted("the exchange inside the stage group was aborted"));
}

void MarsitExchangeImpl::Fail(Status status) {
  abandoned_ = true;
  Reset();
  std::exchange(done_, nullptr)(std::move(status));  // last: it may destroy this
}

void MarsitExchangeImpl::Reset() {
  ++*epoch_;
  round_.reset();
  if (std::exchange(state_, State::kIdle) == State::kExchanging) ring_->Abort();
}

Status MarsitExchangeImpl::Restore(Buffer compensation, std::uint64_t one_bit_rounds) {
  SHOAL_ASSERT_ON(*control_);
  if (state_ != State::kIdle) return FailedPrecondition("a marsit round is under way");
  if (compensation.size() != values_ * sizeof(float)) {
    return InvalidArgument("marsit's memory has " + std::to_string(values_) + " values, not " +
                           std::to_string(compensation.size()) + " bytes");
  }
  const auto finite = [](float value) { return std::isfinite(value); };
  if (!std::ranges::all_of(compensation.floats(), finite)) {
    return InvalidArgument("marsit's memory has values that are not finite");
  }
  compensation_ = std::make_shared<Buffer>(std::move(compensation));
  abandoned_ = false;
  one_bit_rounds_ = one_bit_rounds;
  exact_requested_ = false;
  return Status::Ok();
}

}  // namespace

Result<std::unique_ptr<MarsitExchange>> NewMarsitExchange(const MarsitOptions& options,
                                                          std::size_t values, RingReduce* ring,
                                                          Executor* control) {
  SHOAL_RETURN_IF_ERROR(CheckMarsitOptions(options, values));
  return std::unique_ptr<MarsitExchange>(
      std::make_unique<MarsitExchangeImpl>(options, values, ring, control));
}

}  // namespace shoal::collective
