// Checks the status that a peer sends in its heartbeats against the table of shoald's status fields
// (net/http/peer_status_fields.cc), before it is kept or shown. Pure.

#ifndef SHOAL_SCHEDULER_PEERS_PEER_STATUS_H_
#define SHOAL_SCHEDULER_PEERS_PEER_STATUS_H_

#include <cstddef>
#include <string>
#include <string_view>

#include "common/status.h"

namespace shoal::scheduler {

inline constexpr std::size_t kStatusDepthMax = 8;
inline constexpr std::size_t kStatusItemsMax = 1024;      // of a list; what is behind is dropped
inline constexpr std::size_t kStatusCharactersMax = 512;  // of a text; what is behind is dropped

// The status with the known fields only, each of its type: text without control characters, numbers
// that are finite. A field of another type is dropped; any may be null. An error: no JSON object,
// or nested too deep.
Result<std::string> FitPeerStatus(std::string_view json);

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_PEERS_PEER_STATUS_H_
