#include "replica/collective/exchange_coders.h"

#include <algorithm>
#include <cmath>

#include "replica/collective/chunk_coders.h"
#include "replica/collective/exchange_message.h"
#include "replica/methods/group_limits.h"

namespace shoal::collective {
namespace {

constexpr std::size_t kChunkValuesMax = 1u << 30;
constexpr std::size_t kRowsMax = 1u << 20;  // of a chunk, a limit of the codecs
constexpr std::size_t kShardChunksMin = 20;

}  // namespace

std::size_t ExchangeCoders::MessageBytesMax(std::size_t values) const {
  return kMessageHeaderBytes + std::max(contribution->BytesMax(values), result->BytesMax(values));
}

Result<ExchangeCoders> MakeExchangeCoders(const ExchangeConfig& config, const std::string& codec,
                                          const std::string& result_codec) {
  ExchangeCoders coders;
  const std::string& spec = codec.empty() ? config.codec : codec;
  SHOAL_ASSIGN_OR_RETURN(coders.contribution, MakeChunkCoder(spec, config.row, config.home));
  coders.result = coders.contribution;
  const std::string& named = result_codec.empty() ? config.result_codec : result_codec;
  if (!named.empty()) {
    SHOAL_ASSIGN_OR_RETURN(coders.result, MakeChunkCoder(named, config.row, config.home));
  }
  std::string method = "direct " + coders.contribution->spec() + " " + coders.result->spec() +
                       " row=" + std::to_string(config.row) +
                       " feedback=" + std::to_string(config.error_feedback);
  if (const bool result = ResultFeedback(config); result != config.error_feedback) {
    method += " result_feedback=" + std::to_string(result);
  }
  if (!config.label.empty()) method += " " + config.label;
  coders.method = MethodId(method);
  return coders;
}

Status CheckShares(std::span<const double> shares, std::size_t members) {
  if (!shares.empty() && shares.size() != members) {
    return InvalidArgument("the shares of an exchange do not match its members");
  }
  for (const double share : shares) {
    if (!std::isfinite(share) || share < 0 || share > 1e15) {
      return InvalidArgument("a share of an exchange is a number from 0 to 1e15");
    }
  }
  return Status::Ok();
}

Result<ExchangeCoders> CheckedCoders(const ExchangeConfig& config, std::size_t members) {
  if (members == 0 || members > replica::kGroupMembersMax) {
    return InvalidArgument("a group has 1 to " + std::to_string(replica::kGroupMembersMax) +
                           " members, this one has " + std::to_string(members));
  }
  SHOAL_RETURN_IF_ERROR(CheckShares(config.shares, members));
  SHOAL_ASSIGN_OR_RETURN(ExchangeCoders coders, MakeExchangeCoders(config, {}, {}));
  if (ChunkValues(config, coders) == 0) {
    return InvalidArgument("a row of " + std::to_string(config.row) +
                           " values does not fit a message of " +
                           std::to_string(config.chunk_bytes) + " bytes");
  }
  return coders;
}

std::size_t ChunkValues(const ExchangeConfig& config, const ExchangeCoders& coders) {
  const std::size_t most = std::min({config.chunk_values, kChunkValuesMax}) / config.row;
  std::size_t rows = std::min(std::max<std::size_t>(most, 1), kRowsMax);
  while (rows > 0 && coders.MessageBytesMax(rows * config.row) > config.chunk_bytes) {
    rows -= std::max<std::size_t>(1, rows / 16);
  }
  return rows * config.row;
}

std::size_t ChunkValuesOf(const ExchangeConfig& config, const ExchangeCoders& coders,
                          std::size_t chunk_values, std::size_t values, std::size_t members) {
  for (const std::size_t times : {4, 2}) {
    const std::size_t larger = times * chunk_values;
    const bool fits = larger <= kChunkValuesMax && larger / config.row <= kRowsMax &&
                      coders.MessageBytesMax(larger) <= config.chunk_bytes;
    if (fits && values / members / kShardChunksMin >= larger) return larger;
  }
  return chunk_values;
}

}  // namespace shoal::collective
