#include "compression/device/device_stats.h"

#include <algorithm>
#include <vector>

#include "compression/codecs/coding_sample.h"

namespace shoal::compression {
namespace {

constexpr std::string_view kSumsSlot = "sums";
constexpr std::string_view kTokensSlot = "tokens";

// Blocks of a sample that can count.
std::size_t CountedBlocks(const DeviceContext& context, std::size_t block) {
  const std::size_t all = (context.shape.values() + block - 1) / block;
  return (all + kStatsShare - 1) / kStatsShare;
}

// Errors of the samples: one of each counted block to `sums`, once the queue was waited for.
Status RunErrors(const DeviceContext& context, std::size_t block,
                 std::span<const DeviceSample> samples, std::vector<LaneSums>* sums) {
  const std::size_t blocks = CountedBlocks(context, block);
  sums->resize(samples.size() * blocks);
  SHOAL_ASSIGN_OR_RETURN(std::byte* const at,
                         context.scratch->Reserve(kSumsSlot, sums->size() * sizeof(LaneSums)));
  auto job = JobOf<StatsJob>(context, samples.size());
  job.hidden = context.shape.hidden;
  job.block = static_cast<std::uint32_t>(block);
  job.share = static_cast<std::uint32_t>(kStatsShare);
  job.blocks = static_cast<std::uint32_t>(blocks);
  job.sums = reinterpret_cast<LaneSums*>(at);
  context.queue->Run(job);
  context.queue->ToHost(sums->data(), at, sums->size() * sizeof(LaneSums));
  return Status::Ok();
}

// The same of the changes of all tokens.
Status RunTokens(const DeviceContext& context, int bits, std::span<const DeviceSample> samples,
                 std::vector<TokenSums>* sums) {
  sums->resize(samples.size() * context.shape.tokens);
  SHOAL_ASSIGN_OR_RETURN(std::byte* const at,
                         context.scratch->Reserve(kTokensSlot, sums->size() * sizeof(TokenSums)));
  auto job = JobOf<TokenJob>(context, samples.size());
  job.bits = static_cast<std::uint8_t>(bits);
  job.hidden = context.shape.hidden;
  job.tokens = context.shape.tokens;
  job.sums = reinterpret_cast<TokenSums*>(at);
  context.queue->Run(job);
  context.queue->ToHost(sums->data(), at, sums->size() * sizeof(TokenSums));
  return Status::Ok();
}

// What was found of a sample, in the order of its values.
void AddErrors(std::span<const LaneSums> blocks, CodingStats* stats) {
  CodingStats sample;
  for (const LaneSums& sums : blocks) {
    CodingStats block;
    block.values = sums.values;
    block.errors = sums.errors;
    sample.Add(block);
  }
  stats->Add(sample);
}

void AddTokens(std::span<const TokenSums> tokens, TokenChanges* changes) {
  for (const TokenSums& token : tokens) changes->Count(token.change, token.values);
}

}  // namespace

Status CountOnDevice(const DeviceContext& context, int bits, std::size_t block,
                     std::span<const DeviceSample> samples, CodingStats* stats) {
  const bool based = std::any_of(samples.begin(), samples.end(),
                                 [](const DeviceSample& sample) { return sample.m != nullptr; });
  std::vector<LaneSums> errors;
  std::vector<TokenSums> tokens;
  SHOAL_RETURN_IF_ERROR(SendSamples(context, samples));
  SHOAL_RETURN_IF_ERROR(RunErrors(context, block, samples, &errors));
  if (based) SHOAL_RETURN_IF_ERROR(RunTokens(context, bits, samples, &tokens));
  SHOAL_RETURN_IF_ERROR(context.queue->Wait());
  const std::size_t of_errors = CountedBlocks(context, block);
  const std::size_t of_tokens = context.shape.tokens;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    AddErrors(std::span(errors).subspan(i * of_errors, of_errors), stats);
    if (samples[i].m == nullptr) continue;
    AddTokens(std::span(tokens).subspan(i * of_tokens, of_tokens), &stats->changes);
  }
  return Status::Ok();
}

}  // namespace shoal::compression
