#include "net/admission/connection_book.h"

#include <algorithm>
#include <utility>

#include "common/process/descriptor_limit.h"
#include "common/status.h"

namespace shoal::net {
namespace {

// The other half is for files, other sockets and connections that this process makes itself.
ConnectionLimits Complete(ConnectionLimits limits) {
  if (limits.all == 0) limits.all = std::max<std::size_t>(16, DescriptorLimit() / 2);
  if (limits.strangers == 0) {
    limits.strangers = std::clamp<std::size_t>(limits.all / 4, 1, ConnectionLimits::kStrangersMax);
  }
  return limits;
}

}  // namespace

ConnectionBook::ConnectionBook(const ConnectionLimits& limits) : limits_(Complete(limits)) {
  handshakes_of_all_ = limits_.handshakes_of_all;
  SHOAL_CHECK(limits_.strangers > 0 && limits_.strangers < limits_.all &&
              limits_.strangers_per_line > 0);
}

ConnectionBook::Arrival ConnectionBook::Arrive(const TcpEndpoint& other_end, TimePoint now) {
  Arrival arrival;
  const Line line = LineOf(other_end);
  LineState* const state = StateOf(line, now);
  if (state == nullptr || full() || !TakeHandshake(state)) return arrival;
  const bool line_full = state->strangers >= limits_.strangers_per_line;
  if (line_full || strangers_.size() >= limits_.strangers) {
    arrival.ended = OldestStranger(line_full ? &line : nullptr);
    LeaveStrangers(*arrival.ended, connections_.at(*arrival.ended));
  }
  ++state->strangers;
  arrival.number = ++last_;
  connections_[last_] = {other_end, now, std::nullopt};
  strangers_[last_] = line;
  by_end_[other_end] = last_;
  return arrival;
}

bool ConnectionBook::Prove(const TcpEndpoint& other_end, const PeerId& key) {
  const auto found = by_end_.find(other_end);
  if (found == by_end_.end()) return false;
  Connection& connection = connections_.at(found->second);
  if (connection.key) return *connection.key == key;
  if (!strangers_.contains(found->second)) return false;  // was told to end
  // Strangers keep their share: those who hold keys cannot fill every place.
  const std::size_t proven = size() - strangers_.size();
  std::size_t& own = proven_[key];
  if (own >= limits_.per_key || proven >= limits_.all - limits_.strangers) {
    if (own == 0) proven_.erase(key);
    return false;
  }
  LeaveStrangers(found->second, connection);
  const auto line = lines_.find(LineOf(other_end));
  if (line != lines_.end()) {
    ++line->second.proven;
    line->second.handshakes = std::min(line->second.handshakes + 1, limits_.handshakes);
    if (!std::exchange(line->second.known, true)) {
      handshakes_of_all_ = std::min(handshakes_of_all_ + 1, limits_.handshakes_of_all);
    }
  }
  connection.key = key;
  ++own;
  return true;
}

std::vector<ConnectionNumber> ConnectionBook::TakeOverdue(TimePoint now) {
  std::vector<ConnectionNumber> overdue;
  for (const auto& [number, line] : strangers_) {
    if (now - connections_.at(number).since < limits_.proof_time) break;
    overdue.push_back(number);
  }
  for (const ConnectionNumber number : overdue) LeaveStrangers(number, connections_.at(number));
  return overdue;
}

void ConnectionBook::Gone(ConnectionNumber number) {
  const auto found = connections_.find(number);
  if (found == connections_.end()) return;
  const Connection& connection = found->second;
  LeaveStrangers(number, connection);
  if (connection.key) {
    const auto own = proven_.find(*connection.key);
    if (--own->second == 0) proven_.erase(own);
    const auto line = lines_.find(LineOf(connection.other_end));
    if (line != lines_.end() && line->second.proven > 0) --line->second.proven;
  }
  const auto by_end = by_end_.find(connection.other_end);
  if (by_end != by_end_.end() && by_end->second == number) by_end_.erase(by_end);
  connections_.erase(found);
}

ConnectionBook::LineState* ConnectionBook::StateOf(const Line& line, TimePoint now) {
  const double passed = std::chrono::duration<double>(now - counted_at_).count();
  handshakes_of_all_ = std::min(handshakes_of_all_ + passed * limits_.handshakes_of_all_per_second,
                                limits_.handshakes_of_all);
  counted_at_ = now;
  if (handshakes_of_all_ < 1 && !lines_.contains(line)) return nullptr;
  if (lines_.size() >= ConnectionLimits::kLinesMax && !lines_.contains(line)) ForgetLines(now);
  const auto [found, is_new] = lines_.try_emplace(line);
  LineState& state = found->second;
  if (is_new) {
    state.handshakes = limits_.handshakes;
  } else {
    const double seconds = std::chrono::duration<double>(now - state.counted_at).count();
    state.handshakes =
        std::min(state.handshakes + seconds * limits_.handshakes_per_second, limits_.handshakes);
  }
  state.counted_at = now;
  return &state;
}

bool ConnectionBook::TakeHandshake(LineState* state) {
  if (state->handshakes < 1 || (!state->known && handshakes_of_all_ < 1)) return false;
  state->handshakes -= 1;
  if (!state->known) handshakes_of_all_ -= 1;
  return true;
}

// Forgets half of the lines without a connection, those not heard of for longest, and first those
// from which nobody was ever admitted. Whoever has many lines gains a few handshakes by it. Nobody
// is shut out, and the table stays bounded.
void ConnectionBook::ForgetLines(TimePoint now) {
  std::vector<TimePoint> times;
  for (const auto& [line, state] : lines_) times.push_back(state.counted_at);
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  const TimePoint limit = std::min(*middle, now);
  for (const bool known : {false, true}) {
    std::erase_if(lines_, [limit, known](const auto& entry) {
      const LineState& state = entry.second;
      return state.strangers == 0 && state.proven == 0 && state.known == known &&
             state.counted_at <= limit;
    });
    if (lines_.size() < ConnectionLimits::kLinesMax) return;
  }
}

std::optional<ConnectionNumber> ConnectionBook::OldestStranger(const Line* line) const {
  for (const bool known : {false, true}) {
    std::size_t most = 1;
    for (const auto& [each, state] : lines_) {
      if (state.known == known) most = std::max(most, state.strangers);
    }
    for (const auto& [number, each] : strangers_) {
      if (line != nullptr ? each == *line
                          : lines_.at(each).known == known && lines_.at(each).strangers >= most) {
        return number;
      }
    }
  }
  return std::nullopt;
}

void ConnectionBook::LeaveStrangers(ConnectionNumber number, const Connection& connection) {
  if (strangers_.erase(number) == 0) return;
  const auto line = lines_.find(LineOf(connection.other_end));
  if (line != lines_.end() && line->second.strangers > 0) --line->second.strangers;
}

}  // namespace shoal::net
