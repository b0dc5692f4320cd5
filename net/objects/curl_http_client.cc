// The only file that knows libcurl.

#include <curl/curl.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <utility>

#include "net/objects/http_request.h"

namespace shoal::net {
namespace {

constexpr long kConnectSeconds = 15;
constexpr std::size_t kHeaderBytesMax = 1024;  // of one that we read

struct Exchange {
  const HttpRequest& request;
  const std::stop_token& stop;
  HttpAnswer answer;
  std::uint64_t sent = 0;
  Status status;  // why a callback ended the transfer
};

std::size_t OnBody(char* bytes, std::size_t, std::size_t size, void* user) {
  Exchange& exchange = *static_cast<Exchange*>(user);
  // What a server says of an error is always let in.
  const std::size_t most = std::max<std::size_t>(exchange.request.answer_bytes_max, 64 << 10);
  if (exchange.answer.body.size() + size > most) {
    exchange.status = DataLoss("the answer is longer than what was asked for");
    return 0;
  }
  exchange.answer.body.append(bytes, size);
  return size;
}

std::size_t OnHeader(char* bytes, std::size_t, std::size_t size, void* user) {
  Exchange& exchange = *static_cast<Exchange*>(user);
  const std::string_view line(bytes, size);
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos || size > kHeaderBytesMax) return size;
  std::string name(line.substr(0, colon));
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
  std::string_view value = line.substr(colon + 1);
  while (!value.empty() && (value.front() == ' ' || value.front() == '\t')) value.remove_prefix(1);
  while (!value.empty() && static_cast<unsigned char>(value.back()) <= ' ') value.remove_suffix(1);
  if (name == "etag") exchange.answer.etag = value;
  if (name == "x-amz-bucket-region") exchange.answer.bucket_region = value;
  if (name == "content-length") {
    std::from_chars(value.data(), value.data() + value.size(), exchange.answer.content_length);
  }
  return size;
}

std::size_t OnRead(char* bytes, std::size_t, std::size_t size, void* user) {
  Exchange& exchange = *static_cast<Exchange*>(user);
  const HttpRequest& request = exchange.request;
  if (request.body_fd < 0) {
    const std::string_view rest = request.body.substr(exchange.sent);
    const std::size_t count = std::min(size, rest.size());
    std::copy_n(rest.data(), count, bytes);
    exchange.sent += count;
    return count;
  }
  const auto count =
      static_cast<std::size_t>(std::min<std::uint64_t>(size, request.body_bytes - exchange.sent));
  const auto offset = static_cast<off_t>(request.body_offset + exchange.sent);
  ssize_t got = -1;
  do {
    got = ::pread(request.body_fd, bytes, count, offset);
  } while (got < 0 && errno == EINTR);
  if (got < 0 || (got == 0 && count > 0)) {
    exchange.status = got < 0 ? FromErrno(errno, "read the file to be sent")
                              : DataLoss("the file was shortened while it was sent");
    return CURL_READFUNC_ABORT;
  }
  exchange.sent += static_cast<std::uint64_t>(got);
  return static_cast<std::size_t>(got);
}

// Where a server wants the body again, as after a connection that it had closed.
int OnSeek(void* user, curl_off_t offset, int origin) {
  if (origin != SEEK_SET || offset < 0) return CURL_SEEKFUNC_CANTSEEK;
  static_cast<Exchange*>(user)->sent = static_cast<std::uint64_t>(offset);
  return CURL_SEEKFUNC_OK;
}

int OnProgress(void* user, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  return static_cast<Exchange*>(user)->stop.stop_requested() ? 1 : 0;
}

struct FreeList {
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};
struct FreeHandle {
  void operator()(CURL* handle) const { curl_easy_cleanup(handle); }
};

class CurlHttpClient final : public HttpClient {
 public:
  CurlHttpClient(HttpOptions options, CURL* handle)
      : options_(std::move(options)), handle_(handle) {}

  Result<HttpAnswer> Send(const HttpRequest& request) override;

 private:
  void SetConnection();
  void SetSignature();
  void SetBody(const HttpRequest& request);
  void SetCallbacks(Exchange* exchange);

  const HttpOptions options_;
  const std::unique_ptr<CURL, FreeHandle> handle_;
};

void CurlHttpClient::SetConnection() {
  CURL* const curl = handle_.get();
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
  // A redirection would be signed for the wrong host, or go to one that nobody named.
  curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 0L);
  curl_easy_setopt(curl, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  curl_easy_setopt(curl, CURLOPT_PATH_AS_IS, 1L);
  curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, kConnectSeconds);
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
  const auto stall = std::chrono::duration_cast<std::chrono::seconds>(options_.stall).count();
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, std::max<long>(1, static_cast<long>(stall)));
  if (options_.loopback) curl_easy_setopt(curl, CURLOPT_NOPROXY, "*");
  if (!options_.ca_file.empty()) {
    curl_easy_setopt(curl, CURLOPT_CAINFO, options_.ca_file.c_str());
  }
}

