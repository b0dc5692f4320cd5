// Human views of the JSON of shoald and shoal-scheduler.

#ifndef SHOAL_CLIENT_STATUS_VIEW_H_
#define SHOAL_CLIENT_STATUS_VIEW_H_

#include <string>

#include "common/status.h"

namespace shoal::client {

// What `shoal status` prints. Fields that are missing are left out, never guessed.
Result<std::string> PeerView(const std::string& status_json);
// What `shoal swarm status` prints.
Result<std::string> SwarmView(const std::string& status_json);
// What `shoal swarm audit` and `shoal swarm events` print of shoal-scheduler's output.
Result<std::string> AuditView(const std::string& audit_json);
Result<std::string> EventsView(const std::string& events_json);
// What `shoal netcheck` prints of a peer's status, for people and for programs.
Result<std::string> NetcheckView(const std::string& status_json);
Result<std::string> NetcheckJson(const std::string& status_json);
// What `shoal stats` prints.
Result<std::string> StatsView(const std::string& stats_json);
// What `shoal set` prints where nothing is to be set.
Result<std::string> SettingsView(const std::string& settings_json);
// What `shoal store COMMAND` prints of shoald's output.
Result<std::string> StoreView(const std::string& command, const std::string& output);

// `shoal swarm invites` and `shoal swarm members`, of the scheduler's answers.
Result<std::string> InvitesView(const std::string& invites_json);
Result<std::string> MembersView(const std::string& members_json);

}  // namespace shoal::client

#endif  // SHOAL_CLIENT_STATUS_VIEW_H_
