// PostGuard: which POST requests may change something. A page of another origin must not, even if
// it reaches this port through the browser of the machine's user, and neither may who does not know
// the token.

#ifndef SHOAL_NET_HTTP_POST_GUARD_H_
#define SHOAL_NET_HTTP_POST_GUARD_H_

#include <optional>
#include <string>
#include <string_view>

#include "common/clock.h"
#include "net/http/http_server.h"

namespace shoal::net {

// Headers as sent; empty ones are missing.
struct PostHeaders {
  std::string_view host, origin, fetch_site, content_type, token;
  bool from_loopback = false;  // both the caller's address and the Host name
  bool has_origin = false;
};

// Thread: one.
class PostGuard {
 public:
  // An empty token: nobody may. `clock` outlives the guard.
  PostGuard(std::string token, const Clock* clock) : token_(std::move(token)), clock_(clock) {}

  // What a request is answered that may change nothing; nullopt: it may.
  std::optional<HttpResponse> Refuse(const PostHeaders& headers);

 private:
  bool TooManyWrong();

  const std::string token_;
  const Clock* const clock_;
  int wrong_ = 0;  // tokens since then
  TimePoint since_{};
};

}  // namespace shoal::net

#endif  // SHOAL_NET_HTTP_POST_GUARD_H_
