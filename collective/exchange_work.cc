#include "collective/exchange_work.h"

#include <utility>

namespace shoal::collective {
namespace {

// Keeps the random numbers of exchanges apart from those of boundaries under the same seed.
constexpr std::uint64_t kExchangeSeed = 0x7265706c69636173;
constexpr std::uint32_t kMembersMax = 64;

compression::RandomKey KeyOf(const RoundPlan& plan, Phase phase, std::size_t from,
                             std::size_t owner, std::size_t chunk) {
  compression::RandomKey key;
  key.seed = plan.seed ^ kExchangeSeed;
  key.step = plan.round;
  key.micro_batch = static_cast<std::uint32_t>(chunk);
  key.boundary = static_cast<std::uint32_t>(from * kMembersMax + owner);
  key.direction = static_cast<std::uint32_t>(phase);
  return key;
}

std::span<float> Cut(std::span<float> values, ValueRange range) {
  return values.subspan(range.begin, range.size());
}

void Add(std::span<float> into, std::span<const float> from) {
  for (std::size_t i = 0; i < into.size(); ++i) into[i] += from[i];
}

// values + error (empty: none).
Buffer SumOf(std::span<const float> values, const Buffer& error) {
  if (error.empty()) return Buffer::CopyOf(std::as_bytes(values));
  Buffer sum(values.size_bytes());
  float* const into = sum.floats().data();
  const float* const more = error.floats().data();
  for (std::size_t i = 0; i < values.size(); ++i) into[i] = values[i] + more[i];
  return sum;
}

// The message of `values`; `decoded`, if not empty, becomes what it decodes to.
Coded Seal(const RoundPlan& plan, Phase phase, std::size_t owner, std::size_t chunk,
           std::span<const float> values, std::span<float> decoded) {
  const ChunkCoder& coder =
      phase == Phase::kContribution ? *plan.contribution_coder : *plan.result_coder;
  const compression::RandomKey key = KeyOf(plan, phase, plan.rank, owner, chunk);
  Coded coded;
  coded.message = Buffer(kMessageHeaderBytes + coder.BytesMax(values.size()));
  const std::span<std::byte> payload = coded.message.bytes().subspan(kMessageHeaderBytes);
  const Result<std::size_t> bytes = coder.Encode(values, key, payload);
  if (!bytes.ok()) {
    coded.status = bytes.status();
    return coded;
  }
  coded.message.Truncate(kMessageHeaderBytes + *bytes);
  SealMessage(HeaderOf(plan, phase, plan.rank, owner, chunk), coded.message.bytes());
  if (!decoded.empty()) {
    coded.status = coder.Decode(std::as_const(coded.message).bytes().subspan(kMessageHeaderBytes),
                                key, decoded);
  }
  return coded;
}

Status Open(const RoundPlan& plan, Phase phase, std::size_t from, std::size_t owner,
            std::size_t chunk, const Buffer& message, std::span<float> values) {
  const std::string whose = " of member " + std::to_string(from) + " of the stage group";
  const ChunkCoder& coder =
      phase == Phase::kContribution ? *plan.contribution_coder : *plan.result_coder;
  Status status = CheckMessagePayload(message.bytes());
  if (status.ok()) {
    status = coder.Decode(message.bytes().subspan(kMessageHeaderBytes),
                          KeyOf(plan, phase, from, owner, chunk), values);
  }
  return status.ok() ? status : status.WithContext("a message" + whose);
}

// into = into - decoded, as the memory of what was not sent.
Buffer ErrorOf(Buffer input, std::span<const float> decoded) {
  const std::span<float> error = input.floats();
  for (std::size_t i = 0; i < error.size(); ++i) error[i] -= decoded[i];
  return input;
}

}  // namespace

MessageHeader HeaderOf(const RoundPlan& plan, Phase phase, std::size_t from, std::size_t owner,
                       std::size_t chunk) {
  const ValueRange range = plan.layout.chunk(owner, chunk);
  MessageHeader header;
  header.phase = phase;
  header.combine = plan.combine;
  header.chunk = static_cast<std::uint32_t>(chunk);
  header.method = plan.method;
  header.round = plan.round;
  header.epoch = plan.epoch;
  header.first_value = range.begin;
  header.values = static_cast<std::uint32_t>(range.size());
  header.tensor = plan.tensor;
  header.weight = phase == Phase::kContribution ? plan.weights[from] : plan.weight;
  return header;
}

std::size_t MessageBytesMax(const RoundPlan& plan, const MessageHeader& header) {
  const ChunkCoder& coder =
      header.phase == Phase::kContribution ? *plan.contribution_coder : *plan.result_coder;
  return kMessageHeaderBytes + coder.BytesMax(header.values);
}

Coded EncodeContribution(const RoundPlan& plan, std::size_t owner, std::size_t chunk,
                         std::span<const float> values, const Buffer& error) {
  const ValueRange range = plan.layout.chunk(owner, chunk);
  const std::span<const float> own = values.subspan(range.begin, range.size());
  if (!plan.keep_errors || plan.contribution_coder->exact()) {
    return Seal(plan, Phase::kContribution, owner, chunk, own, {});
  }
  Buffer input = SumOf(own, error);
  Buffer decoded(input.size());
  Coded coded = Seal(plan, Phase::kContribution, owner, chunk, std::as_const(input).floats(),
                     decoded.floats());
  if (coded.status.ok()) coded.error = ErrorOf(std::move(input), std::as_const(decoded).floats());
  return coded;
}

Coded SumChunk(const RoundPlan& plan, std::size_t chunk, std::span<const Buffer> contributions,
               const Buffer& error, std::span<float> result) {
  const ValueRange range = plan.layout.chunk(plan.rank, chunk);
  Buffer sum(range.size() * sizeof(float));
  Buffer part(sum.size());
  bool first = true;
  for (std::size_t from = 0; from < contributions.size(); ++from) {
    if (plan.weights[from] == 0) continue;
    const std::span<float> into = first ? sum.floats() : part.floats();
    Coded coded;
    coded.status =
        Open(plan, Phase::kContribution, from, plan.rank, chunk, contributions[from], into);
    if (!coded.status.ok()) return coded;
    if (plan.combine == Combine::kWeightedMean) {
      const auto share = static_cast<float>(static_cast<double>(plan.weights[from]) /
                                            static_cast<double>(plan.weight));
      for (float& value : into) value *= share;
    }
    if (!std::exchange(first, false)) Add(sum.floats(), into);
  }
  const bool keep = plan.keep_errors && !plan.result_coder->exact();
  if (keep && !error.empty()) Add(sum.floats(), error.floats());
  const std::span<float> agreed = Cut(result, range);
  Coded coded = Seal(plan, Phase::kResult, plan.rank, chunk, std::as_const(sum).floats(), agreed);
  if (coded.status.ok() && keep) coded.error = ErrorOf(std::move(sum), agreed);
  return coded;
}

Status DecodeResult(const RoundPlan& plan, std::size_t owner, std::size_t chunk,
                    const Buffer& message, std::span<float> result) {
  return Open(plan, Phase::kResult, owner, owner, chunk, message,
              Cut(result, plan.layout.chunk(owner, chunk)));
}

}  // namespace shoal::collective
