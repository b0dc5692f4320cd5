// What an ObjectStore is opened with.

#ifndef SHOAL_NET_OBJECTS_OBJECT_STORE_OPTIONS_H_
#define SHOAL_NET_OBJECTS_OBJECT_STORE_OPTIONS_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>

#include "common/clock.h"

namespace shoal::net {

// Keys of a service; never written anywhere. Without an id requests are not signed.
struct ObjectCredentials {
  std::string key_id, secret_key;
  std::string session_token;  // of temporary keys; else empty
};

struct ObjectStoreOptions {
  std::string address;      // see object_address.h
  std::string endpoint;     // of an S3-compatible service; empty: that of Amazon
  std::string region;       // that requests are signed for
  bool plain_http = false;  // also over lines that others may read; loopback always may
  ObjectCredentials credentials;
  std::string ca_file;  // certificates to trust instead of the system's; empty: those
  // Sleeps between two tries, or until the stop. Never null.
  std::function<void(Duration)> wait;
  std::stop_token stop;  // from then on every call fails (cancelled)
  // Limits, smaller in tests.
  std::uint64_t part_bytes = 64 << 20;        // of a file that is larger; it is sent in such parts
  int tries = 6;                              // of a request, 0.2 s to 10 s apart
  Duration stall = std::chrono::seconds(60);  // a transfer that stands still so long has failed
};

}  // namespace shoal::net

#endif  // SHOAL_NET_OBJECTS_OBJECT_STORE_OPTIONS_H_
