#include "net/links/link_handshake.h"

#include <algorithm>
#include <chrono>

#include "net/control/control.h"

namespace shoal::net {
namespace {

constexpr Duration kBackoffFirst = std::chrono::milliseconds(200);
constexpr Duration kBackoffMax = std::chrono::seconds(2);

}  // namespace

bool MayFollow(LinkPhase from, LinkPhase to) {
  switch (to) {
    // The next attempt of an end that dials.
    case LinkPhase::kConnecting: return from <= LinkPhase::kGreeting;
    case LinkPhase::kGreeting: return from == LinkPhase::kConnecting;
    // An accepted stream has been greeted before the link gets it.
    case LinkPhase::kOpen: return from <= LinkPhase::kGreeting;
    case LinkPhase::kClosed: return from != LinkPhase::kClosed;
  }
  return false;
}

void LinkHandshake::Enter(LinkPhase phase) {
  SHOAL_CHECK(MayFollow(phase_, phase));
  phase_ = phase;
}

std::optional<std::uint64_t> LinkHandshake::Dial() {
  // The other end may have dialled sooner.
  if (attempt_running_ || phase_ != LinkPhase::kConnecting || target_.addresses.empty()) {
    return std::nullopt;
  }
  attempt_running_ = true;
  return ++attempts_;
}

bool LinkHandshake::Unanswered(std::uint64_t number) const {
  return phase_ == LinkPhase::kConnecting && attempt_running_ && number == attempts_;
}

Duration LinkHandshake::AttemptFailed(const Status& why) {
  attempt_running_ = false;
  Enter(LinkPhase::kConnecting);
  last_failure_ = why;
  return std::min<Duration>(kBackoffFirst * (1u << std::min<std::uint64_t>(attempts_ - 1, 5)),
                            kBackoffMax);
}

bulk::v1::LinkHello LinkHandshake::Hello() const {
  bulk::v1::LinkHello hello;
  hello.set_protocol(kProtocolVersion);
  hello.set_run(target_.run.value);
  hello.set_generation(target_.generation);
  hello.set_channel(target_.channel);
  return hello;
}

Status LinkHandshake::CheckAnswer(const bulk::v1::ChunkHeader& answer) {
  if (!answer.has_accept())
    return InvalidArgument("the first answer is not an answer to our hello");
  const bulk::v1::LinkAccept& accept = answer.accept();
  if (accept.code() == 0) return Status::Ok();
  const bool known = accept.code() > 0 && accept.code() <= 16;
  return Status(known ? static_cast<StatusCode>(accept.code()) : StatusCode::kUnknown,
                "refused by the other end: " + accept.error().substr(0, 1000));
}

Status LinkHandshake::Late(bool lower) const {
  const std::string where = "link '" + target_.channel + "' with peer " + target_.peer.ToShort();
  if (phase_ == LinkPhase::kGreeting) {
    return DeadlineExceeded(where + ": reached at " + address_ +
                            ", but it did not accept the link of generation " +
                            std::to_string(target_.generation) + " in time; its plan may differ");
  }
  if (last_failure_.code() == StatusCode::kPermissionDenied) {
    return DeadlineExceeded(where +
                            ": it is reached, but does not take this peer's key; this peer is not "
                            "in its plan, or not yet (" +
                            last_failure_.message() + ")");
  }
  if (!lower && last_failure_.ok()) {
    return DeadlineExceeded(where +
                            ": the peer did not connect in time; check that it runs and can "
                            "reach this machine's port");
  }
  return DeadlineExceeded(where + ": not reached in time (" +
                          (last_failure_.ok() ? "no answer" : last_failure_.message()) +
                          "); check that it runs, and that one of the two "
                          "ends can be reached; a relay helps where neither can");
}

}  // namespace shoal::net
