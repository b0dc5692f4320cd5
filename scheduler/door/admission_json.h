// What `shoal swarm invites` and `shoal swarm members` show, as JSON. Pure.

#ifndef SHOAL_SCHEDULER_DOOR_ADMISSION_JSON_H_
#define SHOAL_SCHEDULER_DOOR_ADMISSION_JSON_H_

#include <cstdint>
#include <string>

#include "scheduler/history/invite_book.h"
#include "scheduler/swarm/swarm_state.h"

namespace shoal::scheduler {

// One that was made just now: `line` is shown only then.
std::string InviteJson(const InviteId& invite, const std::string& line, std::uint64_t expires_ms);
std::string InvitesJson(const InviteBook& book, std::uint64_t now_ms);
// `view`: who is connected now, and in what state.
std::string MembersJson(const InviteBook& book, const RunView& view, std::uint64_t now_ms);

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_DOOR_ADMISSION_JSON_H_
