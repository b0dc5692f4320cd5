#include "collective/power_sgd_exchange.h"

#include <cstring>
#include <string>
#include <utility>

#include "collective/exchange_result.h"
#include "common/task_scope.h"
#include "compression/power_sgd_vector.h"

namespace shoal::collective {
namespace {

using compression::PowerSgdLayout;
using compression::PowerSgdMemory;
using compression::PowerSgdRound;
using compression::PowerSgdStepKey;

Buffer BufferOf(std::span<const float> values) { return Buffer::CopyOf(std::as_bytes(values)); }

// Thread: control.
class PowerSgdExchange final : public Exchange {
 public:
  PowerSgdExchange(const PowerSgdExchangeConfig& config, std::unique_ptr<Exchange> exact,
                   Executor* control, Executor* compute)
      : config_(config),
        control_(control),
        compute_(compute),
        exact_(std::move(exact)),
        layout_(std::make_shared<const PowerSgdLayout>(config.options, config.tensors)),
        memory_(std::make_shared<const PowerSgdMemory>()),
        scope_(std::make_unique<TaskScope>(control)) {}

  void Start(ExchangeRequest request, std::function<void(Result<Buffer>)> done) override;
  void Abort() override;
  void Commit() override;
  void Rollback() override;
  std::vector<std::size_t> Awaited() const override { return exact_->Awaited(); }
  ExchangeTraffic traffic() const override { return traffic_; }

 private:
  using Round = std::shared_ptr<PowerSgdRound>;

  Status Check(const ExchangeRequest& request) const;
  std::uint64_t step() const { return (request_.round - 1) / config_.rounds_per_step; }
  void Begin();
  void Send(std::uint64_t round, Buffer values, std::function<void(Buffer)> then);
  void Continue(Round round, Buffer first);
  void Close(Round round, Buffer second);
  void Finish(Result<Buffer> result);

