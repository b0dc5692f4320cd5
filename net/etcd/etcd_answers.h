// What etcd answers, checked before anybody believes it. Pure. Thread: any.

#ifndef SHOAL_NET_ETCD_ETCD_ANSWERS_H_
#define SHOAL_NET_ETCD_ETCD_ANSWERS_H_

#include "common/status.h"
#include "net/etcd/etcd.h"
#include "proto/etcd.pb.h"

namespace shoal::net {

// Longest time of a lease that is believed.
inline constexpr Duration kEtcdLeaseMax = std::chrono::hours(1);

// Data loss: not an answer to what was asked. Keys are within the range, in order, each once.
Result<EtcdPage> ReadEtcdPage(const etcdserverpb::RangeResponse& answer, const EtcdRange& range);
Result<EtcdOutcome> ReadEtcdOutcome(const etcdserverpb::TxnResponse& answer,
                                    const EtcdCommit& commit);
Result<Duration> ReadEtcdTtl(std::int64_t seconds);

}  // namespace shoal::net

#endif  // SHOAL_NET_ETCD_ETCD_ANSWERS_H_
