// Answers of etcd: what they do not fit is refused, and what passes is an event of the log. The
// first byte says which answer the rest is.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "common/status.h"
#include "net/etcd/etcd_answers.h"
#include "scheduler/election/etcd_keys.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace shoal;
  if (size == 0) return 0;
  const std::string bytes(reinterpret_cast<const char*>(data + 1), size - 1);
  const std::string prefix = "r";
  if (data[0] % 2 == 0) {
    etcdserverpb::RangeResponse answer;
    if (!answer.ParseFromString(bytes)) return 0;
    net::EtcdRange range;
    range.from = scheduler::EventKey(prefix, 1);
    range.end = scheduler::EventKeysEnd(prefix);
    range.last_first = data[0] % 4 == 2;
    const auto page = net::ReadEtcdPage(answer, range);
    if (!page.ok()) return 0;
    SHOAL_CHECK(page->entries.size() <= range.limit && page->revision > 0);
    std::uint64_t number = 1;
    for (const net::EtcdEntry& entry : page->entries) {
      SHOAL_CHECK(entry.key >= range.from && entry.key < range.end);
      const auto found = scheduler::EventNumberOf(prefix, entry.key);
      if (found.ok()) SHOAL_CHECK(scheduler::EventKey(prefix, *found) == entry.key);
      const auto event = scheduler::DecodeEtcdEvent(prefix, number++, entry.key, entry.value);
      if (event.ok()) SHOAL_CHECK(scheduler::EncodeEtcdEvent(*event) == entry.value);
    }
    return 0;
  }
  etcdserverpb::TxnResponse answer;
  if (!answer.ParseFromString(bytes)) return 0;
  net::EtcdCommit commit;
  commit.otherwise = {"r/v1/leader", scheduler::EventKey(prefix, 1)};
  const auto outcome = net::ReadEtcdOutcome(answer, commit);
  if (outcome.ok()) SHOAL_CHECK(outcome->done || outcome->found.size() == 2);
  return 0;
}
