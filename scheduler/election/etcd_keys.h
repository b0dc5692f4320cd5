// Keys of a run in etcd, below the prefix of run.toml (docs/STORAGE.md, "Event log in etcd").
// Pure. Thread: any.

#ifndef SHOAL_SCHEDULER_ELECTION_ETCD_KEYS_H_
#define SHOAL_SCHEDULER_ELECTION_ETCD_KEYS_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "common/status.h"

namespace shoal::scheduler {

std::string LeaderKey(const std::string& prefix);  // who leads; lives as long as its lease
std::string SwarmKey(const std::string& prefix);   // of which identity and secret the run is
std::string EventKey(const std::string& prefix, std::uint64_t number);  // numbers from 1
// Behind the last key that EventKey can give.
std::string EventKeysEnd(const std::string& prefix);

std::string EncodeEtcdEvent(std::string_view event);
// Of the entry that should be event `number`; data loss: it is not.
Result<std::string_view> DecodeEtcdEvent(const std::string& prefix, std::uint64_t number,
                                         std::string_view key, std::string_view value);
// Data loss: not a key of an event.
Result<std::uint64_t> EventNumberOf(const std::string& prefix, std::string_view key);

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_ELECTION_ETCD_KEYS_H_