void CurlHttpClient::SetSignature() {
  const ObjectCredentials& keys = options_.credentials;
  if (keys.key_id.empty()) return;
  CURL* const curl = handle_.get();
  const std::string signature = "aws:amz:" + options_.region + ":s3";
  curl_easy_setopt(curl, CURLOPT_AWS_SIGV4, signature.c_str());
  curl_easy_setopt(curl, CURLOPT_USERNAME, keys.key_id.c_str());
  curl_easy_setopt(curl, CURLOPT_PASSWORD, keys.secret_key.c_str());
}

void CurlHttpClient::SetBody(const HttpRequest& request) {
  CURL* const curl = handle_.get();
  if (request.method == "HEAD") {
    curl_easy_setopt(curl, CURLOPT_NOBODY, 1L);
  } else if (request.method == "PUT") {
    const std::uint64_t size = request.body_fd < 0 ? request.body.size() : request.body_bytes;
    curl_easy_setopt(curl, CURLOPT_UPLOAD, 1L);
    curl_easy_setopt(curl, CURLOPT_INFILESIZE_LARGE, static_cast<curl_off_t>(size));
  } else if (request.method == "POST") {
    curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE,
                     static_cast<curl_off_t>(request.body.size()));
    curl_easy_setopt(curl, CURLOPT_COPYPOSTFIELDS, request.body.empty() ? "" : request.body.data());
  } else if (request.method != "GET") {
    curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, request.method.c_str());
  }
  if (!request.range.empty()) curl_easy_setopt(curl, CURLOPT_RANGE, request.range.c_str());
}

void CurlHttpClient::SetCallbacks(Exchange* exchange) {
  CURL* const curl = handle_.get();
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, &OnBody);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, exchange);
  curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, &OnHeader);
  curl_easy_setopt(curl, CURLOPT_HEADERDATA, exchange);
  curl_easy_setopt(curl, CURLOPT_READFUNCTION, &OnRead);
  curl_easy_setopt(curl, CURLOPT_READDATA, exchange);
  curl_easy_setopt(curl, CURLOPT_SEEKFUNCTION, &OnSeek);
  curl_easy_setopt(curl, CURLOPT_SEEKDATA, exchange);
  curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, &OnProgress);
  curl_easy_setopt(curl, CURLOPT_XFERINFODATA, exchange);
  curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
}

Result<HttpAnswer> CurlHttpClient::Send(const HttpRequest& request) {
  CURL* const curl = handle_.get();
  curl_easy_reset(curl);  // its connections stay
  Exchange exchange{request, options_.stop, {}, 0, {}};
  char reason[CURL_ERROR_SIZE] = "";
  std::unique_ptr<curl_slist, FreeList> headers;
  for (const std::string& header : request.headers) {
    curl_slist* const longer = curl_slist_append(headers.get(), header.c_str());
    if (longer == nullptr) return ResourceExhausted("no memory for a request's headers");
    (void)headers.release();
    headers.reset(longer);
  }
  SetConnection();
  SetSignature();
  SetBody(request);
  SetCallbacks(&exchange);
  curl_easy_setopt(curl, CURLOPT_URL, request.url.c_str());
  curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers.get());
  curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, reason);
  const CURLcode code = curl_easy_perform(curl);
  curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, nullptr);
  if (options_.stop.stop_requested()) return Cancelled("told to stop");
  if (!exchange.status.ok()) return exchange.status;
  if (code != CURLE_OK) {
    const std::string text = *reason != '\0' ? reason : curl_easy_strerror(code);
    // Nothing mends a certificate that is not the host's by asking again.
    const bool untrusted =
        code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CACERT_BADFILE;
    return untrusted ? Unauthenticated(text) : Unavailable(text);
  }
  curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &exchange.answer.status);
  return std::move(exchange.answer);
}

}  // namespace

Result<std::unique_ptr<HttpClient>> NewHttpClient(HttpOptions options) {
  static const bool ready = curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
  CURL* const handle = ready ? curl_easy_init() : nullptr;
  if (handle == nullptr) return ResourceExhausted("no memory for an HTTP client");
  return std::unique_ptr<HttpClient>(std::make_unique<CurlHttpClient>(std::move(options), handle));
}

}  // namespace shoal::net
