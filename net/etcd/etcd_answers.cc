#include "net/etcd/etcd_answers.h"

#include <chrono>
#include <utility>

namespace shoal::net {
namespace {

Status Wrong(const char* what) {
  return DataLoss("etcd gave an answer that does not fit the question: " + std::string(what));
}

Result<EtcdEntry> ReadEntry(const etcdserverpb::KeyValue& entry) {
  if (entry.create_revision() <= 0) return Wrong("a key without a revision");
  if (entry.value().size() > kEtcdValueBytesMax) return Wrong("a value of more than 1 MiB");
  return EtcdEntry{entry.key(), entry.value(), entry.create_revision(), entry.lease()};
}

}  // namespace

Result<EtcdPage> ReadEtcdPage(const etcdserverpb::RangeResponse& answer, const EtcdRange& range) {
  EtcdPage page;
  page.more = answer.more();
  page.revision = answer.header().revision();
  if (page.revision <= 0) return Wrong("no revision");
  if (answer.kvs().size() > static_cast<int>(range.limit)) return Wrong("too many keys");
  if (page.more && answer.kvs().empty()) return Wrong("no key, but more to come");
  for (const etcdserverpb::KeyValue& one : answer.kvs()) {
    SHOAL_ASSIGN_OR_RETURN(EtcdEntry entry, ReadEntry(one));
    if (entry.key < range.from || entry.key >= range.end) return Wrong("a key outside the range");
    if (!page.entries.empty()) {
      const std::string& before = page.entries.back().key;
      const bool ordered = range.last_first ? entry.key < before : entry.key > before;
      if (!ordered) return Wrong("keys out of order");
    }
    page.entries.push_back(std::move(entry));
  }
  return page;
}

Result<EtcdOutcome> ReadEtcdOutcome(const etcdserverpb::TxnResponse& answer,
                                    const EtcdCommit& commit) {
  EtcdOutcome outcome;
  outcome.done = answer.succeeded();
  outcome.revision = answer.header().revision();
  if (outcome.revision <= 0) return Wrong("no revision");
  if (outcome.done) {
    if (answer.responses().size() != 1 || !answer.responses(0).has_response_put()) {
      return Wrong("a transaction without its put");
    }
    return outcome;
  }
  if (answer.responses().size() != static_cast<int>(commit.otherwise.size())) {
    return Wrong("a transaction without its reads");
  }
  for (int i = 0; i < answer.responses().size(); ++i) {
    const auto& read = answer.responses(i).response_range();
    if (!answer.responses(i).has_response_range() || read.kvs().size() > 1) {
      return Wrong("a transaction without its reads");
    }
    std::optional<EtcdEntry> found;
    if (!read.kvs().empty()) {
      SHOAL_ASSIGN_OR_RETURN(found, ReadEntry(read.kvs(0)));
      if (found->key != commit.otherwise[static_cast<std::size_t>(i)]) return Wrong("another key");
    }
    outcome.found.push_back(std::move(found));
  }
  return outcome;
}

Result<Duration> ReadEtcdTtl(std::int64_t seconds) {
  const auto most = std::chrono::duration_cast<std::chrono::seconds>(kEtcdLeaseMax).count();
  if (seconds <= 0) return NotFound("etcd has no such lease any more");
  if (seconds > most) return Wrong("a lease of more than an hour");
  return Duration(std::chrono::seconds(seconds));
}

}  // namespace shoal::net
