#include <utility>  // Asio 1.74 forgets it in C++20 mode; must come first.

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>

#include <optional>
#include <thread>

#include "common/log.h"
#include "common/mutex.h"
#include "common/trace.h"
#include "net/base/host_port.h"
#include "net/http/http_server.h"
#include "net/http/status_page.h"

namespace shoal::net {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::ip::tcp;

constexpr std::size_t kHeaderBytesMax = 16 * 1024;
constexpr std::size_t kBodyBytesMax = 0;
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

// The owner's handler; run under the lock, so that it never runs once the server is gone.
struct SharedHandler {
  Mutex mutex;
  std::function<HttpResponse(const std::string&)> handler SHOAL_GUARDED_BY(mutex);

  HttpResponse Call(const std::string& path) {
    MutexLock lock(mutex);
    if (!handler) return {503, "text/plain; charset=utf-8", "stopping\n"};
    return handler(path);
  }
};

// One connection; kept alive by its own pending operations. Thread: status.
class Session : public std::enable_shared_from_this<Session> {
 public:
  Session(tcp::socket socket, bool any_host, std::weak_ptr<asio::io_context> context,
          Executor* executor, std::shared_ptr<SharedHandler> handler)
      : any_host_(any_host),
        stream_(std::move(socket)),
        waiting_(stream_.get_executor()),
        context_(std::move(context)),
        executor_(executor),
        handler_(std::move(handler)) {}

  void Read() {
    parser_.emplace();
    parser_->header_limit(kHeaderBytesMax);
    parser_->body_limit(kBodyBytesMax);
    stream_.expires_after(kIdleTimeout);
    http::async_read(stream_, buffer_, *parser_,
                     [self = shared_from_this()](beast::error_code error, std::size_t) {
                       if (!error) self->Answer();
                     });
  }

 private:
  void Answer() {
    const auto& request = parser_->get();
    if (request.method() != http::verb::get && request.method() != http::verb::head) {
      return Write({405, "text/plain; charset=utf-8", "only GET is answered here\n"});
    }
    const auto host = request[http::field::host];
    if (!any_host_ && !IsLoopbackHost(std::string_view(host.data(), host.size()))) {
      return Write({403, "text/plain; charset=utf-8", "ask under a loopback name\n"});
    }
    std::string path(request.target().data(), request.target().size());
    path = path.substr(0, path.find('?'));
    stream_.expires_never();
    // The wait keeps the session alive inside the context while the executor works. The executor
    // itself holds only a weak reference: it may outlive the server.
    waiting_.expires_after(kHandlerTimeout);
    waiting_.async_wait([self = shared_from_this()](beast::error_code) {});
    executor_->Post("http.request", [session = weak_from_this(), context = context_,
                                     handler = handler_, path = std::move(path)] {
      HttpResponse response = handler->Call(path);
      const std::shared_ptr<asio::io_context> alive = context.lock();
      if (!alive) return;
      asio::post(*alive, [session, response = std::move(response)]() mutable {
        if (const auto self = session.lock()) self->Write(std::move(response));
      });
    });
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

  const bool any_host_;
  beast::tcp_stream stream_;
  asio::steady_timer waiting_;
  const std::weak_ptr<asio::io_context> context_;
  Executor* const executor_;
  const std::shared_ptr<SharedHandler> handler_;
  beast::flat_buffer buffer_;
  std::optional<http::request_parser<http::string_body>> parser_;
  http::response<http::string_body> response_;
};

class BeastHttpServer final : public HttpServer {
 public:
  BeastHttpServer(bool allow_remote, Executor* executor,
                  std::function<HttpResponse(const std::string&)> handler)
      : allow_remote_(allow_remote),
        context_(std::make_shared<asio::io_context>(1)),
        acceptor_(*context_),
        executor_(executor),
        handler_(std::make_shared<SharedHandler>()) {
    MutexLock lock(handler_->mutex);
    handler_->handler = std::move(handler);
  }

  ~BeastHttpServer() override {
    {
      MutexLock lock(handler_->mutex);
      handler_->handler = nullptr;
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
    if (!address.is_loopback() && !allow_remote_) {
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
        std::make_shared<Session>(std::move(socket), allow_remote_, context_, executor_, handler_)
            ->Read();
      }
      Accept();
    });
  }

  const bool allow_remote_;
  const std::shared_ptr<asio::io_context> context_;
  tcp::acceptor acceptor_;
  Executor* const executor_;
  const std::shared_ptr<SharedHandler> handler_;
  std::string address_;
  std::thread thread_;
};

}  // namespace

Result<std::unique_ptr<HttpServer>> NewHttpServer(
    const HttpServerOptions& options, Executor* executor,
    std::function<HttpResponse(const std::string& path)> handler) {
  auto server =
      std::make_unique<BeastHttpServer>(options.allow_remote, executor, std::move(handler));
  SHOAL_RETURN_IF_ERROR(server->Listen(options.listen));
  return std::unique_ptr<HttpServer>(std::move(server));
}

HttpResponse StatusPageOrNotFound(const std::string& path) {
  if (path == "/" || path == "/index.html") {
    return {200, "text/html; charset=utf-8", std::string(StatusPage())};
  }
  if (path == "/page.css") return {200, "text/css; charset=utf-8", std::string(StatusStyle())};
  if (path == "/page.js") {
    return {200, "text/javascript; charset=utf-8", std::string(StatusScript())};
  }
  return {404, "text/plain; charset=utf-8",
          "not here; try /, /api/v1/status, /metrics, /healthz or /readyz\n"};
}

}  // namespace shoal::net
