#include "model/partition.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <utility>

namespace shoal::model {
namespace {

// Most expensive stage first, so that pairs compare in the order of importance.
using CutValue = std::pair<double, double>;  // {largest cost, sum of squared costs}

Result<std::uint32_t> ParseLayer(std::string_view text, std::string_view whole) {
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    return InvalidArgument("cut list '" + std::string(whole) + "': '" + std::string(text) +
                           "' is not a layer number; write ranges like 0-2,2-4");
  }
  return value;
}

Result<StageRange> ParseRange(std::string_view text, std::string_view whole) {
  const std::size_t dash = text.find('-');
  if (dash == std::string_view::npos) {
    return InvalidArgument("cut list '" + std::string(whole) + "': '" + std::string(text) +
                           "' has no '-'; write ranges like 0-2,2-4");
  }
  StageRange range;
  SHOAL_ASSIGN_OR_RETURN(range.first_layer, ParseLayer(text.substr(0, dash), whole));
  SHOAL_ASSIGN_OR_RETURN(range.last_layer, ParseLayer(text.substr(dash + 1), whole));
  return range;
}

}  // namespace

PartCosts EstimatePartCosts(const storage::ModelConfig& config, std::uint32_t tokens) {
  const double hidden = config.hidden;
  const double matrices = 4 * hidden * hidden + 2 * hidden * config.inner;
  // Scores and weighted sums are computed whole, also above the causal diagonal.
  const double attention = 2 * hidden * static_cast<double>(tokens);
  PartCosts costs;
  costs.embedding = 3 * 2 * hidden;
  costs.layer = 3 * 2 * (matrices + attention);
  costs.head = 3 * 2 * hidden * static_cast<double>(config.vocabulary);
  return costs;
}

double StageCost(const storage::ModelConfig& config, const PartCosts& costs,
                 const StageRange& range) {
  double cost = costs.layer * (range.last_layer - range.first_layer);
  if (range.first_layer == 0) cost += costs.embedding;
  if (range.last_layer == config.layers) cost += costs.head;
  return cost;
}

Result<std::vector<StageRange>> EvenPartition(const storage::ModelConfig& config,
                                              std::uint32_t stages, std::uint32_t tokens) {
  if (stages == 0 || stages > config.layers) {
    return InvalidArgument("cannot cut " + std::to_string(config.layers) + " layers into " +
                           std::to_string(stages) + " stages: use 1 to " +
                           std::to_string(config.layers));
  }
  const PartCosts costs = EstimatePartCosts(config, tokens);
  const double infinity = std::numeric_limits<double>::infinity();
  const std::uint32_t layers = config.layers;
  // best[s][l]: layers [0, l) in s stages; from[s][l]: where the last of them starts.
  std::vector<std::vector<CutValue>> best(stages + 1,
                                          std::vector<CutValue>(layers + 1, {infinity, infinity}));
  std::vector<std::vector<std::uint32_t>> from(stages + 1, std::vector<std::uint32_t>(layers + 1));
  best[0][0] = {0, 0};
  for (std::uint32_t s = 1; s <= stages; ++s) {
    for (std::uint32_t last = s; last <= layers; ++last) {
      for (std::uint32_t first = s - 1; first < last; ++first) {
        const double cost = StageCost(config, costs, {first, last});
        const CutValue& before = best[s - 1][first];
        const CutValue value = {std::max(before.first, cost), before.second + cost * cost};
        if (value < best[s][last]) {
          best[s][last] = value;
          from[s][last] = first;
        }
      }
    }
  }
  std::vector<StageRange> ranges(stages);
  std::uint32_t last = layers;
  for (std::uint32_t s = stages; s > 0; --s) {
    ranges[s - 1] = {from[s][last], last};
    last = from[s][last];
  }
  return ranges;
}

Result<std::vector<StageRange>> ParsePartition(const storage::ModelConfig& config,
                                               std::string_view text) {
  std::vector<StageRange> ranges;
  std::uint32_t expected = 0;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    SHOAL_ASSIGN_OR_RETURN(const StageRange range,
                           ParseRange(text.substr(begin, end - begin), text));
    if (range.first_layer != expected || range.last_layer <= range.first_layer) {
      return InvalidArgument("cut list '" + std::string(text) + "': stage " +
                             std::to_string(ranges.size()) + " must start at layer " +
                             std::to_string(expected) + " and hold at least one layer");
    }
    expected = range.last_layer;
    ranges.push_back(range);
    begin = end + 1;
  }
  if (expected != config.layers) {
    return InvalidArgument("cut list '" + std::string(text) + "' ends at layer " +
                           std::to_string(expected) + ", the model has " +
                           std::to_string(config.layers) + " layers");
  }
  return ranges;
}

std::string FormatPartition(const std::vector<StageRange>& ranges) {
  std::string text;
  for (const StageRange& range : ranges) {
    if (!text.empty()) text += ',';
    text += std::to_string(range.first_layer) + '-' + std::to_string(range.last_layer);
  }
  return text;
}

}  // namespace shoal::model
