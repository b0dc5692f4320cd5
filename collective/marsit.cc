#include "collective/marsit.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

#include "collective/one_bit.h"

namespace shoal::collective {
namespace {

// Values that several passes touch while they are in the cache; whole words of signs.
constexpr std::size_t kBlock = 64 * kSignsPerWord;

std::span<std::uint64_t> Words(Buffer* buffer) {
  return {reinterpret_cast<std::uint64_t*>(buffer->data()), buffer->size() / sizeof(std::uint64_t)};
}

std::size_t MarksOf(const MarsitOptions& options) {
  std::size_t marks = 0;
  for (const RowRange& range : options.masked) marks += range.rows;
  return marks;
}

std::size_t OneBitBytes(const MarsitOptions& options, std::size_t values) {
  return (SignWords(values) + SignWords(MarksOf(options))) * sizeof(std::uint64_t);
}

// Calls visit(mark, first value, values) for every masked row.
template <typename Visit>
void ForEachRow(const MarsitOptions& options, Visit visit) {
  std::size_t mark = 0;
  for (const RowRange& range : options.masked) {
    for (std::size_t row = 0; row < range.rows; ++row) {
      visit(mark++, range.first + row * range.columns, range.columns);
    }
  }
}

void MarkTouchedRows(const MarsitOptions& options, std::span<const float> input,
                     std::span<std::uint64_t> marks) {
  ForEachRow(options, [&](std::size_t mark, std::size_t first, std::size_t count) {
    const auto row = input.subspan(first, count);
    const bool touched = std::ranges::any_of(row, [](float x) { return x != 0; });
    marks[mark / kSignsPerWord] |= static_cast<std::uint64_t>(touched) << mark % kSignsPerWord;
  });
}

bool AllFinite(std::span<const float> values) {
  return std::ranges::all_of(values, [](float value) { return std::isfinite(value); });
}

void Compensate(float rate, std::span<const float> input, std::span<const float> compensation,
                std::span<float> sum) {
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] = rate * input[i] + compensation[i];
}

Result<Buffer> CloseExactRound(Buffer sum, std::uint32_t contributors, bool contributes,
                               MarsitRound* round) {
  const float share = 1.0F / static_cast<float>(contributors);
  for (float& value : sum.floats()) value *= share;
  if (!AllFinite(sum.floats())) {
    return InvalidArgument(
        "the average of the members' compensated vectors is not finite; lower the learning rate");
  }
  if (contributes) {
    round->compensation = Buffer(sum.size());
    std::ranges::fill(round->compensation.floats(), 0.0F);
  }
  return sum;
}

}  // namespace

Status CheckMarsitOptions(const MarsitOptions& options, std::size_t values) {
  if (options.every == 0) return InvalidArgument("marsit needs every=1 or more");
  std::size_t end = 0;
  for (const RowRange& range : options.masked) {
    const bool inside = range.first >= end && range.first <= values && range.columns > 0 &&
                        range.rows <= (values - range.first) / range.columns;
    if (!inside) {
      return InvalidArgument("marsit's masked rows from value " + std::to_string(range.first) +
                             " overlap others or leave the vector of " + std::to_string(values) +
                             " values");
    }
    end = range.first + range.rows * range.columns;
  }
  return Status::Ok();
}

Status CheckMarsitRates(const MarsitRates& rates) {
  if (std::isfinite(rates.local) && std::isfinite(rates.global) && rates.global > 0) {
    return Status::Ok();
  }
  return InvalidArgument("marsit needs a finite local rate and a global rate above 0, not " +
                         std::to_string(rates.local) + " and " + std::to_string(rates.global));
}

double MarsitBitsPerValue(std::uint64_t every) {
  return (31.0 + static_cast<double>(every)) / static_cast<double>(every);
}

std::shared_ptr<const RingMerge> MarsitMerge(const MarsitOptions& options, std::size_t values,
                                             bool exact) {
  return exact ? NewSumMerge() : NewOneBitMerge(options.seed, values, MarksOf(options));
}

Result<MarsitRound> OpenMarsitRound(const MarsitOptions& options, const MarsitRates& rates,
                                    bool exact, std::span<const float> compensation,
                                    std::span<const float> input) {
  SHOAL_CHECK(compensation.size() == input.size());
  Buffer sum(input.size() * sizeof(float));
  MarsitRound round;
  round.exact = exact;
  round.rates = rates;
  if (exact) {
    Compensate(rates.local, input, compensation, sum.floats());
    if (!AllFinite(std::as_const(sum).floats())) {
      return InvalidArgument(
          "a value of this member's compensated vector is not finite; lower the learning rate or "
          "skip this step");
    }
    round.vector = std::move(sum);
    return round;
  }
  round.vector = Buffer(OneBitBytes(options, input.size()));
  const std::span<std::uint64_t> words = Words(&round.vector);
  for (std::size_t at = 0; at < input.size(); at += kBlock) {
    const std::size_t n = std::min(kBlock, input.size() - at);
    const std::span<float> y = sum.floats().subspan(at, n);
    Compensate(rates.local, input.subspan(at, n), compensation.subspan(at, n), y);
    if (Status packed = PackSigns(y, words.subspan(at / kSignsPerWord, SignWords(n)));
        !packed.ok()) {
      return packed.WithContext("the compensated vector from value " + std::to_string(at) + " on");
    }
  }
  const std::span<std::uint64_t> marks = words.subspan(SignWords(input.size()));
  std::ranges::fill(marks, 0);
  MarkTouchedRows(options, input, marks);
  round.compensation = std::move(sum);
  return round;
}

MarsitRound OpenMarsitListener(const MarsitOptions& options, const MarsitRates& rates, bool exact,
                               std::span<const float> compensation) {
  MarsitRound round;
  round.exact = exact;
  round.rates = rates;
  round.vector =
      Buffer(exact ? compensation.size_bytes() : OneBitBytes(options, compensation.size()));
  if (!round.vector.empty()) std::memset(round.vector.data(), 0, round.vector.size());
  round.compensation = Buffer::CopyOf(std::as_bytes(compensation));
  return round;
}

Result<Buffer> CloseMarsitRound(const MarsitOptions& options, Buffer exchanged,
                                std::uint32_t contributors, bool contributes, MarsitRound* round) {
  if (round->exact) {
    return CloseExactRound(std::move(exchanged), contributors, contributes, round);
  }
  const std::span<float> y = round->compensation.floats();
  SHOAL_CHECK(exchanged.size() == OneBitBytes(options, y.size()));
  const std::span<const std::uint64_t> words = Words(&exchanged);
  const std::size_t sign_words = SignWords(y.size());
  const std::span<const std::uint64_t> marks = words.subspan(sign_words);
  Buffer update(y.size_bytes());
  const std::span<float> g = update.floats();
  UnpackSigns(words.first(sign_words), round->rates.global, g);
  ForEachRow(options, [&](std::size_t mark, std::size_t first, std::size_t count) {
    const bool touched = (marks[mark / kSignsPerWord] >> mark % kSignsPerWord & 1) != 0;
    if (!touched) std::ranges::fill(g.subspan(first, count), 0.0F);
  });
  if (contributes) {
    for (std::size_t i = 0; i < y.size(); ++i) y[i] -= g[i];
  }
  return update;
}

}  // namespace shoal::collective
