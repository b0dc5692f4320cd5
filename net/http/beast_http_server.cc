#include <utility>  // Asio 1.74 forgets it in C++20 mode; must come first.

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>

#include <algorithm>
#include <optional>
#include <thread>

#include "common/log.h"
#include "common/mutex.h"
#include "common/trace.h"
#include "net/base/host_port.h"
#include "net/http/http_server.h"
#include "net/http/post_guard.h"
#include "net/http/status_page.h"

namespace shoal::net {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::ip::tcp;

constexpr std::size_t kHeaderBytesMax = 16 * 1024;
constexpr auto kIdleTimeout = std::chrono::seconds(15);
constexpr auto kHandlerTimeout = std::chrono::minutes(1);
// Only the page's own script and style, and nobody may frame it: what peers say is shown there.
constexpr const char* kPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

bool IsLoopbackHost(std::string_view host) {
  if (!host.empty() && host.front() == '[') {
    return host.substr(0, host.find(']') + 1) == "[::1]";
  }
  host = host.substr(0, host.find(':'));
  if (host == "localhost") return true;
  beast::error_code error;
  const auto address = asio::ip::make_address(std::string(host), error);
  return !error && address.is_loopback();
}

bool IsLoopback(asio::ip::address address) {
  if (address.is_v6() && address.to_v6().is_v4_mapped()) {
    address = asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6());
  }
  return address.is_loopback();
}

std::string_view View(beast::string_view text) { return {text.data(), text.size()}; }

// The owner's handlers; run under the lock, so that they never run once the server is gone.
struct SharedHandlers {
  using Reply = std::function<void(HttpResponse)>;

  Mutex mutex;
  HttpHandlers handlers SHOAL_GUARDED_BY(mutex);

  void Call(bool post, const PageRequest& request, const Reply& reply) {
    MutexLock lock(mutex);
    if (post && handlers.on_post) return handlers.on_post(request, reply);
    if (!post && handlers.on_get) return reply(handlers.on_get(request));
    reply({503, "text/plain; charset=utf-8", "stopping\n"});
  }
};

// What all connections have in common. Thread: status, but for the handlers.
struct Shared {
  Shared(const HttpServerOptions& options, Executor* on, HttpHandlers given)
      : any_host(options.allow_remote),
        body_bytes_max(options.token.empty() ? 0 : kPostBytesMax),
        executor(on),
        guard(given.on_post ? options.token : "", &on->clock()),
        handlers(std::make_shared<SharedHandlers>()) {
    MutexLock lock(handlers->mutex);
    handlers->handlers = std::move(given);
  }

  const bool any_host;
  const std::size_t body_bytes_max;
  Executor* const executor;
  PostGuard guard;
  const std::shared_ptr<SharedHandlers> handlers;
};

// One connection; kept alive by its own pending operations. Thread: status.
class Session : public std::enable_shared_from_this<Session> {
 public:
  Session(tcp::socket socket, std::weak_ptr<asio::io_context> context,
          std::shared_ptr<Shared> shared)
      : stream_(std::move(socket)),
        waiting_(stream_.get_executor()),
        context_(std::move(context)),
        shared_(std::move(shared)) {}

  void Read() {
    parser_.emplace();
    parser_->header_limit(kHeaderBytesMax);
    parser_->body_limit(shared_->body_bytes_max);
    stream_.expires_after(kIdleTimeout);
    http::async_read(stream_, buffer_, *parser_,
                     [self = shared_from_this()](beast::error_code error, std::size_t) {
                       if (!error) return self->Answer();
                       if (error == http::error::body_limit) self->RefuseBody();
                     });
  }

