#include "replica/collective/exchange_work.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <optional>
#include <utility>

#include "replica/methods/group_limits.h"

namespace shoal::collective {
namespace {

using compression::VectorOp;

// Keeps the random numbers of exchanges apart from those of boundaries under the same seed.
constexpr std::uint64_t kExchangeSeed = 0x7265706c69636173;

// Another number for each pair of members. Pairs below 64 come first and are numbered by 64, so
// that a small group draws the same numbers whatever the largest group is.
std::uint32_t PairOf(std::size_t from, std::size_t owner) {
  constexpr std::size_t kRow = 64;
  return static_cast<std::uint32_t>(from * kRow + owner % kRow +
                                    owner / kRow * replica::kGroupMembersMax * kRow);
}

compression::RandomKey KeyOf(const RoundPlan& plan, Phase phase, std::size_t from,
                             std::size_t owner, std::size_t chunk) {
  compression::RandomKey key;
  key.seed = plan.seed ^ kExchangeSeed;
  key.step = plan.round;
  key.micro_batch = static_cast<std::uint32_t>(chunk);
  key.boundary = PairOf(from, owner);
  key.direction = static_cast<std::uint32_t>(phase);
  return key;
}

// The part of the round's result that is `range` of the vector.
std::span<float> InResult(const RoundPlan& plan, ValueRange range, std::span<float> result) {
  return result.subspan(range.begin - plan.Wanted().begin, range.size());
}

// The message of values + errors.before, what it leaves of them in errors.next (empty: nowhere);
// `decoded`, if not empty, becomes what it decodes to.
Coded Seal(const RoundPlan& plan, Phase phase, std::size_t owner, std::size_t chunk,
           std::span<const float> values, ChunkErrors errors, std::span<float> decoded) {
  const ChunkCoder& coder =
      phase == Phase::kContribution ? *plan.contribution_coder : *plan.result_coder;
  const compression::RandomKey key = KeyOf(plan, phase, plan.rank, owner, chunk);
  Coded coded;
  coded.message = Buffer(kMessageHeaderBytes + coder.BytesMax(values.size()));
  const std::span<std::byte> payload = coded.message.bytes().subspan(kMessageHeaderBytes);
  const bool keeps = !errors.next.empty();
  const Result<std::size_t> bytes =
      keeps ? coder.EncodeKeeping(values, errors.before, key, payload, errors.next, decoded)
            : coder.Encode(values, key, payload);
  if (!bytes.ok()) {
    coded.status = bytes.status();
    return coded;
  }
  coded.message.Truncate(kMessageHeaderBytes + *bytes);
  SealMessage(HeaderOf(plan, phase, plan.rank, owner, chunk), coded.message.bytes());
  if (!keeps && !decoded.empty()) {
    coded.status = coder.Decode(std::as_const(coded.message).bytes().subspan(kMessageHeaderBytes),
                                key, decoded);
  }
  return coded;
}

std::string MessageOf(std::size_t member) {
  return "a message of member " + std::to_string(member) + " of the stage group";
}

// Decodes a message into `values`, or, with a `factor`, onto them (`first`: as the first to come).
Status Open(const RoundPlan& plan, Phase phase, std::size_t from, std::size_t owner,
            std::size_t chunk, const Buffer& message, std::span<float> values,
            std::optional<float> factor = {}, bool first = true) {
  const ChunkCoder& coder =
      phase == Phase::kContribution ? *plan.contribution_coder : *plan.result_coder;
  Status status = CheckMessagePayload(message.bytes());
  if (status.ok()) {
    const std::span<const std::byte> payload = message.bytes().subspan(kMessageHeaderBytes);
    const compression::RandomKey key = KeyOf(plan, phase, from, owner, chunk);
    status = factor ? coder.DecodeOnto(payload, key, *factor, first, values)
                    : coder.Decode(payload, key, values);
  }
  return status.ok() ? status : status.WithContext(MessageOf(from));
}

// That the contribution of `from` counts in the result.
float PartOf(const RoundPlan& plan, std::size_t from) {
  const double share = static_cast<double>(plan.weights[from]) / static_cast<double>(plan.weight);
  return plan.combine == Combine::kWeightedMean ? static_cast<float>(share) : 1;
}

Status TakeOwn(const RoundPlan& plan, std::span<const float> values, ValueRange range,
               std::span<float> out) {
  if (values.empty()) return plan.home().Zero(out);
  return plan.home().Update(VectorOp::kCopy, values.subspan(range.begin, range.size()), 1, out);
}

// Sums what the contributions to a chunk of the own shard decode to, in rank order.
Coded AddUp(const RoundPlan& plan, std::size_t chunk, std::span<const Buffer> contributions,
            std::span<float> sum) {
  bool first = true;
  for (std::size_t from = 0; from < contributions.size(); ++from) {
    if (plan.weights[from] == 0) continue;
    Status status = Open(plan, Phase::kContribution, from, plan.rank, chunk, contributions[from],
                         sum, PartOf(plan, from), std::exchange(first, false));
    if (status.ok()) continue;
    const bool of_message = OfMessage(status);
    return {std::move(status), {}, of_message ? from : plan.rank};
  }
  return {Status::Ok()};
}

// The first other member whose contribution cannot be one; where the own vectors say nothing, by
// the second largest of three or more. `values` is overwritten.
Coded FindSpoilt(const RoundPlan& plan, std::size_t chunk, std::span<const Buffer> contributions,
                 double largest, std::span<float> values) {
  std::vector<double> norms(contributions.size());
  for (std::size_t from = 0; from < contributions.size(); ++from) {
    if (plan.weights[from] == 0) continue;
    Status status = Open(plan, Phase::kContribution, from, plan.rank, chunk, contributions[from],
                         values, 1, true);
    if (!status.ok()) return {std::move(status)};  // of the device: it was read before
    const Result<double> norm = plan.check->Norm(values);
    if (!norm.ok()) return {norm.status()};
    norms[from] = *norm;
  }
  std::vector<double> sorted;
  std::ranges::copy_if(norms, std::back_inserter(sorted),
                       [](double n) { return std::isfinite(n); });
  std::ranges::sort(sorted, std::greater());
  const double others = sorted.size() > 2 && sorted[2] > 0 ? sorted[1] : 0;
  const double usual = largest > 0 ? largest : others;
  for (std::size_t from = 0; from < norms.size(); ++from) {
    if (from == plan.rank) continue;
    Status status = CheckContribution(norms[from], usual);
    if (!status.ok()) return {status.WithContext(MessageOf(from)), {}, from};
  }
  return {Status::Ok()};
}

// The sum; contributions are looked at one by one only where it shows that it takes it.
Coded CheckedSum(const RoundPlan& plan, std::size_t chunk, std::span<const Buffer> contributions,
                 std::span<float> sum) {
  Coded coded = AddUp(plan, chunk, contributions, sum);
  if (!coded.status.ok() || plan.check == nullptr) return coded;
  float least = 1;
  for (std::size_t from = 0; from < contributions.size(); ++from) {
    if (plan.weights[from] != 0) least = std::min(least, PartOf(plan, from));
  }
  const Result<double> norm = plan.check->Norm(sum);
  if (!norm.ok()) return {norm.status()};
  const double most = *norm / least;
  const Result<double> largest = plan.check->LargestFor(most, kContributionMost);
  if (!largest.ok()) return {largest.status()};
  if (most == 0 || (*largest > 0 && CheckContribution(most, *largest).ok())) return coded;
  Coded spoilt = FindSpoilt(plan, chunk, contributions, *largest, sum);
  return spoilt.status.ok() ? AddUp(plan, chunk, contributions, sum) : std::move(spoilt);
}

}  // namespace

float OwnPart(const RoundPlan& plan) { return PartOf(plan, plan.rank); }

MessageHeader HeaderOf(const RoundPlan& plan, Phase phase, std::size_t from, std::size_t owner,
                       std::size_t chunk) {
  const ValueRange range = plan.layout.chunk(owner, chunk);
  MessageHeader header;
  header.phase = phase;
  header.combine = plan.combine;
  header.op = plan.op;
  header.transformed = plan.transform != nullptr;
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
  if (plan.op == CollectiveOp::kReduceScatter && header.phase == Phase::kResult)
    return kMessageHeaderBytes;
  const ChunkCoder& coder =
      header.phase == Phase::kContribution ? *plan.contribution_coder : *plan.result_coder;
  return kMessageHeaderBytes + coder.BytesMax(header.values);
}

Result<std::span<const float>> ErrorsBefore(const RoundPlan& plan, const ErrorMemory* memory,
                                            const MemoryPlace& place, ValueRange chunk,
                                            Buffer* folded) {
  SHOAL_ASSIGN_OR_RETURN(const std::span<const float> errors,
                         WorkerError(plan.home(), memory, place, chunk, folded));
  if (folded->empty() || plan.check == nullptr) return errors;
  SHOAL_ASSIGN_OR_RETURN(const bool usual, plan.check->MayAdd(errors));
  return usual ? errors : std::span<const float>();
}

Coded EncodeContribution(const RoundPlan& plan, std::size_t owner, std::size_t chunk,
                         std::span<const float> values, ChunkErrors errors) {
  const ValueRange range = plan.layout.chunk(owner, chunk);
  const std::span<const float> own = values.subspan(range.begin, range.size());
  if (!errors.next.empty() || errors.before.empty()) {
    return Seal(plan, Phase::kContribution, owner, chunk, own, errors, {});
  }
  Buffer sum;
  const auto add = [&]() -> Status {
    SHOAL_ASSIGN_OR_RETURN(sum, plan.home().Allocate(own.size()));
    return plan.home().Sum(own, errors.before, sum.floats());
  };
  if (Status added = add(); !added.ok()) return {std::move(added), {}};
  return Seal(plan, Phase::kContribution, owner, chunk, std::as_const(sum).floats(), {}, {});
}

Coded SumChunk(const RoundPlan& plan, std::size_t chunk, std::span<const Buffer> contributions,
               std::span<const float> values, ChunkErrors errors, std::span<float> result) {
  const ValueRange range = plan.layout.chunk(plan.rank, chunk);
  const std::span<float> agreed = InResult(plan, range, result);
  Result<Buffer> sums = plan.home().Allocate(range.size());
  if (!sums.ok()) return {sums.status(), {}};
  const std::span<float> sum = sums->floats();
  Coded coded = plan.op == CollectiveOp::kAllGather ? Coded{TakeOwn(plan, values, range, sum)}
                                                    : CheckedSum(plan, chunk, contributions, sum);
  if (coded.status.ok() && plan.transform) coded.status = plan.transform(range.begin, sum);
  if (!coded.status.ok()) return coded;
  if (plan.op == CollectiveOp::kReduceScatter) {
    coded.status = plan.home().Update(VectorOp::kCopy, sum, 1, agreed);
    coded.message = Buffer(kMessageHeaderBytes);
    SealMessage(HeaderOf(plan, Phase::kResult, plan.rank, plan.rank, chunk), coded.message.bytes());
    return coded;
  }
  if (errors.next.empty() && !errors.before.empty()) {
    coded.status = plan.home().Update(VectorOp::kAdd, errors.before, 1, sum);
    if (!coded.status.ok()) return coded;
  }
  return Seal(plan, Phase::kResult, plan.rank, chunk, sum, errors, agreed);
}

Status DecodeResult(const RoundPlan& plan, std::size_t owner, std::size_t chunk,
                    const Buffer& message, std::span<float> result) {
  if (plan.op == CollectiveOp::kReduceScatter) return CheckMessagePayload(message.bytes());
  const std::span<float> values = InResult(plan, plan.layout.chunk(owner, chunk), result);
  SHOAL_RETURN_IF_ERROR(Open(plan, Phase::kResult, owner, owner, chunk, message, values));
  // Parameters, which a transform makes of sums, have no such bound.
  if (plan.check == nullptr || plan.transform) return Status::Ok();
  const Status status = plan.check->Answer(values);
  return status.ok() ? status : status.WithContext(MessageOf(owner));
}

}  // namespace shoal::collective
