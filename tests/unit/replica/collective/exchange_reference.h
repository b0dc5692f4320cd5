// What an exchange must give, in one process: chunk after chunk, with plain loops.

#ifndef SHOAL_TESTS_UNIT_REPLICA_COLLECTIVE_EXCHANGE_REFERENCE_H_
#define SHOAL_TESTS_UNIT_REPLICA_COLLECTIVE_EXCHANGE_REFERENCE_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "replica/collective/chunk_coders.h"
#include "replica/collective/exchange.h"

namespace shoal::collective {

class ExchangeReference {
 public:
  // `chunk`: values of a chunk, a multiple of the row.
  ExchangeReference(ExchangeConfig config, std::size_t members, std::size_t chunk)
      : config_(std::move(config)), chunk_(chunk), errors_(members), kept_(members) {
    const std::string result = config_.result_codec.empty() ? config_.codec : config_.result_codec;
    contribution_ = MakeChunkCoder(config_.codec, config_.row).value();
    result_ = MakeChunkCoder(result, config_.row).value();
  }

  // The values of all shards, also of a reduce-scatter.
  std::vector<float> Round(const ExchangeRequest& request,
                           const std::vector<std::vector<float>>& values) {
    const std::size_t n = values[0].size(), members = values.size();
    weights_ = request.weights;
    if (errors_[0].worker.size() != n) {
      for (Errors& own : errors_) own = {Values(n), Values(n)};
      kept_ = errors_;
    }
    double all = 0;
    for (const std::uint64_t weight : weights_) all += static_cast<double>(weight);
    std::vector<bool> moved(members), owners(members);
    for (std::size_t m = 0; m < members; ++m) owners[m] = weights_[m] != 0;
    for (std::size_t m = 0; m < members; ++m) {
      if (weights_[m] == 0) continue;
      const bool mean = request.combine == Combine::kWeightedMean;
      const auto part = mean ? static_cast<float>(static_cast<double>(weights_[m]) / all) : 1;
      moved[m] = Move(owners, part, &errors_[m]);
      Move(owners, part, &kept_[m]);
    }
    std::vector<float> agreed(n);
    const std::vector<std::size_t> borders = Borders(n);
    for (std::size_t owner = 0; owner < members; ++owner) {
      std::uint32_t number = 0;
      for (std::size_t at = borders[owner]; at < borders[owner + 1]; at += chunk_, ++number) {
        const std::size_t end = std::min(at + chunk_, borders[owner + 1]);
        std::vector<float> sum(end - at);
        bool first = true;
        if (request.op == CollectiveOp::kAllGather) {
          std::copy_n(values[owner].begin() + at, sum.size(), sum.begin());
        }
        for (std::size_t from = 0; from < members; ++from) {
          if (weights_[from] == 0 || request.op == CollectiveOp::kAllGather) continue;
          std::vector<float> part(values[from].begin() + at, values[from].begin() + end);
          part = Travel(*contribution_, part, config_.error_feedback, moved[from],
                        &errors_[from].worker, at, Key(request.round, 0, from, owner, number));
          for (std::size_t i = 0; i < part.size(); ++i) {
            if (request.combine == Combine::kWeightedMean) {
              part[i] *= static_cast<float>(static_cast<double>(weights_[from]) / all);
            }
            sum[i] = first ? part[i] : sum[i] + part[i];
          }
          first = false;
        }
        if (request.transform) {
          EXPECT_TRUE(request.transform(at, sum).ok());
        }
        if (request.op != CollectiveOp::kReduceScatter) {
          sum =
              Travel(*result_, sum, config_.result_feedback.value_or(config_.error_feedback), false,
                     &errors_[owner].server, at, Key(request.round, 1, owner, owner, number));
        }
        std::copy(sum.begin(), sum.end(), agreed.begin() + static_cast<std::ptrdiff_t>(at));
      }
    }
    return agreed;
  }

  // Memories on a part of the way that they went since the last time.
  void Commit(float factor = 1) {
    for (std::size_t m = 0; factor != 1 && m < errors_.size(); ++m) {
      GoBack(kept_[m].worker, factor, &errors_[m].worker);
      GoBack(kept_[m].server, factor, &errors_[m].server);
    }
    kept_ = errors_;
  }