  const PowerSgdExchangeConfig config_;
  Executor* const control_;
  Executor* const compute_;
  const std::unique_ptr<Exchange> exact_;
  const std::shared_ptr<const PowerSgdLayout> layout_;
  std::shared_ptr<const PowerSgdMemory> memory_;   // as of the last Commit
  std::shared_ptr<const PowerSgdMemory> pending_;  // of the finished round; null: as memory_
  ExchangeRequest request_;
  ExchangeTraffic traffic_;
  std::uint64_t operation_ = 0;  // grows with every Start and Abort; late answers are of another
  std::function<void(Result<Buffer>)> done_;  // null: no round runs
  std::unique_ptr<TaskScope> scope_;          // of the round
  TaskScope replies_{control_};
};

Status PowerSgdExchange::Check(const ExchangeRequest& request) const {
  if (done_ != nullptr) return FailedPrecondition("an exchange is still running");
  if (request.round == 0 || request.combine != Combine::kSum) {
    return InvalidArgument("powersgd adds up gradients, in rounds from 1 on");
  }
  if (config_.rank >= request.weights.size())
    return InvalidArgument("a weight per member is needed");
  const std::size_t bytes = layout_->values() * sizeof(float);
  if (request.values == nullptr || request.values->size() != bytes) {
    return InvalidArgument("powersgd was made for a vector of " +
                           std::to_string(layout_->values()) + " values");
  }
  return Status::Ok();
}

void PowerSgdExchange::Start(ExchangeRequest request, std::function<void(Result<Buffer>)> done) {
  SHOAL_ASSERT_ON(*control_);
  if (Status status = Check(request); !status.ok()) {
    return PostResult(&replies_, std::move(done), std::move(status));
  }
  request_ = std::move(request);
  done_ = std::move(done);
  traffic_ = {};
  ++operation_;
  scope_ = std::make_unique<TaskScope>(control_);
  if (!request_.exact && layout_->Active(step())) return Begin();
  Send(2 * request_.round, Buffer(), [this](Buffer sum) { Finish(std::move(sum)); });
}

// Exchanges `values`, or the request's own if there are none.
void PowerSgdExchange::Send(std::uint64_t round, Buffer values, std::function<void(Buffer)> then) {
  ExchangeRequest request;
  request.round = round;
  request.tensor = request_.tensor;
  request.weights = request_.weights;
  request.shares = request_.shares;
  request.values =
      values.empty() ? request_.values : std::make_shared<const Buffer>(std::move(values));
  exact_->Start(std::move(request),
                [this, mine = operation_, then = std::move(then)](Result<Buffer> sum) {
                  if (mine != operation_) return;
                  const ExchangeTraffic round_traffic = exact_->traffic();
                  traffic_.sent_bytes += round_traffic.sent_bytes;
                  traffic_.received_bytes += round_traffic.received_bytes;
                  traffic_.sent_messages += round_traffic.sent_messages;
                  traffic_.received_messages += round_traffic.received_messages;
                  if (!sum.ok()) return Finish(sum.status());
                  then(std::move(*sum));
                });
}

void PowerSgdExchange::Begin() {
  struct Begun {
    Round round;
    Buffer first;
  };
  const PowerSgdStepKey key{config_.seed, config_.generation, step()};
  const bool listens = request_.weights.at(config_.rank) == 0;
  auto begin = [layout = layout_, memory = memory_, values = request_.values, key,
                listens]() -> Result<Begun> {
    const auto gradient = listens ? std::span<const float>() : values->floats();
    SHOAL_ASSIGN_OR_RETURN(PowerSgdRound round,
                           PowerSgdRound::Begin(*layout, gradient, *memory, key));
    Begun begun{std::make_shared<PowerSgdRound>(std::move(round)), {}};
    begun.first = BufferOf(begun.round->first());
    return begun;
  };
  scope_->Run(compute_, "powersgd.begin", std::move(begin), [this](Result<Begun> begun) {
    if (!begun.ok()) return Finish(begun.status());
    Send(2 * request_.round, std::move(begun->first),
         [this, round = begun->round](Buffer first) { Continue(round, std::move(first)); });
  });
}

void PowerSgdExchange::Continue(Round round, Buffer first) {
  auto go_on = [round, first = std::move(first)]() -> Result<Buffer> {
    SHOAL_RETURN_IF_ERROR(round->Continue(first.floats()));
    return BufferOf(round->second());
  };
  scope_->Run(compute_, "powersgd.continue", std::move(go_on),
              [this, round](Result<Buffer> second) {
                if (!second.ok()) return Finish(second.status());
                Send(2 * request_.round + 1, std::move(*second),
                     [this, round](Buffer mean) { Close(round, std::move(mean)); });
              });
}

void PowerSgdExchange::Close(Round round, Buffer second) {
  struct Closed {
    Buffer gradient;
    PowerSgdMemory memory;
  };
  auto close = [layout = layout_, round, second = std::move(second)]() -> Result<Closed> {
    Closed closed{Buffer(layout->values() * sizeof(float)), {}};
    SHOAL_ASSIGN_OR_RETURN(closed.memory, round->Finish(second.floats(), closed.gradient.floats()));
    return closed;
  };
  scope_->Run(compute_, "powersgd.finish", std::move(close), [this](Result<Closed> closed) {
    if (!closed.ok()) return Finish(closed.status());
    pending_ = std::make_shared<const PowerSgdMemory>(std::move(closed->memory));
    Finish(std::move(closed->gradient));
  });
}

void PowerSgdExchange::Finish(Result<Buffer> result) {
  const auto done = std::exchange(done_, nullptr);
  if (done == nullptr) return;
  request_.values.reset();
  done(std::move(result));
}

void PowerSgdExchange::Abort() {
  if (done_ == nullptr) return;
  scope_->Cancel();
  ++operation_;
  request_.values.reset();
  exact_->Abort();
  PostResult(&replies_, std::exchange(done_, nullptr),
             Aborted("the exchange inside the stage group was aborted"));
}

void PowerSgdExchange::Commit() {
  SHOAL_CHECK(done_ == nullptr);
  exact_->Commit();
  if (pending_ != nullptr) memory_ = std::exchange(pending_, nullptr);
}

void PowerSgdExchange::Rollback() {
  Abort();
  exact_->Rollback();
  pending_.reset();
}

}  // namespace

std::unique_ptr<Exchange> NewPowerSgdExchange(const PowerSgdExchangeConfig& config,
                                              std::unique_ptr<Exchange> exact, Executor* control,
                                              Executor* compute) {
  return std::make_unique<PowerSgdExchange>(config, std::move(exact), control, compute);
}

}  // namespace shoal::collective
