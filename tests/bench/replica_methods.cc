#include "tests/bench/replica_methods.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "collective/exchange.h"
#include "collective/marsit_exchange.h"
#include "collective/ring_exchange.h"
#include "collective/ring_reduce.h"
#include "collective/shard_layout.h"
#include "compression/power_sgd_vector.h"
#include "compression/replica_method.h"

namespace shoal::bench {
namespace {

using collective::Combine;
using collective::Exchange;

constexpr std::uint64_t kSeed = 0x5eed;
constexpr std::size_t kMatrixRows = 4096, kMatrixColumns = 2048;

std::vector<std::uint64_t> Equal(std::size_t members) {
  return std::vector<std::uint64_t>(members, 1);
}

Result<std::unique_ptr<Exchange>> NewDirect(const ReplicaBenchOptions& options,
                                            collective::GroupChannel* channel, Executor* control,
                                            Executor* compute) {
  collective::ExchangeConfig config;
  config.codec = options.codec;
  config.result_codec = options.result_codec;
  config.error_feedback = options.feedback;
  config.row = compression::kReplicaRow;
  config.chunk_bytes = options.chunk_bytes.value_or(config.chunk_bytes);
  config.chunk_values = options.chunk_values.value_or(config.chunk_values);
  config.window_bytes = options.window_bytes.value_or(config.window_bytes);
  config.reuse_memory = true;
  config.seed = kSeed;
  config.early_bytes_max += 2 * options.values->size();
  return collective::NewDirectExchange(config, channel, control, compute);
}

class ExchangeRounds final : public ReplicaBenchMethod {
 public:
  ExchangeRounds(std::unique_ptr<Exchange> exchange, const ReplicaBenchOptions& options,
                 std::size_t members)
      : exchange_(std::move(exchange)), options_(options), members_(members) {}

  void Round(std::uint64_t round, std::function<void(Result<Buffer>)> done) override {
    exchange_->Start({round, 0, Equal(members_),
                      options_.mean ? Combine::kWeightedMean : Combine::kSum, options_.values},
                     [this, done = std::move(done)](Result<Buffer> result) {
                       if (result.ok()) exchange_->Commit();
                       done(std::move(result));
                     });
  }
  void Recycle(Buffer result) override { exchange_->Recycle(std::move(result)); }

 private:
  const std::unique_ptr<Exchange> exchange_;
  const ReplicaBenchOptions options_;
  const std::size_t members_;
};

// What qsdp does: gradients to the owners, who keep their sums until the norm of all is known, then
// what the owners make of them to all.
class OwnerRounds final : public ReplicaBenchMethod {
 public:
  OwnerRounds(std::unique_ptr<Exchange> exchange, const ReplicaBenchOptions& options,
              std::size_t members, std::size_t rank)
      : exchange_(std::move(exchange)),
        values_(options.values),
        first_(collective::Shards(values_->size() / sizeof(float), Equal(members), {},
                                  compression::kReplicaRow)[rank]
                   .begin),
        members_(members) {}

  void Round(std::uint64_t round, std::function<void(Result<Buffer>)> done) override {
    collective::ExchangeRequest request{2 * round, 0, Equal(members_), Combine::kSum, values_};
    request.flow = collective::Flow::kScatter;
    exchange_->Start(std::move(request), [this, round, done](Result<Buffer> sum) {
      if (!sum.ok()) return done(sum.status());
      Gather(2 * round + 1, std::make_shared<const Buffer>(std::move(*sum)), done);
    });
  }
  void Recycle(Buffer result) override { exchange_->Recycle(std::move(result)); }

 private:
  void Gather(std::uint64_t round, const std::shared_ptr<const Buffer>& sum,
              const std::function<void(Result<Buffer>)>& done) {
    collective::ExchangeRequest request{round, 1, Equal(members_)};
    request.flow = collective::Flow::kGather;
    request.count = values_->size() / sizeof(float);
    request.transform = [sum, own = first_](std::size_t first, std::span<float> values) {
      std::ranges::copy(sum->floats().subspan(first - own, values.size()), values.begin());
      return Status::Ok();
    };
    exchange_->Start(std::move(request), [this, done](Result<Buffer> result) {
      if (result.ok()) exchange_->Commit();
      done(std::move(result));
    });
  }

