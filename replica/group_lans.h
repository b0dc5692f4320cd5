// The LANs of a part's group, by which a replica method with two levels exchanges. Pure.

#ifndef SHOAL_REPLICA_GROUP_LANS_H_
#define SHOAL_REPLICA_GROUP_LANS_H_

#include "replica/collective/direct/lan_groups.h"
#include "replica/methods/qsdp_options.h"
#include "replica/replica_step.h"

namespace shoal::replica {

// By member: as the plan says, or, where it names none, as the method does. Invalid argument if
// either does not fit the group. Thread: any.
Result<collective::LanGroups> LansOfGroup(const MemberConfig& config, const QsdpOptions& options,
                                          const ParameterGroup& part);

}  // namespace shoal::replica

#endif  // SHOAL_REPLICA_GROUP_LANS_H_
