#include "daemon/tools/synthetic_file.h"

#include <nlohmann/json.hpp>

#include <map>

#include "common/file.h"
#include "common/nesting.h"

namespace shoal::daemon {
namespace {

constexpr std::uint64_t kFileBytesMax = 1 << 16;
constexpr double kPartsMax = 1 << 20;

}  // namespace

Result<model::SyntheticOptions> ReadSyntheticFile(const std::string& path) {
  SHOAL_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kFileBytesMax));
  const auto json = ParseJson<nlohmann::json>(text);
  if (!json.is_object()) return InvalidArgument(path + " is no JSON object");
  model::SyntheticOptions options;
  double parts = 0;
  const std::map<std::string, double*> numbers = {
      {"forwardMs", &options.forward_ms}, {"backwardMs", &options.backward_ms},
      {"weightMs", &options.weight_ms},   {"weightParts", &parts},
      {"change", &options.change},        {"changeDecay", &options.change_decay}};
  for (const auto& [name, number] : numbers) {
    const auto found = json.find(name);
    if (found == json.end() || !found->is_number()) {
      return InvalidArgument(path + ": " + name + " is missing or no number");
    }
    *number = found->get<double>();
  }
  if (json.size() != numbers.size()) return InvalidArgument(path + " has a name too many");
  if (!(parts >= 0 && parts <= kPartsMax)) {
    return InvalidArgument(path + ": weightParts is no count");
  }
  options.weight_parts = static_cast<std::uint32_t>(parts);
  if (Status checked = model::CheckSyntheticOptions(options); !checked.ok()) {
    return checked.WithContext(path);
  }
  return options;
}

}  // namespace shoal::daemon
