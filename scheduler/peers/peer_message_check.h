// Checks of what peers say, before anything of it is kept. Pure; thread: control.

#ifndef SHOAL_SCHEDULER_PEERS_PEER_MESSAGE_CHECK_H_
#define SHOAL_SCHEDULER_PEERS_PEER_MESSAGE_CHECK_H_

#include <string>
#include <string_view>

#include "common/status.h"
#include "proto/control.pb.h"
#include "scheduler/config/run_config.h"

namespace shoal::scheduler {

inline constexpr std::size_t kHeldLossesMax = 256;
inline constexpr std::size_t kNameCharactersMax = 64;
inline constexpr std::size_t kAddressesMax = 16;
inline constexpr std::size_t kAddressCharactersMax = 255;
inline constexpr std::size_t kDeviceCharactersMax = 256;
inline constexpr std::size_t kStatusBytesMax = 256 * 1024;
inline constexpr std::size_t kReasonCharactersMax = 512;
inline constexpr std::size_t kHashBytes = 32;

// Whether this peer may attend: protocol version, run. The message is for its owner.
Status CheckAdmission(const control::v1::Hello& hello, const RunConfig& config);

// Sizes, ranges and finite numbers of any message; invalid argument names the field. A loss that
// is not finite is allowed: that is an answer, not a malformed message.
Status CheckPeerMessage(const control::v1::PeerMessage& message, const RunConfig& config);

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_PEERS_PEER_MESSAGE_CHECK_H_
