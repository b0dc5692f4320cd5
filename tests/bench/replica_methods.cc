#include "tests/bench/replica_methods.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "replica/collective/channel_mux.h"
#include "replica/collective/exchange.h"
#include "replica/collective/power_sgd_exchange.h"
#include "replica/collective/ring/marsit_exchange.h"
#include "replica/collective/ring/ring_reduce.h"
#include "replica/collective/shard_layout.h"
#include "replica/methods/replica_method.h"

namespace shoal::bench {
namespace {

using collective::Combine;
using collective::Exchange;

constexpr std::uint64_t kSeed = 0x5eed;
constexpr std::size_t kMatrixRows = 4096, kMatrixColumns = 2048;
// As gradients of a run are cut (replica/gradient_buckets.h).
constexpr std::size_t kBucketValues = std::size_t{1} << 20, kBucketsMax = 64;

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
  config.row = replica::kReplicaRow;
  config.chunk_bytes = options.chunk_bytes.value_or(config.chunk_bytes);
  config.chunk_values = options.chunk_values.value_or(config.chunk_values);
  config.window_bytes = options.window_bytes.value_or(config.window_bytes);
  config.reuse_memory = true;
  config.seed = kSeed;
  config.early_bytes_max += 2 * options.values->size();
  return collective::NewDirectExchange(config, channel, control, compute);
}

using Done = ReplicaBenchMethod::Done;

Result<ReplicaBenchResult> OnePiece(Result<Buffer> result) {
  if (!result.ok()) return result.status();
  ReplicaBenchResult pieces;
  pieces.push_back(std::move(*result));
  return pieces;
}

class ExchangeRounds final : public ReplicaBenchMethod {
 public:
  ExchangeRounds(std::unique_ptr<Exchange> exchange, const ReplicaBenchOptions& options,
                 std::size_t members)
      : exchange_(std::move(exchange)), options_(options), members_(members) {}

