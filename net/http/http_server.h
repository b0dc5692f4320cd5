// HttpServer: the small read-only web server behind status, metrics and the live page.
//
// GET only, and loopback only unless allowed otherwise: it shows what only the machine's user
// should see. On loopback a Host header that is not a loopback name is refused, so that no web page
// elsewhere can read it through DNS rebinding.

#ifndef SHOAL_NET_HTTP_HTTP_SERVER_H_
#define SHOAL_NET_HTTP_HTTP_SERVER_H_

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
};

class HttpServer {
 public:
  virtual ~HttpServer() = default;  // the handler does not run afterwards
  // host:port that is listened on.
  virtual const std::string& address() const = 0;
};

// `handler` gets the path without query and runs on `executor`; connections are served by a thread
// of the server's own. A port in use or an address that is not loopback is an error.
Result<std::unique_ptr<HttpServer>> NewHttpServer(
    const HttpServerOptions& options, Executor* executor,
    std::function<HttpResponse(const std::string& path)> handler);

// "/" is the live page, "/page.css" and "/page.js" its style and script, everything else 404.
HttpResponse StatusPageOrNotFound(const std::string& path);

}  // namespace shoal::net

#endif  // SHOAL_NET_HTTP_HTTP_SERVER_H_
