// Events of a log, for tests of what is recomputed from it.

#ifndef SHOAL_TESTS_UNIT_SCHEDULER_HISTORY_LEDGER_EVENTS_H_
#define SHOAL_TESTS_UNIT_SCHEDULER_HISTORY_LEDGER_EVENTS_H_

#include <cstdint>
#include <initializer_list>
#include <utility>
#include <vector>

#include "scheduler/history/stored_event.h"

namespace shoal::scheduler {

inline PeerId Host(std::uint32_t number) {
  PeerId peer;
  peer.key[0] = static_cast<std::uint8_t>(number);
  peer.key[1] = static_cast<std::uint8_t>(number >> 8);
  return peer;
}

inline std::vector<PeerId> Hosts(std::initializer_list<std::uint32_t> numbers) {
  std::vector<PeerId> hosts;
  for (const std::uint32_t number : numbers) hosts.push_back(Host(number));
  return hosts;
}

inline LossesKnown Losses(std::uint64_t first, std::uint64_t count) {
  return {first, std::vector<double>(count, 1.5)};
}

inline std::vector<TimedEvent> Log(std::initializer_list<StoredEvent> events) {
  std::vector<TimedEvent> log;
  for (const StoredEvent& event : events) log.push_back({event});
  return log;
}

}  // namespace shoal::scheduler

#endif  // SHOAL_TESTS_UNIT_SCHEDULER_HISTORY_LEDGER_EVENTS_H_