  void Round(std::uint64_t round, Done done) override {
    exchange_->Start({round, 0, Equal(members_),
                      options_.mean ? Combine::kWeightedMean : Combine::kSum, options_.values},
                     [this, done = std::move(done)](Result<Buffer> result) {
                       if (result.ok()) exchange_->Commit();
                       done(OnePiece(std::move(result)));
                     });
  }
  void Recycle(ReplicaBenchResult result) override {
    exchange_->Recycle(std::move(result.front()));
  }

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
                                  replica::kReplicaRow)[rank]
                   .begin),
        members_(members) {}

  void Round(std::uint64_t round, Done done) override {
    collective::ExchangeRequest request{2 * round, 0, Equal(members_), Combine::kSum, values_};
    request.op = collective::CollectiveOp::kReduceScatter;
    exchange_->Start(std::move(request), [this, round, done](Result<Buffer> sum) {
      if (!sum.ok()) return done(sum.status());
      Gather(2 * round + 1, std::make_shared<const Buffer>(std::move(*sum)), done);
    });
  }
  void Recycle(ReplicaBenchResult result) override {
    exchange_->Recycle(std::move(result.front()));
  }

 private:
  void Gather(std::uint64_t round, const std::shared_ptr<const Buffer>& sum, const Done& done) {
    collective::ExchangeRequest request{round, 1, Equal(members_)};
    request.op = collective::CollectiveOp::kAllGather;
    request.count = values_->size() / sizeof(float);
    request.transform = [sum, own = first_](std::size_t first, std::span<float> values) {
      std::ranges::copy(sum->floats().subspan(first - own, values.size()), values.begin());
      return Status::Ok();
    };
    exchange_->Start(std::move(request), [this, done](Result<Buffer> result) {
      if (result.ok()) exchange_->Commit();
      done(OnePiece(std::move(result)));
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

  void Round(std::uint64_t round, Done done) override {
    exchange_->Start(round, everybody_, {.local = 1, .global = 0.01F}, values_,
                     [this, done = std::move(done)](Result<Buffer> update) {
                       if (update.ok()) exchange_->Commit();
                       done(OnePiece(std::move(update)));
                     });
  }
  void Recycle(ReplicaBenchResult update) override {
    exchange_->Recycle(std::move(update.front()));
  }

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

// The matrices in buckets that are exchanged at the same time, each with a channel of its own.
class PowerSgdRounds final : public ReplicaBenchMethod {
 public:
  static Result<std::unique_ptr<ReplicaBenchMethod>> New(const ReplicaBenchOptions& options,
                                                         collective::GroupChannel* channel,
                                                         Executor* control, Executor* compute) {
    std::unique_ptr<PowerSgdRounds> made(new PowerSgdRounds(channel->size()));
    const auto tensors = Matrices(options.values->size() / sizeof(float));
    const auto cuts = Cut(tensors, options.values->size() / sizeof(float));
    made->mux_ = std::make_unique<collective::ChannelMux>(
        channel, cuts.size() - 1, [raw = made.get()](const Status& status) { raw->Fail(status); });
    const std::byte* values = options.values->data();
    for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
      Bucket bucket;
      collective::PowerSgdExchangeConfig config;
      config.options = {.rank = options.rank, .start = 2, .stages = ""};
      config.seed = kSeed;
      config.rank = channel->rank();
      config.reuse_memory = true;
      config.tensors.assign(tensors.begin() + cuts[i], tensors.begin() + cuts[i + 1]);
      std::size_t bytes = 0;
      for (const auto& tensor : config.tensors) bytes += ValuesOf(tensor) * sizeof(float);
      bucket.values = std::make_shared<const Buffer>(Buffer::CopyOf({values, bytes}));
      values += bytes;
      SHOAL_ASSIGN_OR_RETURN(auto exact,
                             NewDirect(options, made->mux_->channel(i), control, compute));
      bucket.exchange = NewPowerSgdExchange(config, std::move(exact), control, compute);
      made->buckets_.push_back(std::move(bucket));
    }
    return std::unique_ptr<ReplicaBenchMethod>(std::move(made));
  }

  void Round(std::uint64_t round, Done done) override {
    done_ = std::move(done);
    left_ = buckets_.size();
    result_.clear();
    result_.resize(buckets_.size());
    for (std::size_t i = 0; i < buckets_.size(); ++i) {
      // Factors go from the third round on.
      buckets_[i].exchange->Start(
          {round + 2, 0, Equal(members_), Combine::kSum, buckets_[i].values},
          [this, i](Result<Buffer> sum) { OnSum(i, std::move(sum)); });
    }
  }

  void Recycle(ReplicaBenchResult result) override {
    for (std::size_t i = 0; i < buckets_.size(); ++i) {
      buckets_[i].exchange->Recycle(std::move(result[i]));
    }
  }

 private:
  struct Bucket {
    std::shared_ptr<const Buffer> values;
    std::unique_ptr<Exchange> exchange;
  };
  using Shape = std::vector<std::size_t>;

  explicit PowerSgdRounds(std::size_t members) : members_(members) {}

  static std::size_t ValuesOf(const Shape& shape) {
    std::size_t values = 1;
    for (const std::size_t side : shape) values *= side;
    return values;
  }
  // The first tensors of the buckets, and the number of all tensors.
  static std::vector<std::ptrdiff_t> Cut(const std::vector<Shape>& tensors, std::size_t values) {
    const std::size_t enough = std::max(kBucketValues, values / kBucketsMax + 1);
    std::vector<std::ptrdiff_t> cuts = {0};
    std::size_t waiting = 0;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      waiting += ValuesOf(tensors[i]);
      if (waiting < enough && i + 1 < tensors.size()) continue;
      cuts.push_back(static_cast<std::ptrdiff_t>(i + 1));
      waiting = 0;
    }
    return cuts;
  }

  void OnSum(std::size_t bucket, Result<Buffer> sum) {
    if (!sum.ok()) return Fail(sum.status());
    result_[bucket] = std::move(*sum);
    if (--left_ > 0 || !done_) return;
    for (const Bucket& one : buckets_) one.exchange->Commit();
    std::exchange(done_, nullptr)(std::move(result_));
  }
  void Fail(const Status& status) {
    if (done_) std::exchange(done_, nullptr)(status);
  }

  const std::size_t members_;
  std::unique_ptr<collective::ChannelMux> mux_;
  std::vector<Bucket> buckets_;
  std::size_t left_ = 0;
  ReplicaBenchResult result_;
  Done done_;
};

}  // namespace

Result<std::unique_ptr<ReplicaBenchMethod>> NewReplicaBenchMethod(
    const ReplicaBenchOptions& options, collective::GroupChannel* channel, Executor* control,
    Executor* compute) {
  using Made = std::unique_ptr<ReplicaBenchMethod>;
  const std::size_t members = channel->size();
  if (!options.step.empty()) {
    return NewStepRounds(options, Matrices(options.values->size() / sizeof(float)), channel,
                         control, compute);
  }
  if (options.kind == "marsit") {
    return Made(std::make_unique<MarsitRounds>(options, channel, control, compute));
  }
  if (options.kind == "powersgd") {
    return PowerSgdRounds::New(options, channel, control, compute);
  }
  SHOAL_ASSIGN_OR_RETURN(auto direct, NewDirect(options, channel, control, compute));
  if (options.kind != "direct") return InvalidArgument("no kind '" + options.kind + "'");
  if (options.owners_keep) {
    return Made(
        std::make_unique<OwnerRounds>(std::move(direct), options, members, channel->rank()));
  }
  return Made(std::make_unique<ExchangeRounds>(std::move(direct), options, members));
}

}  // namespace shoal::bench
