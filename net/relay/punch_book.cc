#include "net/relay/punch_book.h"

#include <algorithm>

namespace shoal::net {

Status PunchBook::Ask(const PeerId& asker, const RelaySession& its, const PeerId& other,
                      const RelaySession& others, TimePoint now) {
  Expire(now);
  if (sides_.size() >= 2 * kPunchesMax || CountOf(asker) >= kPerPeerMax ||
      CountOf(other) >= kPerPeerMax) {
    return ResourceExhausted("too many punches are under way");
  }
  sides_[its] = {asker, others, "", now};
  sides_[others] = {other, its, "", now};
  return Status::Ok();
}

Result<std::optional<PunchBook::Met>> PunchBook::Come(const RelaySession& session,
                                                      const std::string& address, TimePoint now) {
  Expire(now);
  const auto side = sides_.find(session);
  if (side == sides_.end() || !side->second.address.empty()) {
    return NotFound("there is no such punch, or no more");
  }
  const auto other = sides_.find(side->second.other);
  if (other->second.address.empty()) {
    side->second.address = address;
    return std::optional<Met>();
  }
  Met met{other->first, other->second.address};
  sides_.erase(side);
  sides_.erase(other);
  return std::optional<Met>(std::move(met));
}

const PeerId* PunchBook::PeerOfSession(const RelaySession& session) const {
  const auto side = sides_.find(session);
  return side == sides_.end() ? nullptr : &side->second.key;
}

void PunchBook::Expire(TimePoint now) {
  std::erase_if(sides_, [now](const auto& each) { return now - each.second.begun_at > kPatience; });
}

std::size_t PunchBook::CountOf(const PeerId& key) const {
  return static_cast<std::size_t>(std::count_if(
      sides_.begin(), sides_.end(), [&key](const auto& each) { return each.second.key == key; }));
}

}  // namespace shoal::net
