#include "replica/collective/power_sgd_exchange.h"

#include <cstring>
#include <string>
#include <utility>

#include "common/task_scope.h"
#include "replica/collective/exchange_result.h"
#include "replica/collective/power_sgd_vector.h"

namespace shoal::collective {
namespace {

// Values of the tensors that one task takes, at least, but for the last of them.
constexpr std::size_t kTaskValues = std::size_t{1} << 20;

// The first tensors of the tasks, and the number of all.
std::vector<std::size_t> TasksOf(const PowerSgdLayout& layout) {
  std::vector<std::size_t> first = {0};
  std::size_t values = 0;
  for (std::size_t i = 0; i < layout.tensors().size(); ++i) {
    values += layout.tensors()[i].shape.values();
    if (values < kTaskValues && i + 1 < layout.tensors().size()) continue;
    first.push_back(i + 1);
    values = 0;
  }
  return first;
}

// A round that is under way; tasks of one stage work on different tensors.
struct Round {
  Round(std::shared_ptr<const PowerSgdLayout> of, const PowerSgdStepKey& key)
      : layout(std::move(of)), factors(*layout, key) {}

  const std::shared_ptr<const PowerSgdLayout> layout;
  PowerSgdRound factors;
  std::shared_ptr<const Buffer> values;          // null: listens
  std::shared_ptr<const PowerSgdMemory> memory;  // to build on
  PowerSgdMemory spare;                          // its residuals' memory is used again
  Buffer first, second;                          // agreed
  Buffer gradient;

  std::vector<float> Spare(const PowerSgdLayout::Tensor& tensor) {
    return tensor.rank == 0 ? std::vector<float>() : std::move(spare[tensor.factor].residual);
  }
};

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
        tasks_(TasksOf(*layout_)),
        memory_(std::make_shared<PowerSgdMemory>()),
        scope_(std::make_unique<TaskScope>(control)) {}

  void Start(ExchangeRequest request, std::function<void(Result<Buffer>)> done) override;
  void Abort() override;
  void Commit() override;
  void Rollback() override;
  void Recycle(Buffer result) override {
    SHOAL_ASSERT_ON(*control_);
    if (config_.reuse_memory) spare_gradient_ = std::move(result);
  }
  KeptErrors TakeErrors() override {
    SHOAL_ASSERT_ON(*control_);
    return {{}, std::exchange(memory_, std::make_shared<PowerSgdMemory>()), true};
  }
  void Adopt(KeptErrors kept) override {
    SHOAL_ASSERT_ON(*control_);
    if (kept.residuals == nullptr || kept.residuals->size() != layout_->factored()) return;
    for (const PowerSgdLayout::Tensor& tensor : layout_->tensors()) {
      if (tensor.rank > 0 && (*kept.residuals)[tensor.factor].shape != tensor.shape) return;
    }
    memory_ = std::move(kept.residuals);
    abandoned_ = true;  // a round that was given up may still read it
  }
  std::uint64_t FactorValues() const override {
    SHOAL_ASSERT_ON(*control_);
    return layout_->first_values() + layout_->second_values();
  }
  std::vector<std::size_t> Awaited() const override {
    SHOAL_ASSERT_ON(*control_);
    return exact_->Awaited();
  }
  ExchangeTraffic traffic() const override {
    SHOAL_ASSERT_ON(*control_);
    return traffic_;
  }

 private:
  // What a stage of a round does to one tensor; on `compute`.
  using Work = Status (*)(Round* round, std::size_t tensor);

  Status Check(const ExchangeRequest& request) const;
  std::uint64_t step() const { return (request_.round - 1) / config_.rounds_per_step; }
  void Begin();
  void Send(std::uint64_t round, Buffer values, std::function<void(Buffer)> then);
  void Continue();
  void Close();
  void ForTensors(const char* name, Work work, std::function<void()> then);
  void Finish(Result<Buffer> result);

