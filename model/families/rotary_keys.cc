#include "model/families/rotary_keys.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>
#include <vector>

#include "storage/files/foreign_text.h"

namespace shoal::model {
namespace {

constexpr double kLargest = 1e12;
// At 1 all pairs would turn alike, and YaRN would divide by its logarithm.
constexpr double kThetaLeast = 2;

std::vector<double> PlainFrequencies(double theta, std::int64_t size) {
  std::vector<double> frequencies(static_cast<std::size_t>(size / 2));
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    frequencies[i] = std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(size));
  }
  return frequencies;
}

// Slow turns are stretched by `factor`, quick ones stay, between the two limits it is a mixture.
void ScaleLlama3(ConfigKeys* scaling, double factor, double trained, RotarySpec* rotary) {
  const double low = scaling->Number("low_freq_factor", 1, 1e-6, kLargest);
  const double high = scaling->Number("high_freq_factor", 4, 1e-6, kLargest);
  if (high <= low) return scaling->Fail("high_freq_factor must be above low_freq_factor");
  for (double& frequency : rotary->frequencies) {
    const double turns = trained * frequency / (2 * std::numbers::pi);
    const double kept = std::clamp((turns - low) / (high - low), 0.0, 1.0);
    frequency *= kept + (1 - kept) / factor;
  }
}

void ScaleYarn(ConfigKeys* scaling, double factor, double trained, double theta, std::int64_t size,
               RotarySpec* rotary) {
  const double fast = scaling->Number("beta_fast", 32, 1e-6, kLargest);
  const double slow = scaling->Number("beta_slow", 1, 1e-6, kLargest);
  const bool whole = scaling->Flag("truncate", true);
  if (fast < slow) return scaling->Fail("beta_fast must not be below beta_slow");
  rotary->scaling.fast = fast;
  rotary->scaling.slow = slow;
  rotary->scaling.whole = whole;
  const auto magnitude = [&](double weight) {
    return factor <= 1 ? 1.0 : 0.1 * weight * std::log(factor) + 1;
  };
  rotary->factor = magnitude(1);
  if (scaling->Has("mscale") && scaling->Has("mscale_all_dim")) {
    rotary->factor = magnitude(scaling->Number("mscale", 1, 0, kLargest)) /
                     magnitude(scaling->Number("mscale_all_dim", 1, 0, kLargest));
  }
  rotary->factor = scaling->Number("attention_factor", rotary->factor, 1e-6, kLargest);
  // The pair that makes so many turns within the tokens that the model was trained with.
  const auto pair_of = [&](double turns) {
    return static_cast<double>(size) * std::log(trained / (turns * 2 * std::numbers::pi)) /
           (2 * std::log(theta));
  };
  double first = pair_of(fast), last = pair_of(slow);
  if (whole) first = std::floor(first), last = std::ceil(last);
  first = std::max(first, 0.0);
  last = std::min(last, static_cast<double>(size - 1));
  if (first == last) last += 0.001;
  for (std::size_t i = 0; i < rotary->frequencies.size(); ++i) {
    const double stretched =
        std::clamp((static_cast<double>(i) - first) / (last - first), 0.0, 1.0);
    rotary->frequencies[i] *= (1 - stretched) + stretched / factor;
  }
}

void Scale(ConfigKeys* scaling, const std::string& kind, double theta, std::int64_t size,
           std::uint32_t positions, RotarySpec* rotary) {
  if (kind == "default") return;
  const double factor = scaling->Number("factor", 1, 1e-6, kLargest);
  rotary->scaling = {kind, factor};
  if (kind == "linear") {
    for (double& frequency : rotary->frequencies) frequency /= factor;
    return;
  }
  if (kind != "llama3" && kind != "yarn") {
    return scaling->Fail("rope scaling " + storage::Quoted(kind) +
                         " is not supported; supported are default, linear, llama3 and yarn");
  }
  const double trained = scaling->Count("original_max_position_embeddings", 1U << 28, positions);
  rotary->scaling.trained = trained;
  if (kind == "llama3") return ScaleLlama3(scaling, factor, trained, rotary);
  ScaleYarn(scaling, factor, trained, theta, size, rotary);
}

}  // namespace

RotarySpec ReadScaledRotary(ConfigKeys* scaling, RotaryBase base) {
  const double theta = scaling->Number("rope_theta", base.theta, kThetaLeast, kLargest);
  const double partial = scaling->Number("partial_rotary_factor", base.partial, 0, 1);
  // Older files say "type".
  const std::string kind = scaling->Text("rope_type", scaling->Text("type", "default"));
  RotarySpec rotary;
  const auto size = static_cast<std::int64_t>(static_cast<double>(base.head_size) * partial);
  if (size < 2 || size % 2 != 0) {
    scaling->Fail("rotary positions would turn " + std::to_string(size) + " of a head's " +
                  std::to_string(base.head_size) + " values; it must be an even number");
    return rotary;
  }
  rotary.frequencies = PlainFrequencies(theta, size);
  rotary.theta = theta;
  Scale(scaling, kind, theta, size, base.positions, &rotary);
  return rotary;
}

RotarySpec ReadRotary(ConfigKeys* keys, RotaryBase base) {
  base.theta = keys->Number("rope_theta", base.theta, kThetaLeast, kLargest);
  base.partial = keys->Number("partial_rotary_factor", base.partial, 0, 1);
  ConfigKeys scaling =
      keys->Object(keys->Has("rope_parameters") ? "rope_parameters" : "rope_scaling");
  return ReadScaledRotary(&scaling, base);
}

}  // namespace shoal::model