  const std::vector<float>& worker_error(std::size_t member) { return errors_[member].worker; }
  // Of all owners.
  std::vector<float> server_error() {
    std::vector<float> all(errors_[0].server.size());
    for (const Errors& own : errors_) {
      for (std::size_t i = 0; i < all.size(); ++i) all[i] += own.server[i];
    }
    return all;
  }

 private:
  using Values = std::vector<float>;
  // Of one member; the server's are zeros but in its own shard.
  struct Errors {
    Values worker, server;
    std::vector<bool> owners = {};  // in the round that left them
    float part = 1;                 // of the member there
  };

  // With others who count, all that a member has not said is an error of what it says next.
  static bool Move(const std::vector<bool>& owners, float part, Errors* errors) {
    const bool moves =
        !errors->owners.empty() && (errors->owners != owners || errors->part != part);
    const float scale = errors->part / part, times = 1 / part;
    for (std::size_t i = 0; moves && i < errors->worker.size(); ++i) {
      const float scaled = errors->worker[i] * scale, answered = errors->server[i] * times;
      errors->worker[i] = scaled + answered;
      errors->server[i] = 0;
    }
    errors->owners = owners;
    errors->part = part;
    return moves;
  }
  static void GoBack(const std::vector<float>& before, float factor, std::vector<float>* after) {
    for (std::size_t i = 0; i < before.size(); ++i) {
      (*after)[i] = before[i] + ((*after)[i] - before[i]) * factor;
    }
  }
  // Where shards begin, in rows as near to equal parts among the contributors as rows allow.
  std::vector<std::size_t> Borders(std::size_t n) const {
    std::size_t owners = 0, seen = 0;
    for (const std::uint64_t weight : weights_) owners += weight != 0 ? 1 : 0;
    const std::size_t rows = (n + config_.row - 1) / config_.row;
    std::vector<std::size_t> borders{0};
    for (const std::uint64_t weight : weights_) {
      seen += weight != 0 ? 1 : 0;
      borders.push_back(std::min(n, (2 * rows * seen + owners) / (2 * owners) * config_.row));
    }
    return borders;
  }
  compression::RandomKey Key(std::uint64_t round, std::uint32_t phase, std::size_t from,
                             std::size_t owner, std::uint32_t chunk) const {
    // Owners beyond the first 64 come after all pairs of 128 members with those.
    const std::size_t pair = owner < 64 ? 64 * from + owner : 64 * 128 + 64 * from + owner - 64;
    return {config_.seed ^ 0x7265706c69636173u, round, chunk, static_cast<std::uint32_t>(pair),
            phase};
  }
  static std::vector<float> Travel(const ChunkCoder& coder, std::vector<float> values,
                                   bool feedback, bool moved, std::vector<float>* error,
                                   std::size_t at, const compression::RandomKey& key) {
    if (feedback || moved) {
      for (std::size_t i = 0; i < values.size(); ++i) values[i] += (*error)[at + i];
    }
    std::vector<std::byte> payload(coder.BytesMax(values.size()));
    const Result<std::size_t> bytes = coder.Encode(values, key, payload);
    EXPECT_TRUE(bytes.ok()) << bytes.status().ToString();
    payload.resize(*bytes);
    std::vector<float> decoded(values.size());
    const Status status = coder.Decode(payload, key, decoded);
    EXPECT_TRUE(status.ok()) << status.ToString();
    for (std::size_t i = 0; i < values.size(); ++i) {
      (*error)[at + i] = feedback ? values[i] - decoded[i] : 0;
    }
    return decoded;
  }

  const ExchangeConfig config_;
  const std::size_t chunk_;
  std::shared_ptr<const ChunkCoder> contribution_, result_;
  std::vector<std::uint64_t> weights_;
  std::vector<Errors> errors_, kept_;  // by member: now, as of the last Commit
};

}  // namespace shoal::collective

#endif  // SHOAL_TESTS_UNIT_REPLICA_COLLECTIVE_EXCHANGE_REFERENCE_H_
