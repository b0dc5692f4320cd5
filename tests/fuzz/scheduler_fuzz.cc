// Foreign bytes to the scheduler: peers' messages, events of the log.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "scheduler/history/stored_event.h"
#include "scheduler/peers/peer_message_check.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace shoal::scheduler;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  if (const auto event = DecodeEvent(bytes); event.ok()) (void)EncodeEvent(*event);
  shoal::control::v1::PeerMessage message;
  if (message.ParseFromArray(data, static_cast<int>(size))) {
    (void)CheckPeerMessage(message, RunConfig{}).ok();
    (void)CheckAdmission(message.hello(), RunConfig{}, "secret").ok();
  }
  return 0;
}
