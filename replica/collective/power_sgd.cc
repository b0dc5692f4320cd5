#include "replica/collective/power_sgd.h"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "compression/api/codec_spec.h"
#include "compression/api/sample_layout.h"
#include "compression/simd/kernels.h"
#include "compression/simd/vector_kernels.h"

namespace shoal::collective {
namespace {

constexpr char kName[] = "powersgd";
// Factors of gradients up to 2^96 are smaller, and no product of smaller ones overflows.
constexpr float kMeanMost = 0x1p116F;

compression::RandomKey Random(const FactorKey& key, std::uint64_t step) {
  compression::RandomKey random;
  random.seed = key.seed;
  random.step = step;
  random.micro_batch = key.tensor;
  random.boundary = key.generation;
  return random;
}

Status CheckFactor(std::span<const float> factor, std::size_t want, const char* name) {
  if (factor.size() != want) {
    return InvalidArgument(std::string(kName) + ": mean " + name + " has " +
                           std::to_string(factor.size()) + " values, expected " +
                           std::to_string(want) + "; all members must use the same rank");
  }
  const float most = std::bit_cast<float>(compression::AbsMaxBits(factor.data(), factor.size()));
  if (most <= kMeanMost) return Status::Ok();
  return InvalidArgument(std::string(kName) + ": mean " + name +
                         " holds a value that is not finite or too large for a gradient; abort the "
                         "exchange and try again");
}

// *sum = gradient + residual (empty: zeros), in its memory if that has the size. Returns the bits
// of the largest magnitude. Block by block, so that each value passes through the cache once.
std::uint32_t AddUp(std::span<const float> gradient, std::span<const float> residual,
                    std::vector<float>* sum) {
  const bool fits = sum->size() == gradient.size();
  if (!fits) {
    *sum = {};
    sum->reserve(gradient.size());
  }
  std::array<float, 2048> block;
  std::uint32_t most = 0;
  for (std::size_t at = 0; at < gradient.size(); at += block.size()) {
    const std::size_t n = std::min(block.size(), gradient.size() - at);
    if (residual.empty()) {
      std::copy_n(gradient.data() + at, n, block.data());
    } else {
      compression::AddVectors(residual.data() + at, gradient.data() + at, n, block.data());
    }
    most = std::max(most, compression::AbsMaxBits(block.data(), n));
    if (fits) {
      std::copy_n(block.data(), n, sum->data() + at);
    } else {
      sum->insert(sum->end(), block.data(), block.data() + n);  // without zeros written before
    }
  }
  return most;
}

// Both factors are copied: what is kept of them stays as it was averaged.
void WriteMean(std::span<const float> p, std::span<const float> q, const PowerSgdState& state,
               std::span<float> mean_gradient) {
  SHOAL_CHECK(mean_gradient.size() == state.shape.values());
  std::vector<float> left(p.begin(), p.end()), right(q.begin(), q.end());
  const int exponent = compression::ScaleFactors(left, right);
  compression::LowRankProduct(right, state.shape.columns, state.rank, exponent)
      .Write(left, mean_gradient);
}

}  // namespace

compression::MatrixShape MatrixOf(std::span<const std::size_t> dimensions) {
  SHOAL_CHECK(dimensions.size() >= 2);
  compression::MatrixShape shape{dimensions[0], 1};
  for (const std::size_t side : dimensions.subspan(1)) shape.columns *= side;
  return shape;
}

bool UsesFactors(const replica::PowerSgdOptions& options, std::span<const std::size_t> dimensions,
                 std::uint64_t step) {
  return step >= options.start && dimensions.size() >= 2 &&
         compression::WorthFactors(MatrixOf(dimensions), options.rank);
}

PowerSgdState NewPowerSgdState(compression::MatrixShape shape, std::uint32_t rank,
                               const FactorKey& key) {
  PowerSgdState state;
  state.shape = shape;
  state.rank = static_cast<std::uint32_t>(compression::RankFor(shape, rank));
  state.generation = key.generation;
  state.q = compression::RandomFactor(Random(key, 0), shape.columns, state.rank);
  return state;
}

PowerSgdState AtGeneration(PowerSgdState state, const FactorKey& key) {
  if (state.generation == key.generation) return state;
  PowerSgdState anew = NewPowerSgdState(state.shape, state.rank, key);
  anew.residual = std::move(state.residual);
  return anew;
}

Result<PowerSgdStep> PowerSgdStep::Begin(std::span<const float> gradient,
                                         const PowerSgdState& state, const FactorKey& key,
                                         std::uint64_t step, std::vector<float> spare) {
  SHOAL_CHECK(gradient.size() == state.shape.values());
  SHOAL_CHECK(state.residual.empty() || state.residual.size() == gradient.size());
  PowerSgdStep made;
  made.next_.shape = state.shape;
  made.next_.rank = state.rank;
  made.next_.generation = state.generation;
  made.next_.q = state.q;
  std::vector<float>& sum = made.next_.residual;
  sum = std::move(spare);
  SHOAL_RETURN_IF_ERROR(compression::CheckMagnitude(AddUp(gradient, state.residual, &sum),
                                                    compression::kLowRankMagnitudeMax, kName));
  const compression::RandomKey random = Random(key, step + 1);
  compression::OrthonormaliseColumns(made.next_.q, state.shape.columns, state.rank, &random);
  made.p_.resize(state.shape.rows * state.rank);
  compression::ProjectRows(sum, state.shape, made.next_.q, state.rank, 1, made.p_);
  return made;
}

PowerSgdStep PowerSgdStep::Listen(const PowerSgdState& state) {
  PowerSgdStep made;
  made.next_ = state;
  made.listens_ = true;
  made.p_.assign(state.shape.rows * state.rank, 0.0F);
  return made;
}

Result<std::vector<float>> PowerSgdStep::Continue(std::span<const float> mean_p) {
  SHOAL_RETURN_IF_ERROR(CheckFactor(mean_p, p_.size(), "P"));
  const compression::MatrixShape shape = next_.shape;
  p_.assign(mean_p.begin(), mean_p.end());
  compression::OrthonormaliseColumns(p_, shape.rows, next_.rank, nullptr);
  std::vector<float> q(shape.columns * next_.rank);
  if (listens_) return q;
  compression::ProjectColumns(next_.residual, shape, p_, next_.rank, 1, q);
  std::vector<float> left = p_, right = q;
  const int exponent = compression::ScaleFactors(left, right);
  compression::LowRankProduct(right, shape.columns, next_.rank, exponent)
      .Subtract(left, next_.residual);
  return q;
}

Result<PowerSgdState> PowerSgdStep::Finish(std::span<const float> mean_q,
                                           std::span<float> mean_gradient) {
  SHOAL_RETURN_IF_ERROR(CheckFactor(mean_q, next_.q.size(), "Q"));
  WriteMean(p_, mean_q, next_, mean_gradient);
  next_.q.assign(mean_q.begin(), mean_q.end());
  return std::move(next_);
}

}  // namespace shoal::collective
