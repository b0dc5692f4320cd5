#include "scheduler/peers/complaints.h"

#include <algorithm>
#include <set>

namespace shoal::scheduler {

void ComplaintBook::Add(const PeerId& by, const PeerId& of, std::uint64_t generation, TimePoint now,
                        bool refused) {
  std::erase_if(complaints_, [&](const Complaint& c) { return now - c.when > kComplaintAge; });
  const auto known = std::ranges::find_if(complaints_, [&](const Complaint& c) {
    return c.by == by && c.of == of && c.generation == generation;
  });
  if (known != complaints_.end()) {
    known->refused = known->refused || refused;
    return;
  }
  if (complaints_.size() >= kComplaintsKept) complaints_.pop_front();
  complaints_.push_back({by, of, generation, now, refused});
}

bool ComplaintBook::Confirms(const PeerId& by, const PeerId& of, std::uint64_t generation) {
  const auto shared = [&](const Complaint& c) {
    return c.by == of && c.of == by && c.generation == generation;
  };
  const bool confirms = std::ranges::any_of(complaints_, shared);
  std::erase_if(complaints_, [&](const Complaint& c) { return shared(c) && !c.refused; });
  return confirms;
}

std::size_t ComplaintBook::CountBy(const PeerId& by, TimePoint now) const {
  return static_cast<std::size_t>(std::count_if(
      complaints_.begin(), complaints_.end(),
      [&](const Complaint& c) { return c.by == by && now - c.when <= kComplaintAge; }));
}

std::size_t ComplaintBook::Accusers(const PeerId& of, bool refused, TimePoint now) const {
  std::set<PeerId> accusers;
  for (const Complaint& c : complaints_) {
    const bool counts = c.refused || !refused;
    if (c.of == of && counts && now - c.when <= kComplaintAge) accusers.insert(c.by);
  }
  return accusers.size();
}

bool ComplaintBook::SeveralRefuse(const PeerId& of, TimePoint now) const {
  return Accusers(of, true, now) >= kAccusersMax;
}

std::optional<PeerId> ComplaintBook::ToBlame(const PeerId& by, const PeerId& of,
                                             TimePoint now) const {
  if (Accusers(of, false, now) >= kAccusersMax) return of;
  if (CountBy(by, now) >= kUnconfirmedMax) return by;
  return std::nullopt;
}

void ComplaintBook::Forget(const PeerId& peer) {
  std::erase_if(complaints_, [&](const Complaint& c) { return c.by == peer || c.of == peer; });
}

}  // namespace shoal::scheduler
