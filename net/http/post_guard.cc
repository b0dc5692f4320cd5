#include "net/http/post_guard.h"

#include <sodium.h>

#include <chrono>

namespace shoal::net {
namespace {

// A person who follows an old link errs once or twice.
constexpr int kWrongTokensMax = 10;
constexpr Duration kWrongTokensTime = std::chrono::minutes(1);
constexpr const char* kPlain = "text/plain; charset=utf-8";

bool IsJson(std::string_view content_type) {
  content_type = content_type.substr(0, content_type.find(';'));
  while (content_type.ends_with(' ')) content_type.remove_suffix(1);
  return content_type == "application/json";
}

bool Same(std::string_view given, const std::string& wanted) {
  return given.size() == wanted.size() &&
         sodium_memcmp(given.data(), wanted.data(), wanted.size()) == 0;
}

}  // namespace

std::optional<HttpResponse> PostGuard::Refuse(const PostHeaders& headers) {
  if (token_.empty()) return HttpResponse{405, kPlain, "only GET is answered here\n"};
  if (!headers.from_loopback) {
    return HttpResponse{403, kPlain,
                        "settings are changed from the machine itself, under a loopback name\n"};
  }
  // Browsers name the page that asks; whoever sends neither is a program of the machine's users.
  const bool own_origin =
      !headers.has_origin || headers.origin == "http://" + std::string(headers.host);
  const bool own_site = headers.fetch_site.empty() || headers.fetch_site == "same-origin";
  if (!own_origin || !own_site) {
    return HttpResponse{403, kPlain, "another page may change nothing here\n"};
  }
  if (!IsJson(headers.content_type)) {
    return HttpResponse{415, kPlain, "send JSON, as Content-Type: application/json\n"};
  }
  if (TooManyWrong()) {
    return HttpResponse{429, kPlain, "too many wrong tokens; wait a minute\n"};
  }
  if (Same(headers.token, token_)) return std::nullopt;
  ++wrong_;
  return HttpResponse{403, kPlain,
                      "the token is wrong or of an earlier start of shoald; `shoal page` prints a "
                      "link with the one that holds\n"};
}

bool PostGuard::TooManyWrong() {
  const TimePoint now = clock_->Now();
  if (now - since_ >= kWrongTokensTime) {
    since_ = now;
    wrong_ = 0;
  }
  return wrong_ >= kWrongTokensMax;
}

}  // namespace shoal::net
