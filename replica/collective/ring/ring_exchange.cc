#include "replica/collective/ring/ring_exchange.h"

#include <atomic>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "compression/simd/vector_kernels.h"
#include "replica/collective/exchange_result.h"

namespace shoal::collective {
namespace {

// Own values as they go into the sum.
class ScaledValues final : public RingEnds {
 public:
  ScaledValues(std::shared_ptr<const Buffer> values, float share)
      : values_(std::move(values)), share_(share) {}

  Status Open(std::size_t first, std::span<std::byte> own) override {
    const std::size_t n = own.size() / sizeof(float);
    std::memcpy(own.data(), values_->data() + first * sizeof(float), own.size());
    if (share_ != 1) compression::Scale(share_, n, reinterpret_cast<float*>(own.data()));
    return Status::Ok();
  }
  Status Close(std::size_t, std::size_t, std::span<std::byte>) override { return Status::Ok(); }

 private:
  const std::shared_ptr<const Buffer> values_;
  const float share_;
};

std::string LabelOf(const ExchangeRequest& request) {
  std::string label = "tensor=" + std::to_string(request.tensor) +
                      " combine=" + std::to_string(static_cast<int>(request.combine)) + " weights=";
  for (const std::uint64_t weight : request.weights) label += std::to_string(weight) + ",";
  return label;
}

// Thread: control.
class RingExchange final : public Exchange {
 public:
  RingExchange(const RingOptions& options, GroupChannel* channel, Executor* control,
               Executor* compute)
      : channel_(channel),
        control_(control),
        ring_(NewRingReduce(channel, control, compute, options)) {}
  ~RingExchange() override { *operation_ = 0; }

  void Start(ExchangeRequest request, std::function<void(Result<Buffer>)> done) override;
  void Abort() override { Finish(Aborted("the exchange inside the stage group was aborted")); }
  void Commit() override { SHOAL_CHECK(done_ == nullptr); }
  void Rollback() override { Abort(); }
  std::vector<std::size_t> Awaited() const override { return ring_->Awaited(); }
  ExchangeTraffic traffic() const override {
    const RingTraffic traffic = ring_->traffic();
    return {traffic.sent_bytes, traffic.received_bytes, traffic.sent_messages,
            traffic.received_messages};
  }

 private:
  Status CheckStart(const ExchangeRequest& request, std::uint64_t* all) const;
  void Finish(Result<Buffer> result);

  GroupChannel* const channel_;
  Executor* const control_;
  const std::unique_ptr<RingReduce> ring_;
  // Number of the round; a task of an earlier one sees a difference and ends. 0 after destruction.
  std::shared_ptr<std::atomic<std::uint64_t>> operation_ =
      std::make_shared<std::atomic<std::uint64_t>>(1);
  TaskScope replies_{control_};
  std::function<void(Result<Buffer>)> done_;  // null: no round runs
};

Status RingExchange::CheckStart(const ExchangeRequest& request, std::uint64_t* all) const {
  if (done_ != nullptr) return FailedPrecondition("an exchange is still running");
  if (request.weights.size() != channel_->size() || channel_->size() > kRingMembersMax) {
    return InvalidArgument("an exchange among " + std::to_string(channel_->size()) +
                           " members (at most 64) got " + std::to_string(request.weights.size()) +
                           " weights");
  }
  *all = 0;
  for (const std::uint64_t weight : request.weights) {
    if (weight > UINT64_MAX - *all) return InvalidArgument("the weights of an exchange overflow");
    *all += weight;
  }
  if (*all == 0) {
    return InvalidArgument("no member of the exchange has a weight, so nothing to sum");
  }
  if (request.values == nullptr || request.values->size() % sizeof(float) != 0) {
    return InvalidArgument("an exchange takes fp32 values");
  }
  if (request.op != CollectiveOp::kAllReduce || request.transform != nullptr ||
      !request.codec.empty() || !request.result_codec.empty()) {
    return InvalidArgument(
        "a ring adds up fp32 values and has no owners of shards; take the direct exchange");
  }
  return Status::Ok();
}

void RingExchange::Start(ExchangeRequest request, std::function<void(Result<Buffer>)> done) {
  SHOAL_ASSERT_ON(*control_);
  std::uint64_t all = 0;
  if (Status status = CheckStart(request, &all); !status.ok()) {
    return PostResult(&replies_, std::move(done), std::move(status));
  }
  done_ = std::move(done);
  RingRequest ring;
  ring.round = request.round;
  ring.label = LabelOf(request);
  ring.merge = NewSumMerge();
  for (std::size_t r = 0; r < request.weights.size(); ++r) {
    if (request.weights[r] != 0) ring.contributors |= 1ull << r;
  }
  const auto share = static_cast<float>(static_cast<double>(request.weights[channel_->rank()]) /
                                        static_cast<double>(all));
  ring.vector = Buffer(request.values->size());
  ring.ends = std::make_shared<ScaledValues>(
      std::move(request.values), request.combine == Combine::kWeightedMean ? share : 1.0F);
  ring_->Start(std::move(ring),
               [this, mine = operation_->load(), operation = operation_](Result<Buffer> result) {
                 if (*operation == mine) Finish(std::move(result));
               });
}

void RingExchange::Finish(Result<Buffer> result) {
  if (done_ == nullptr) return;
  ++*operation_;
  ring_->Abort();
  PostResult(&replies_, std::exchange(done_, nullptr), std::move(result));
}

}  // namespace

std::unique_ptr<Exchange> NewRingExchange(const RingOptions& options, GroupChannel* channel,
                                          Executor* control, Executor* compute) {
  return std::make_unique<RingExchange>(options, channel, control, compute);
}

}  // namespace shoal::collective
