#include "net/relay/puncher-inl.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/write.hpp>

#include "net/base/host_port.h"
#include "net/base/tcp_endpoint.h"
#include "net/relay/punch_rules.h"

namespace shoal::net {
namespace {

namespace asio = boost::asio;

using ReusePort = asio::detail::socket_option::boolean<SOL_SOCKET, SO_REUSEPORT>;

std::string DigitsOf(const Puncher::Tcp::endpoint& end) {
  return FormatHostPort({end.address().to_string(), end.port()});
}

// Opens a socket or an acceptor at `local`, whose port others may share.
template <typename Socket>
boost::system::error_code OpenAt(Socket* socket, const Puncher::Tcp::endpoint& local) {
  boost::system::error_code error;
  socket->close(error);
  socket->open(local.protocol(), error);
  if (error) return error;
  (void)::fcntl(socket->native_handle(), F_SETFD, FD_CLOEXEC);
  socket->set_option(asio::socket_base::reuse_address(true), error);
  if (!error) socket->set_option(ReusePort(true), error);
  if (!error) socket->bind(local, error);
  return error;
}

}  // namespace

Puncher::Puncher(asio::io_context* context, const Tcp::endpoint& relay, const RelaySession& session,
                 Done done)
    : relay_end_(relay),
      done_(std::move(done)),
      request_(std::string(kRelayPreface) + EncodeRelayMessage(RelayPunchJoin{session})),
      relay_(*context),
      socket_(*context),
      acceptor_(*context),
      deadline_(*context),
      next_(*context) {}

void Puncher::Start() {
  deadline_.expires_after(kPunchPatience);
  deadline_.async_wait([self = shared_from_this()](Error error) {
    if (!error) self->Finish(DeadlineExceeded("no connection came about"));
  });
  if (const Error error = OpenAt(&relay_, Tcp::endpoint(relay_end_.protocol(), 0)); error) {
    return Finish(Unavailable("no port is free: " + error.message()));
  }
  relay_.async_connect(relay_end_, [self = shared_from_this()](Error error) {
    if (error) return self->Finish(Unavailable("the relay is gone: " + error.message()));
    self->Join();
  });
}

void Puncher::Cancel() {
  done_ = nullptr;
  Finish(Cancelled("this peer is stopping"));
}

void Puncher::Join() {
  asio::async_write(relay_, asio::buffer(request_),
                    [self = shared_from_this()](Error error, std::size_t) {
                      if (!error) self->ReadTarget();
                    });
}

void Puncher::ReadTarget() {
  relay_.async_read_some(
      asio::buffer(chunk_), [self = shared_from_this()](Error error, std::size_t bytes) {
        if (error) return self->Finish(Unavailable("the relay hung up"));
        self->in_.append(self->chunk_.data(), bytes);
        const auto taken = TakeRelayMessage(self->in_);
        if (!taken.ok()) return self->Finish(taken.status());
        if (!*taken) return self->ReadTarget();
        if (const auto* refused = std::get_if<RelayRefused>(&(*taken)->message)) {
          return self->Finish(Status(refused->code, "refused: " + refused->error));
        }
        const auto* target = std::get_if<RelayPunchTarget>(&(*taken)->message);
        if (target == nullptr) return self->Finish(DataLoss("the relay says something else"));
        self->TakeTarget(target->address);
      });
}

void Puncher::TakeTarget(const std::string& address) {
  if (Status status = CheckPunchTarget(address, DigitsOf(relay_end_)); !status.ok()) {
    return Finish(std::move(status));
  }
  const auto parsed = ParseHostPort(address);
  Error error;
  const auto host = asio::ip::make_address(parsed.ok() ? parsed->host : "", error);
  if (error || (host.is_v4() != relay_end_.address().is_v4())) {
    return Finish(InvalidArgument("the relay names no address and port"));
  }
  target_ = {host, parsed->port};
  Listen();
  Connect();
}

// Where no router is between, or one that lets everybody in, the other end's try gets here before
// this end's own.
void Puncher::Listen() {
  Error error;
  const auto local = relay_.local_endpoint(error);
  if (error || OpenAt(&acceptor_, local)) return;
  acceptor_.listen(1, error);
  if (!error) Accept();
}

void Puncher::Accept() {
  acceptor_.async_accept([self = shared_from_this()](Error error, Tcp::socket socket) {
    if (error || !self->done_) return;
    const auto from = socket.remote_endpoint(error);
    if (!error && from == self->target_) return self->Finish(std::move(socket));
    self->Accept();  // a stranger
  });
}

void Puncher::Connect() {
  if (tries_++ == kPunchTries) return Finish(Unavailable("no try got through"));
  Error error;
  const auto local = relay_.local_endpoint(error);
  if (!error) error = OpenAt(&socket_, local);
  if (error) return Finish(Unavailable("the port is gone: " + error.message()));
  socket_.async_connect(target_, [self = shared_from_this()](Error failed) {
    if (!self->done_) return;
    if (!failed) return self->Finish(std::move(self->socket_));
    self->next_.expires_after(kPunchEvery);
    self->next_.async_wait([self](Error late) {
      if (!late && self->done_) self->Connect();
    });
  });
}

void Puncher::Finish(Result<Tcp::socket> result) {
  Error ignored;
  deadline_.cancel();
  next_.cancel();
  if (result.ok()) {
    (void)::fcntl(result->native_handle(), F_SETFD, FD_CLOEXEC);
    result->set_option(Tcp::no_delay(true), ignored);
  }
  relay_.close(ignored);
  socket_.close(ignored);
  acceptor_.close(ignored);
  if (done_) std::exchange(done_, nullptr)(std::move(result));
}

}  // namespace shoal::net
