#include "net/relay/splice-inl.h"

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/write.hpp>

#include "net/pacing/socket_tuning.h"

namespace shoal::net {
namespace {

namespace asio = boost::asio;
using Error = boost::system::error_code;

constexpr int kUnsentBytes = 128 * 1024;

}  // namespace

Splice::Splice(Socket one, Socket other, std::vector<std::shared_ptr<RateLimiter>> limiters,
               Hooks hooks)
    : one_(std::move(one)),
      other_(std::move(other)),
      limiters_(std::move(limiters)),
      hooks_(std::move(hooks)),
      watch_(one_.get_executor()) {}

void Splice::Start(std::string first, std::string answer, int one_window_bytes) {
  LimitWaiting(one_.native_handle(), one_window_bytes, kUnsentBytes);
  LimitWaiting(other_.native_handle(), kWindowBytes, kUnsentBytes);
  Watch();
  there_.bytes = std::min(first.size(), there_.buffer.size());
  std::copy_n(first.begin(), there_.bytes, there_.buffer.begin());
  there_.bytes > 0 ? Pay(&there_) : Read(&there_);
  answer_ = std::move(answer);
  asio::async_write(one_, asio::buffer(answer_),
                    [self = shared_from_this()](Error error, std::size_t) {
                      error ? self->End() : self->Read(&self->back_);
                    });
}

void Splice::Read(Way* way) {
  way->from->async_read_some(asio::buffer(way->buffer),
                             [self = shared_from_this(), way](Error error, std::size_t bytes) {
                               if (error) return self->Over(way);
                               way->bytes = bytes;
                               self->Pay(way);
                             });
}

void Splice::Pay(Way* way) {
  moved_ = true;
  way->limiter = 0;
  if (!limiters_.empty()) way->ticket = limiters_[0]->Take(way->bytes);
  Wait(way);
}

void Splice::Wait(Way* way) {
  if (ended_) return;  // a read was done just before
  while (way->limiter < limiters_.size()) {
    const Duration wait = limiters_[way->limiter]->WaitFor(way->ticket);
    if (wait > Duration::zero()) {
      way->timer.expires_after(wait);
      way->timer.async_wait([self = shared_from_this(), way](Error error) {
        if (!error) self->Wait(way);
      });
      return;
    }
    if (++way->limiter < limiters_.size()) {
      way->ticket = limiters_[way->limiter]->Take(way->bytes);
    }
  }
  Write(way);
}

void Splice::Write(Way* way) {
  asio::async_write(*way->to, asio::buffer(way->buffer.data(), way->bytes),
                    [self = shared_from_this(), way](Error error, std::size_t bytes) {
                      if (self->hooks_.on_bytes) self->hooks_.on_bytes(bytes);
                      if (error) return self->End();
                      self->moved_ = true;
                      self->Read(way);
                    });
}

void Splice::Over(Way* way) {
  way->over = true;
  Error ignored;
  way->to->shutdown(Socket::shutdown_send, ignored);
  if (there_.over && back_.over) End();
}

void Splice::Watch() {
  watch_.expires_after(kSilence);
  watch_.async_wait([self = shared_from_this()](Error error) {
    if (error || self->ended_) return;
    if (!std::exchange(self->moved_, false)) return self->End();
    self->Watch();
  });
}

void Splice::End() {
  if (std::exchange(ended_, true)) return;
  Error ignored;
  one_.close(ignored);
  other_.close(ignored);
  there_.timer.cancel();
  back_.timer.cancel();
  watch_.cancel();
  if (hooks_.on_end) std::exchange(hooks_.on_end, nullptr)();
}

}  // namespace shoal::net
