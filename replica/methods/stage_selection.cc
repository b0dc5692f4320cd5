#include "replica/methods/stage_selection.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>
#include <string>

namespace shoal::replica {
namespace {

std::optional<std::uint32_t> Stage(std::string_view text, std::uint32_t stages) {
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value >= stages) return {};
  return value;
}

}  // namespace

Result<StageSelection> ParseStageSelection(std::string_view text, std::uint32_t stages) {
  SHOAL_CHECK(stages >= 1);
  StageSelection selection;
  if (text == "auto") {
    selection.automatic = true;
    return selection;
  }
  selection.chosen.assign(stages, text == "all");
  if (text == "all" || text == "none") return selection;
  const auto error = [&](const std::string& what) {
    return InvalidArgument("stages '" + std::string(text.substr(0, 64)) + "': " + what +
                           "; write all, none, auto or stages from 0 to " +
                           std::to_string(stages - 1) + ", as 0 or 0-" +
                           std::to_string(stages - 1));
  };
  for (std::string_view rest = text;;) {
    const std::size_t comma = rest.find(',');
    const std::string_view part = rest.substr(0, comma);
    const std::size_t dash = part.find('-');
    const auto first = Stage(part.substr(0, dash), stages);
    const auto last = dash == std::string_view::npos ? first : Stage(part.substr(dash + 1), stages);
    if (!first || !last || *first > *last) {
      return error("'" + std::string(part.substr(0, 32)) + "' is no stage or range of stages");
    }
    for (std::uint32_t stage = *first; stage <= *last; ++stage) {
      if (selection.chosen[stage]) {
        return error("stage " + std::to_string(stage) + " is named twice");
      }
      selection.chosen[stage] = true;
    }
    if (comma == std::string_view::npos) return selection;
    rest = rest.substr(comma + 1);
  }
}

std::vector<bool> AutoStages(std::span<const StageExchange> stages) {
  double earliest = -std::numeric_limits<double>::infinity();
  for (const StageExchange& stage : stages) {
    earliest = std::max(earliest, stage.backward_end + std::min(stage.exact, stage.compressed));
  }
  std::vector<bool> chosen;
  for (const StageExchange& stage : stages) {
    chosen.push_back(stage.compressed < stage.exact && stage.backward_end + stage.exact > earliest);
  }
  return chosen;
}

}  // namespace shoal::replica
