// ComplaintBook: who said that its link to whom broke, and whom to believe.
//
// Often one end of a link that breaks notices first, and the generation must end at once; but a
// peer may also lie. A complaint that the other end shares blames nobody. Of those that it does not
// share the book keeps an hour: who complains again and again is to blame, or who is complained of
// by several. Pure; thread: control.

#ifndef SHOAL_SCHEDULER_PEERS_COMPLAINTS_H_
#define SHOAL_SCHEDULER_PEERS_COMPLAINTS_H_

#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "common/clock.h"
#include "common/ids.h"

namespace shoal::scheduler {

inline constexpr std::size_t kUnconfirmedMax = 3;     // of one peer; more are not believed
inline constexpr std::size_t kAccusersMax = 2;        // so many different ones are believed
inline constexpr std::size_t kComplaintsKept = 1024;  // of all
inline constexpr Duration kComplaintAge = std::chrono::hours(1);

// A complaint that was not believed: the run goes on, if it can.
struct Doubt {
  std::string cause;
  std::uint64_t step = 0;  // in progress then
  TimePoint since{};
};

class ComplaintBook {
 public:
  // One that is there already, of the same generation, counts once.
  void Add(const PeerId& by, const PeerId& of, std::uint64_t generation, TimePoint now);
  // `by` complains of `of`: whether `of` had complained of it in this generation. Forgets that.
  bool Confirms(const PeerId& by, const PeerId& of, std::uint64_t generation);
  // How many different peers complain of it.
  std::size_t Accusers(const PeerId& of, TimePoint now) const;
  std::size_t CountBy(const PeerId& by, TimePoint now) const;
  // The end of a link to replace after the newest complaint about it, if any.
  std::optional<PeerId> ToBlame(const PeerId& by, const PeerId& of, TimePoint now) const;
  void Forget(const PeerId& peer);
  void Clear() { complaints_.clear(); }

 private:
  struct Complaint {
    PeerId by, of;
    std::uint64_t generation = 0;
    TimePoint when{};
  };
  std::deque<Complaint> complaints_;  // the oldest first
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_PEERS_COMPLAINTS_H_
