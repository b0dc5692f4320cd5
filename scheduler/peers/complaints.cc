#include "scheduler/peers/complaints.h"

#include <algorithm>
#include <set>

namespace shoal::scheduler {

void ComplaintBook::Add(const PeerId& by, const PeerId& of, std::uint64_t generation,
                        TimePoint now) {
  std::erase_if(complaints_, [&](const Complaint& c) { return now - c.when > kComplaintAge; });
  const bool known = std::any_of(complaints_.begin(), complaints_.end(), [&](const Complaint& c) {
    return c.by == by && c.of == of && c.generation == generation;
  });
  if (known) return;
  if (complaints_.size() >= kComplaintsKept) complaints_.pop_front();
  complaints_.push_back({by, of, generation, now});
}

bool ComplaintBook::Confirms(const PeerId& by, const PeerId& of, std::uint64_t generation) {
  return std::erase_if(complaints_, [&](const Complaint& c) {
           return c.by == of && c.of == by && c.generation == generation;
         }) > 0;
}

std::size_t ComplaintBook::CountBy(const PeerId& by, TimePoint now) const {
  return static_cast<std::size_t>(std::count_if(
      complaints_.begin(), complaints_.end(),
      [&](const Complaint& c) { return c.by == by && now - c.when <= kComplaintAge; }));
}

std::size_t ComplaintBook::Accusers(const PeerId& of, TimePoint now) const {
  std::set<PeerId> accusers;
  for (const Complaint& c : complaints_) {
    if (c.of == of && now - c.when <= kComplaintAge) accusers.insert(c.by);
  }
  return accusers.size();
}

std::optional<PeerId> ComplaintBook::ToBlame(const PeerId& by, const PeerId& of,
                                             TimePoint now) const {
  if (Accusers(of, now) >= kAccusersMax) return of;
  if (CountBy(by, now) >= kUnconfirmedMax) return by;
  return std::nullopt;
}

void ComplaintBook::Forget(const PeerId& peer) {
  std::erase_if(complaints_, [&](const Complaint& c) { return c.by == peer || c.of == peer; });
}

}  // namespace shoal::scheduler