  const PowerSgdExchangeConfig config_;
  Executor* const control_;
  Executor* const compute_;
  const std::unique_ptr<Exchange> exact_;
  const std::shared_ptr<const PowerSgdLayout> layout_;
  const std::vector<std::size_t> tasks_;     // first tensors, and the number of all
  std::shared_ptr<PowerSgdMemory> memory_;   // as of the last Commit; rounds only read it
  std::shared_ptr<PowerSgdMemory> pending_;  // of the finished round; null: as memory_
  bool abandoned_ = false;                   // work of a failed round may still read memory_
  PowerSgdMemory spare_;
  Buffer spare_gradient_;
  std::shared_ptr<Round> round_;  // that has factors
  std::size_t tasks_left_ = 0;    // of its stage
  ExchangeRequest request_;
  ExchangeTraffic traffic_;
  std::uint64_t operation_ = 0;  // grows with every Start and Abort; late answers are of another
  std::function<void(Result<Buffer>)> done_;  // null: no round runs
  std::unique_ptr<TaskScope> scope_;          // of the round
  TaskScope replies_{control_};
};

Status PowerSgdExchange::Check(const ExchangeRequest& request) const {
  if (done_ != nullptr) return FailedPrecondition("an exchange is still running");
  if (request.round == 0 || request.combine != Combine::kSum ||
      request.op != CollectiveOp::kAllReduce || request.transform != nullptr) {
    return InvalidArgument("powersgd adds up gradients of all for all, in rounds from 1 on");
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
  request.alike = request_.alike;  // factors of gradients that are alike are of like size, too
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

// Runs `work` for all tensors on compute, then `then` here, unless one of them failed.
void PowerSgdExchange::ForTensors(const char* name, Work work, std::function<void()> then) {
  tasks_left_ = tasks_.size() - 1;
  const auto after = std::make_shared<std::function<void()>>(std::move(then));
  for (std::size_t i = 0; i + 1 < tasks_.size(); ++i) {
    auto task = [round = round_, work, tensor = tasks_[i], end = tasks_[i + 1]]() mutable {
      for (; tensor < end; ++tensor) SHOAL_RETURN_IF_ERROR(work(round.get(), tensor));
      return Status::Ok();
    };
    scope_->Run(compute_, name, std::move(task), [this, after](Status status) {
      if (!status.ok()) return Finish(std::move(status));
      if (--tasks_left_ == 0) (*after)();
    });
  }
}

void PowerSgdExchange::Begin() {
  round_ =
      std::make_shared<Round>(layout_, PowerSgdStepKey{config_.seed, config_.generation, step()});
  if (request_.weights.at(config_.rank) != 0) round_->values = request_.values;
  round_->memory = memory_;
  round_->spare = std::exchange(spare_, {});
  round_->spare.resize(layout_->factored());
  const auto begin = [](Round* round, std::size_t tensor) {
    const auto values =
        round->values == nullptr ? std::span<const float>() : round->values->floats();
    return round->factors.Begin(tensor, values, *round->memory,
                                round->Spare(round->layout->tensors()[tensor]));
  };
  ForTensors("powersgd.begin", begin, [this] {
    Send(2 * request_.round, round_->factors.TakeFirst(), [this](Buffer first) {
      round_->first = std::move(first);
      Continue();
    });
  });
}

void PowerSgdExchange::Continue() {
  const auto go_on = [](Round* round, std::size_t tensor) {
    return round->factors.Continue(tensor, std::as_const(round->first).floats());
  };
  ForTensors("powersgd.continue", go_on, [this] {
    Send(2 * request_.round + 1, round_->factors.TakeSecond(), [this](Buffer second) {
      round_->second = std::move(second);
      Close();
    });
  });
}

void PowerSgdExchange::Close() {
  const std::size_t bytes = layout_->values() * sizeof(float);
  round_->gradient = std::exchange(spare_gradient_, {});
  if (round_->gradient.size() != bytes) round_->gradient = Buffer(bytes);
  const auto close = [](Round* round, std::size_t tensor) {
    return round->factors.Finish(tensor, std::as_const(round->first).floats(),
                                 std::as_const(round->second).floats(), round->gradient.floats());
  };
  ForTensors("powersgd.finish", close, [this] {
    pending_ = std::make_shared<PowerSgdMemory>(round_->factors.TakeMemory());
    Finish(std::move(round_->gradient));
  });
}

void PowerSgdExchange::Finish(Result<Buffer> result) {
  const auto done = std::exchange(done_, nullptr);
  if (done == nullptr) return;
  if (!result.ok()) {
    abandoned_ = true;
    scope_->Cancel();
  }
  request_.values.reset();
  round_.reset();
  done(std::move(result));
}

void PowerSgdExchange::Abort() {
  SHOAL_ASSERT_ON(*control_);
  if (done_ == nullptr) return;
  scope_->Cancel();
  ++operation_;
  abandoned_ = true;
  request_.values.reset();
  round_.reset();
  exact_->Abort();
  PostResult(&replies_, std::exchange(done_, nullptr),
             Aborted("the exchange inside the stage group was aborted"));
}

void PowerSgdExchange::Commit() {
  SHOAL_ASSERT_ON(*control_);
  SHOAL_CHECK(done_ == nullptr);
  exact_->Commit();
  if (pending_ == nullptr) return;
  if (config_.reuse_memory && !abandoned_) spare_ = std::move(*memory_);
  abandoned_ = false;
  memory_ = std::exchange(pending_, nullptr);
}

void PowerSgdExchange::Rollback() {
  SHOAL_ASSERT_ON(*control_);
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