 private:
  void Answer() {
    const auto& request = parser_->get();
    const bool post = request.method() == http::verb::post;
    if (!post && request.method() != http::verb::get && request.method() != http::verb::head) {
      return Write({405, "text/plain; charset=utf-8", "only GET is answered here\n"});
    }
    const bool own_name = IsLoopbackHost(View(request[http::field::host]));
    if (!shared_->any_host && !own_name) {
      return Write({403, "text/plain; charset=utf-8", "ask under a loopback name\n"});
    }
    if (post) {
      if (auto refused = shared_->guard.Refuse(Headers(own_name))) return Write(*refused);
    }
    const std::string_view target = View(request.target());
    const std::size_t path_end = std::min(target.find('?'), target.size());
    PageRequest asked{std::string(target.substr(0, path_end)), "", request.body()};
    if (path_end < target.size()) asked.query = target.substr(path_end + 1);
    Ask(post, std::move(asked));
  }

  PostHeaders Headers(bool own_name) const {
    const auto& request = parser_->get();
    beast::error_code error;
    const tcp::endpoint caller = stream_.socket().remote_endpoint(error);
    PostHeaders headers;
    headers.from_loopback = own_name && !error && IsLoopback(caller.address());
    headers.host = View(request[http::field::host]);
    headers.has_origin = request.count(http::field::origin) > 0;
    headers.origin = View(request[http::field::origin]);
    headers.fetch_site = View(request["Sec-Fetch-Site"]);
    headers.content_type = View(request[http::field::content_type]);
    headers.token = View(request["X-Shoal-Token"]);
    return headers;
  }

  void Ask(bool post, PageRequest asked) {
    stream_.expires_never();
    // The wait keeps the session alive inside the context while the executor works. The executor
    // itself holds only a weak reference: it may outlive the server.
    waiting_.expires_after(kHandlerTimeout);
    waiting_.async_wait([self = shared_from_this()](beast::error_code) {});
    const auto reply = [session = weak_from_this(), context = context_](HttpResponse response) {
      const std::shared_ptr<asio::io_context> alive = context.lock();
      if (!alive) return;
      asio::post(*alive, [session, response = std::move(response)]() mutable {
        if (const auto self = session.lock()) self->Write(std::move(response));
      });
    };
    shared_->executor->Post("http.request",
                            [post, reply, handlers = shared_->handlers, asked = std::move(asked)] {
                              handlers->Call(post, asked, reply);
                            });
  }

  // What is left of it is not read, so the connection ends.
  void RefuseBody() {
    parser_->get().keep_alive(false);
    Write({413, "text/plain; charset=utf-8", "the request is too large\n"});
  }

  void Write(HttpResponse answer) {
    waiting_.cancel();
    const auto& request = parser_->get();
    response_ = {};
    response_.result(static_cast<unsigned>(answer.status));
    response_.version(request.version());
    response_.keep_alive(request.keep_alive());
    response_.set(http::field::server, "shoal");
    response_.set(http::field::content_type, answer.content_type);
    response_.set(http::field::cache_control, "no-store");
    response_.set("X-Content-Type-Options", "nosniff");
    response_.set("Content-Security-Policy", kPolicy);
    response_.set("X-Frame-Options", "DENY");
    response_.set("Referrer-Policy", "no-referrer");
    const bool head = request.method() == http::verb::head;
    response_.content_length(answer.body.size());
    if (!head) response_.body() = std::move(answer.body);
    stream_.expires_after(kIdleTimeout);
    http::async_write(stream_, response_,
                      [self = shared_from_this()](beast::error_code error, std::size_t) {
                        if (!error && self->response_.keep_alive()) return self->Read();
                        beast::error_code ignored;
                        self->stream_.socket().shutdown(tcp::socket::shutdown_send, ignored);
                      });
  }

  beast::tcp_stream stream_;
  asio::steady_timer waiting_;
  const std::weak_ptr<asio::io_context> context_;
  const std::shared_ptr<Shared> shared_;
  beast::flat_buffer buffer_;
  std::optional<http::request_parser<http::string_body>> parser_;
  http::response<http::string_body> response_;
};

class BeastHttpServer final : public HttpServer {
 public:
  BeastHttpServer(const HttpServerOptions& options, Executor* executor, HttpHandlers handlers)
      : context_(std::make_shared<asio::io_context>(1)),
        acceptor_(*context_),
        shared_(std::make_shared<Shared>(options, executor, std::move(handlers))) {}

