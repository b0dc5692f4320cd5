#include "replica/group_lans.h"

namespace shoal::replica {

Result<collective::LanGroups> LansOfGroup(const MemberConfig& config, const QsdpOptions& options,
                                          const ParameterGroup& part) {
  const std::size_t members = part.channel->size();
  const std::vector<std::uint32_t>& planned = part.shared() ? config.shared_lans : config.lans;
  if (!planned.empty()) {
    if (planned.size() != members) {
      return InvalidArgument("the plan has LANs of " + std::to_string(planned.size()) +
                             " peers for a group of " + std::to_string(members));
    }
    std::vector<std::size_t> ids;
    // Odd for those of the plan, even for who shares none.
    for (std::size_t i = 0; i < members; ++i) {
      ids.push_back(planned[i] > 0 ? 2 * std::size_t{planned[i]} + 1 : 2 * i);
    }
    return collective::NumberedGroups(ids);
  }
  SHOAL_ASSIGN_OR_RETURN(const std::vector<std::size_t> lans, options.LanOf(config.pipelines));
  return collective::GroupsOfPipelines(lans, part.copies);
}

}  // namespace shoal::replica
