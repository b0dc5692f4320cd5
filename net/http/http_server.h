// HttpServer: the small web server behind status, metrics and the live page.
//
// Loopback only unless allowed otherwise: it shows what only the machine's user should see. On
// loopback a Host header that is not a loopback name is refused, so that no web page elsewhere can
// read it through DNS rebinding. GET changes nothing; POST needs a token (net/http/post_guard.h).

#ifndef SHOAL_NET_HTTP_HTTP_SERVER_H_
#define SHOAL_NET_HTTP_HTTP_SERVER_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "common/executor.h"
#include "common/status.h"

namespace shoal::net {

struct HttpResponse {
  int status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body;
};

struct HttpServerOptions {
  std::string listen = "127.0.0.1:0";  // host:port; port 0: any free one
  // Allows other addresses and Host names: for a container or a private network, whose owner
  // decides who can connect. Nothing asks for a password.
  bool allow_remote = false;
  // What the header X-Shoal-Token of a POST must say; empty: only GET and HEAD are answered.
  std::string token = {};
};

struct PageRequest {
  std::string path;   // without query
  std::string query;  // what was behind "?"
  std::string body;   // of a POST, at most kPostBytesMax
};

inline constexpr std::size_t kPostBytesMax = 16 * 1024;

// Run on the executor.
struct HttpHandlers {
  std::function<HttpResponse(const PageRequest& request)> on_get;
  // Of a request that may change something. Answers through `reply`, once, now or later, from the
  // executor's thread. May be null.
  std::function<void(const PageRequest& request, std::function<void(HttpResponse)> reply)> on_post =
      nullptr;
};

class HttpServer {
 public:
  virtual ~HttpServer() = default;  // the handlers do not run afterwards
  // host:port that is listened on.
  virtual const std::string& address() const = 0;
};

// Connections are served by a thread of the server's own. A port in use or an address that is not
// loopback is an error. `executor` outlives the server.
Result<std::unique_ptr<HttpServer>> NewHttpServer(const HttpServerOptions& options,
                                                  Executor* executor, HttpHandlers handlers);

// The link to the page behind a server's address (host:port), for a browser on the same machine:
// http://127.0.0.1:8790/#token=...; browsers send to nobody what is behind "#". Without the token
// where nothing can be changed: of a server that listens on an address that is neither loopback nor
// any.
std::string PageLink(const std::string& address, const std::string& token);

// "/" is the live page, "/page.css", "/page.js", "/history.js" and "/peer.js" its style and
// scripts, everything else 404.
HttpResponse StatusPageOrNotFound(const std::string& path);

}  // namespace shoal::net

#endif  // SHOAL_NET_HTTP_HTTP_SERVER_H_