  ~BeastHttpServer() override {
    {
      MutexLock lock(shared_->handlers->mutex);
      shared_->handlers->handlers = {};
    }
    context_->stop();
    if (thread_.joinable()) thread_.join();
  }

  Status Listen(const std::string& listen) {
    SHOAL_ASSIGN_OR_RETURN(const HostPort target, ParseHostPort(listen));
    beast::error_code error;
    const auto address =
        asio::ip::make_address(target.host == "localhost" ? "127.0.0.1" : target.host, error);
    if (error)
      return InvalidArgument("status listen address '" + listen + "' is not an IP address");
    if (!address.is_loopback() && !shared_->any_host) {
      return InvalidArgument(
          "the status page listens on loopback only, not on " + listen +
          "; write 127.0.0.1:" + std::to_string(target.port) +
          "; the setting status_allow_remote is for places where only friends can connect");
    }
    const tcp::endpoint endpoint(address, target.port);
    acceptor_.open(endpoint.protocol(), error);
    if (!error) acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
    if (!error) acceptor_.bind(endpoint, error);
    if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
    if (error) {
      return FailedPrecondition("cannot listen on " + listen + " for the status page: " +
                                error.message() + "; choose another port, or 0 for any");
    }
    const auto local = acceptor_.local_endpoint(error);
    address_ = FormatHostPort({local.address().to_string(), local.port()});
    Accept();
    thread_ = std::thread([context = context_] {
      SetThreadName("status");
      context->run();
    });
    return Status::Ok();
  }

  const std::string& address() const override { return address_; }

 private:
  void Accept() {
    acceptor_.async_accept([this](beast::error_code error, tcp::socket socket) {
      if (error == asio::error::operation_aborted) return;
      if (!error) {
        std::make_shared<Session>(std::move(socket), context_, shared_)->Read();
      }
      Accept();
    });
  }

  const std::shared_ptr<asio::io_context> context_;
  tcp::acceptor acceptor_;
  const std::shared_ptr<Shared> shared_;
  std::string address_;
  std::thread thread_;
};

}  // namespace

Result<std::unique_ptr<HttpServer>> NewHttpServer(const HttpServerOptions& options,
                                                  Executor* executor, HttpHandlers handlers) {
  auto server = std::make_unique<BeastHttpServer>(options, executor, std::move(handlers));
  SHOAL_RETURN_IF_ERROR(server->Listen(options.listen));
  return std::unique_ptr<HttpServer>(std::move(server));
}

std::string PageLink(const std::string& address, const std::string& token) {
  const Result<HostPort> parsed = ParseHostPort(address);
  if (!parsed.ok()) return "http://" + address + "/";
  HostPort at = *parsed;
  if (at.host == "0.0.0.0") at.host = "127.0.0.1";
  if (at.host == "::") at.host = "::1";
  const std::string link = "http://" + FormatHostPort(at) + "/";
  beast::error_code error;
  const auto ip = asio::ip::make_address(at.host, error);
  return !error && IsLoopback(ip) ? link + "#token=" + token : link;
}

HttpResponse StatusPageOrNotFound(const std::string& path) {
  if (path == "/" || path == "/index.html") {
    return {200, "text/html; charset=utf-8", std::string(StatusPage())};
  }
  if (path == "/page.css") return {200, "text/css; charset=utf-8", std::string(StatusStyle())};
  if (path == "/page.js") {
    return {200, "text/javascript; charset=utf-8", std::string(StatusScript())};
  }
  if (path == "/history.js") {
    return {200, "text/javascript; charset=utf-8", std::string(HistoryScript())};
  }
  if (path == "/peer.js") {
    return {200, "text/javascript; charset=utf-8", std::string(PeerScript())};
  }
  return {404, "text/plain; charset=utf-8",
          "not here; try /, /api/v1/status, /metrics, /healthz or /readyz\n"};
}

}  // namespace shoal::net
