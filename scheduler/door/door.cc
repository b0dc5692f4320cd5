#include "scheduler/door/door.h"

#include <utility>

#include "common/log.h"

namespace shoal::scheduler {

Status Door::Check(const PeerId& key, std::string_view certificate_pem, std::uint64_t now_ms) {
  const net::JoinTicket ticket = net::ReadTicket(certificate_pem).value_or(net::JoinTicket{});
  const auto invite = Read([&](const InviteBook& book) -> std::optional<net::InviteKey> {
    const net::InviteKey* const known = book.KeyOf(ticket.invite);
    return known == nullptr ? std::nullopt : std::optional(*known);
  });
  // For members, too: how long it takes tells nobody who is one.
  const bool holds = net::TicketHolds(ticket, invite ? &*invite : nullptr, key, scheduler_);
  if (own_key_ && key == scheduler_) return Status::Ok();
  return MayEnter(key, holds ? ticket.invite : InviteId{}, now_ms);
}

Status Door::MayEnter(const PeerId& key, const InviteId& invite, std::uint64_t now_ms) {
  MutexLock lock(mutex_);
  const Admittance admittance = book_.Judge(key, invite, now_ms);
  if (admittance == Admittance::kMember || admittance == Admittance::kOpen) return Status::Ok();
  return Refuse(key, invite, admittance);
}

Status Door::Refuse(const PeerId& key, const InviteId& invite, Admittance why) {
  const TimePoint now = SystemClock().Now();
  if (lines_.Any(now)) {
    lines_.Take(now);
    SHOAL_LOG(kWarning, "scheduler", "door.refused", {"peer", key.ToShort()},
              {"invite", invite.ToHex()}, {"reason", AdmittanceName(why)},
              {"unlogged", std::exchange(unlogged_, 0)});
  } else {
    ++unlogged_;
  }
  return PermissionDenied(
      "the invite is used up, expired, revoked or of another run, or the organiser removed this "
      "machine; ask the organiser for a new invite (`shoal swarm invite` makes one), then: shoal "
      "join shoal1_...");
}

}  // namespace shoal::scheduler
