// Etcd: what shoal needs of an etcd cluster: keys with revisions, one kind of transaction, leases.
//
// Every call blocks for `timeout` at most, in which it tries all addresses in turn. So a call that
// failed with unavailable or deadline exceeded may have had its effect. Thread: any.

#ifndef SHOAL_NET_ETCD_ETCD_H_
#define SHOAL_NET_ETCD_ETCD_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/clock.h"
#include "common/status.h"

namespace shoal::net {

// etcd itself refuses requests of more than 1.5 MiB.
inline constexpr std::size_t kEtcdValueBytesMax = 1 << 20;
inline constexpr std::uint32_t kEtcdPageEntriesMax = 64;
inline constexpr std::size_t kEtcdAddressesMax = 16;

struct EtcdEntry {
  std::string key, value;
  std::int64_t create_revision = 0;  // above 0
  std::int64_t lease = 0;            // 0: none
};

// Keys in [from, end).
struct EtcdRange {
  std::string from, end;
  std::uint32_t limit = kEtcdPageEntriesMax;  // 1 to kEtcdPageEntriesMax
  std::int64_t revision = 0;                  // as of then; 0: now
  bool last_first = false;
};
struct EtcdPage {
  std::vector<EtcdEntry> entries;  // in order
  bool more = false;               // the range has more than these
  std::int64_t revision = 0;       // of the whole store when it was read
};

// Puts `key` if every condition holds; else reads `otherwise`.
struct EtcdCommit {
  struct Condition {
    std::string key;
    std::int64_t create_revision = 0;  // 0: there is no such key
  };
  std::vector<Condition> conditions;
  std::string key, value;
  std::int64_t lease = 0;
  std::vector<std::string> otherwise;
};
struct EtcdOutcome {
  bool done = false;
  std::int64_t revision = 0;                    // of the put, if it is done
  std::vector<std::optional<EtcdEntry>> found;  // as `otherwise`, if it is not
};

struct EtcdLease {
  std::int64_t id = 0;
  Duration ttl{};  // since etcd had the request
};

class Etcd {
 public:
  virtual ~Etcd() = default;
  virtual Result<EtcdPage> Read(const EtcdRange& range, Duration timeout) = 0;
  virtual Result<EtcdOutcome> Commit(const EtcdCommit& commit, Duration timeout) = 0;
  virtual Result<EtcdLease> Grant(Duration ttl, Duration timeout) = 0;
  // The lease's time anew; not found: it has ended.
  virtual Result<Duration> KeepAlive(std::int64_t lease, Duration timeout) = 0;
  virtual Status Revoke(std::int64_t lease, Duration timeout) = 0;
};

struct EtcdAddress {
  std::string host_port;  // "HOST:PORT"
  bool tls = false;
  bool loopback = false;  // of this machine
};
// "http://HOST:PORT" or "https://HOST:PORT".
Result<EtcdAddress> ParseEtcdAddress(std::string_view text);

// How etcd knows us, and we it. All may be empty.
struct EtcdAccess {
  std::string ca_pem;             // whose certificates etcd may show; TLS only, and needed for it
  std::string cert_pem, key_pem;  // that we show; both or none
  std::string user, password;     // both or none; a password goes over TLS or to this machine only
};
// `addresses` as ParseEtcdAddress takes them, 1 or more, all with TLS or all without. Dials nobody
// yet. With a user each call logs in where that is needed: permission denied says that etcd takes
// neither user nor password.
Result<std::unique_ptr<Etcd>> OpenEtcd(const std::vector<std::string>& addresses,
                                       const EtcdAccess& access = {});

}  // namespace shoal::net

#endif  // SHOAL_NET_ETCD_ETCD_H_