  const std::unique_ptr<Exchange> exchange_;
  const std::shared_ptr<const Buffer> values_;
  const std::size_t first_;  // of the own shard
  const std::size_t members_;
};

// One-bit rounds only: the exact one of every K is a round of `ring`.
class MarsitRounds final : public ReplicaBenchMethod {
 public:
  MarsitRounds(const ReplicaBenchOptions& options, collective::GroupChannel* channel,
               Executor* control, Executor* compute)
      : values_(options.values), everybody_((std::uint64_t{1} << channel->size()) - 1) {
    collective::RingOptions ring;
    ring.columns = options.columns;
    ring_ = NewRingReduce(channel, control, compute, ring);
    collective::MarsitOptions marsit;
    marsit.every = std::uint64_t{1} << 40;
    marsit.seed = kSeed;
    marsit.reuse_memory = true;
    const std::size_t values = values_->size() / sizeof(float);
    exchange_ = NewMarsitExchange(marsit, values, ring_.get(), control).value();
    Buffer zeros(values_->size());
    std::memset(zeros.data(), 0, zeros.size());
    SHOAL_CHECK(exchange_->Restore(std::move(zeros), 0).ok());
  }

  void Round(std::uint64_t round, std::function<void(Result<Buffer>)> done) override {
    exchange_->Start(round, everybody_, {.local = 1, .global = 0.01F}, values_,
                     [this, done = std::move(done)](Result<Buffer> update) {
                       if (update.ok()) exchange_->Commit();
                       done(std::move(update));
                     });
  }
  void Recycle(Buffer update) override { exchange_->Recycle(std::move(update)); }

 private:
  const std::shared_ptr<const Buffer> values_;
  const std::uint64_t everybody_;
  std::unique_ptr<collective::RingReduce> ring_;
  std::unique_ptr<collective::MarsitExchange> exchange_;
};

// As many matrices as fit, what is left as one matrix of fewer rows, and the rest as a vector.
std::vector<std::vector<std::size_t>> Matrices(std::size_t values) {
  std::vector<std::vector<std::size_t>> tensors;
  while (values >= kMatrixColumns) {
    const std::size_t rows = std::min(kMatrixRows, values / kMatrixColumns);
    tensors.push_back({rows, kMatrixColumns});
    values -= rows * kMatrixColumns;
  }
  if (values > 0) tensors.push_back({values});
  return tensors;
}

Result<std::shared_ptr<const Buffer>> Copied(std::span<const float> values) {
  return std::shared_ptr<const Buffer>(
      std::make_shared<Buffer>(Buffer::CopyOf(std::as_bytes(values))));
}

// A round is two exchanges of factors with work on the values before, between and after them.
class PowerSgdRounds final : public ReplicaBenchMethod {
 public:
  PowerSgdRounds(std::unique_ptr<Exchange> exchange, const ReplicaBenchOptions& options,
                 std::size_t members, Executor* control, Executor* compute)
      : exchange_(std::move(exchange)),
        members_(members),
        control_(control),
        compute_(compute),
        values_(options.values),
        layout_({.rank = options.rank, .start = 2, .stages = ""},
                Matrices(values_->size() / sizeof(float))) {}

  void Round(std::uint64_t round, std::function<void(Result<Buffer>)> done) override {
    done_ = std::move(done);
    OnCompute(
        [this, round]() -> Result<std::shared_ptr<const Buffer>> {
          SHOAL_ASSIGN_OR_RETURN(
              auto begun, compression::PowerSgdRound::Begin(layout_, values_->floats(), memory_,
                                                            {kSeed, 0, round + 2}));
          round_ = std::make_unique<compression::PowerSgdRound>(std::move(begun));
          return Copied(round_->first());
        },
        [this, round](std::shared_ptr<const Buffer> first) {
          Agree(2 * round, 0, std::move(first),
                [this, round](const Buffer& agreed) { Continue(round, agreed); });
        });
  }

