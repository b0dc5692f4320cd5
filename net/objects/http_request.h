// One signed request to an S3 service, through libcurl. Internal to this room.
//
// libcurl 7.88 signs the path and the query as they are given, and the payload's hash as the header
// says: so callers give all of them in canonical form (net/objects/s3_object_store.cc).

#ifndef SHOAL_NET_OBJECTS_HTTP_REQUEST_H_
#define SHOAL_NET_OBJECTS_HTTP_REQUEST_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "common/clock.h"
#include "common/status.h"
#include "net/objects/object_store_options.h"

namespace shoal::net {

struct HttpRequest {
  std::string method = "GET";        // GET, HEAD, PUT, POST or DELETE
  std::string url;                   // with the query
  std::vector<std::string> headers;  // "name: value", all of them signed
  std::string range;                 // "0-99" of the answer; empty: all
  std::string_view body;             // of PUT and POST; outlives the call
  int body_fd = -1;                  // instead: body_bytes of this file, from body_offset on
  std::uint64_t body_offset = 0, body_bytes = 0;
  std::size_t answer_bytes_max = 0;  // more is an error (data loss)
};

struct HttpAnswer {
  long status = 0;                   // of HTTP
  std::uint64_t content_length = 0;  // as the header says it
  std::string etag, bucket_region;   // headers of S3; empty: none
  std::string body;
};

struct HttpOptions {
  bool loopback = false;  // the host is this machine: no proxy is asked
  std::string region;
  ObjectCredentials credentials;
  std::string ca_file;
  Duration stall{};
  std::stop_token stop;
};

class HttpClient {
 public:
  virtual ~HttpClient() = default;
  // Blocks. Unavailable: the connection failed, or stood still; what the server answered is no
  // error here. Thread: one at a time.
  virtual Result<HttpAnswer> Send(const HttpRequest& request) = 0;
};

// Keeps its connection from one request to the next.
Result<std::unique_ptr<HttpClient>> NewHttpClient(HttpOptions options);

}  // namespace shoal::net

#endif  // SHOAL_NET_OBJECTS_HTTP_REQUEST_H_
