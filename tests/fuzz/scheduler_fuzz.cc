// Foreign bytes to the scheduler: peers' messages, events of the log.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "scheduler/history/stored_event.h"
#include "scheduler/peers/peer_message_check.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace shoal::scheduler;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  if (const auto timed = DecodeTimedEvent(bytes); timed.ok()) {
    (void)StampEvent(EncodeEvent(timed->event), timed->at_ms.value_or(0));
  }
  shoal::control::v1::PeerMessage message;
  if (message.ParseFromArray(data, static_cast<int>(size))) {
    (void)CheckPeerMessage(message, RunConfig{}).ok();
    (void)CheckAdmission(message.hello(), RunConfig{}).ok();
  }
  return 0;
}