 private:
  void Agree(std::uint64_t round, std::uint32_t tensor, std::shared_ptr<const Buffer> values,
             std::function<void(const Buffer&)> then) {
    exchange_->Start({round, tensor, Equal(members_), Combine::kSum, std::move(values)},
                     [this, then = std::move(then)](Result<Buffer> sum) {
                       if (!sum.ok()) return done_(sum.status());
                       exchange_->Commit();
                       agreed_ = std::make_shared<const Buffer>(std::move(*sum));
                       then(*agreed_);
                     });
  }

  void Continue(std::uint64_t round, const Buffer& agreed) {
    OnCompute(
        [this, &agreed]() -> Result<std::shared_ptr<const Buffer>> {
          SHOAL_RETURN_IF_ERROR(round_->Continue(agreed.floats()));
          return Copied(round_->second());
        },
        [this, round](std::shared_ptr<const Buffer> second) {
          Agree(2 * round + 1, 1, std::move(second),
                [this](const Buffer& sum) { FinishRound(sum); });
        });
  }

  void FinishRound(const Buffer& agreed) {
    OnCompute(
        [this, &agreed]() -> Result<std::shared_ptr<Buffer>> {
          auto gradient = std::make_shared<Buffer>(values_->size());
          SHOAL_ASSIGN_OR_RETURN(memory_, round_->Finish(agreed.floats(), gradient->floats()));
          round_.reset();
          return gradient;
        },
        [this](const std::shared_ptr<Buffer>& gradient) { done_(std::move(*gradient)); });
  }

  template <typename Work, typename Then>
  void OnCompute(Work work, Then then) {
    compute_->Post("bench.powersgd", [this, work, then] {
      auto result = std::make_shared<decltype(work())>(work());
      control_->Post("bench.powersgd", [this, result, then] {
        if (!result->ok()) return done_(result->status());
        then(std::move(**result));
      });
    });
  }

  const std::unique_ptr<Exchange> exchange_;
  const std::size_t members_;
  Executor* const control_;
  Executor* const compute_;
  const std::shared_ptr<const Buffer> values_;
  const compression::PowerSgdLayout layout_;
  compression::PowerSgdMemory memory_;
  std::unique_ptr<compression::PowerSgdRound> round_;
  std::shared_ptr<const Buffer> agreed_;
  std::function<void(Result<Buffer>)> done_;
};

}  // namespace

Result<std::unique_ptr<ReplicaBenchMethod>> NewReplicaBenchMethod(
    const ReplicaBenchOptions& options, collective::GroupChannel* channel, Executor* control,
    Executor* compute) {
  using Made = std::unique_ptr<ReplicaBenchMethod>;
  const std::size_t members = channel->size();
  if (options.kind == "marsit") {
    return Made(std::make_unique<MarsitRounds>(options, channel, control, compute));
  }
  if (options.kind == "ring") {
    collective::RingOptions ring;
    ring.chunk_bytes = options.ring_chunk_bytes;
    ring.early_bytes_max += options.values->size();
    return Made(std::make_unique<ExchangeRounds>(NewRingExchange(ring, channel, control, compute),
                                                 options, members));
  }
  SHOAL_ASSIGN_OR_RETURN(auto direct, NewDirect(options, channel, control, compute));
  if (options.kind == "powersgd") {
    return Made(
        std::make_unique<PowerSgdRounds>(std::move(direct), options, members, control, compute));
  }
  if (options.kind != "direct") return InvalidArgument("no kind '" + options.kind + "'");
  if (options.owners_keep) {
    return Made(
        std::make_unique<OwnerRounds>(std::move(direct), options, members, channel->rank()));
  }
  return Made(std::make_unique<ExchangeRounds>(std::move(direct), options, members));
}

}  // namespace shoal::bench
