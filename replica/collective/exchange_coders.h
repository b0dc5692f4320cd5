// What the messages of a round are coded by, from specs.
//
// Internal to collective/. Pure. Thread: any.

#ifndef SHOAL_REPLICA_COLLECTIVE_EXCHANGE_CODERS_H_
#define SHOAL_REPLICA_COLLECTIVE_EXCHANGE_CODERS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "common/status.h"
#include "replica/collective/chunk_coder.h"
#include "replica/collective/exchange.h"

namespace shoal::collective {

struct ExchangeCoders {
  std::shared_ptr<const ChunkCoder> contribution, result;
  std::uint64_t method = 0;  // of the headers

  // Most bytes of a message of so many values, header included.
  std::size_t MessageBytesMax(std::size_t values) const;
};

// `codec` and `result_codec` as of a request.
Result<ExchangeCoders> MakeExchangeCoders(const ExchangeConfig& config, const std::string& codec,
                                          const std::string& result_codec);

// Empty, or one from 0 to 1e15 per member.
Status CheckShares(std::span<const double> shares, std::size_t members);

// Coders of the codecs that the config names. An error if anything in it is wrong for so many
// members.
Result<ExchangeCoders> CheckedCoders(const ExchangeConfig& config, std::size_t members);

// Most values, a multiple of `row`, that fit a message; 0 if not even a row does.
std::size_t ChunkValues(const ExchangeConfig& config, const ExchangeCoders& coders);

// The number of values of a chunk of a vector: `chunk_values`, or two or four times as many. More
// than `chunk_values` must fit a message, and leave a shard chunks enough for all that overlaps.
// With few bits, most of a message's cost is not its bytes but calls, records of TLS and wake-ups.
std::size_t ChunkValuesOf(const ExchangeConfig& config, const ExchangeCoders& coders,
                          std::size_t chunk_values, std::size_t values, std::size_t members);

inline bool ResultFeedback(const ExchangeConfig& config) {
  return config.result_feedback.value_or(config.error_feedback);
}

}  // namespace shoal::collective

#endif  // SHOAL_REPLICA_COLLECTIVE_EXCHANGE_CODERS_H_
