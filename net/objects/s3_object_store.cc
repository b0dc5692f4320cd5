#include "net/objects/s3_object_store.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "common/open_file.h"
#include "common/regular_file.h"
#include "net/objects/http_request.h"
#include "net/objects/object_address.h"
#include "net/objects/s3_answers.h"

namespace shoal::net {
namespace {

constexpr std::size_t kListingBytesMax = 8 << 20;
constexpr std::size_t kPartsMax = 10'000;                       // the service's limit
constexpr std::uint64_t kPutBytesMax = std::uint64_t{5} << 30;  // of one request, the service's
constexpr std::size_t kHashedBytes = 1 << 20;
constexpr Duration kFirstPause = std::chrono::milliseconds(200);
constexpr Duration kLongestPause = std::chrono::seconds(10);

class Sha256 {
 public:
  Sha256() : context_(EVP_MD_CTX_new()) {
    ok_ = context_ != nullptr && EVP_DigestInit_ex(context_, EVP_sha256(), nullptr) == 1;
  }
  ~Sha256() { EVP_MD_CTX_free(context_); }
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void Add(std::string_view bytes) {
    ok_ = ok_ && EVP_DigestUpdate(context_, bytes.data(), bytes.size()) == 1;
  }
  std::string Hex() {
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned size = 0;
    SHOAL_CHECK(ok_ && EVP_DigestFinal_ex(context_, digest, &size) == 1);
    constexpr std::string_view kDigits = "0123456789abcdef";
    std::string hex;
    for (unsigned i = 0; i < size; ++i) hex += {kDigits[digest[i] >> 4], kDigits[digest[i] & 15]};
    return hex;
  }

 private:
  EVP_MD_CTX* const context_;
  bool ok_ = false;
};

Result<std::string> HashPart(int fd, std::uint64_t offset, std::uint64_t size,
                             const std::string& path) {
  Sha256 hash;
  std::string piece(kHashedBytes, '\0');
  for (std::uint64_t done = 0; done < size;) {
    const auto want = static_cast<std::size_t>(std::min<std::uint64_t>(piece.size(), size - done));
    const ssize_t got = ::pread(fd, piece.data(), want, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return FromErrno(errno, "read " + path);
    if (got == 0) return DataLoss(path + " was shortened while it was read");
    hash.Add(std::string_view(piece).substr(0, static_cast<std::size_t>(got)));
    done += static_cast<std::uint64_t>(got);
  }
  return hash.Hex();
}

// What may pass by itself.
bool IsWorthAnotherTry(const HttpAnswer& answer) {
  return answer.status >= 500 || answer.status == 408 || answer.status == 429 ||
         (answer.status == 400 && ParseS3Error(answer.body).code == "RequestTimeout");
}

class S3ObjectStore final : public ObjectStore {
 public:
  S3ObjectStore(ObjectStoreOptions options, ObjectAddress address, const ObjectEndpoint& endpoint,
                std::unique_ptr<HttpClient> client)
      : options_(std::move(options)),
        prefix_(address.prefix.empty() ? "" : address.prefix + "/"),
        bucket_url_(endpoint.url + "/" + address.bucket),
        client_(std::move(client)) {}

  const std::string& address() const override { return options_.address; }
  Status PutBytes(const std::string& key, std::string_view bytes) override;
  Status PutFile(const std::string& key, const std::string& path) override;
  Result<ObjectInfo> Head(const std::string& key) override;
  Result<std::string> Get(const std::string& key, std::uint64_t offset, std::size_t size) override;
  Result<std::vector<ObjectInfo>> List(const std::string& prefix) override;
  Status Delete(const std::string& key) override;

 private:
  // Of a key, with a query in canonical form: sorted, "name=value", encoded. Invalid argument: it
  // is no key.
  Result<HttpRequest> Make(const std::string& method, const std::string& key,
                           const std::string& query = "") const;
  // Tries again while that may help; any answer below 300, and those that `allowed` names.
  Result<HttpAnswer> Send(HttpRequest request, const std::string& payload_hash, long allowed = 0);
  Status Refused(const HttpRequest& request, const HttpAnswer& answer) const;
  Status PutParts(const std::string& key, int fd, std::uint64_t size, const std::string& path);
  Result<std::string> PutPart(const std::string& key, const std::string& id, std::size_t number,
                              int fd, std::uint64_t offset, std::uint64_t size,
                              const std::string& path);
  Status Join(const std::string& key, const std::string& id, const std::vector<std::string>& etags);

  const ObjectStoreOptions options_;
  const std::string prefix_, bucket_url_;
  const std::unique_ptr<HttpClient> client_;
  const std::string empty_hash_ = Sha256().Hex();
};

Result<HttpRequest> S3ObjectStore::Make(const std::string& method, const std::string& key,
                                        const std::string& query) const {
  if (!IsObjectKey(key)) return InvalidArgument("'" + key + "' is no key of an object");
  HttpRequest request;
  request.method = method;
  request.url = bucket_url_ + "/" + prefix_ + key + (query.empty() ? "" : "?" + query);
  return request;
}

Result<HttpAnswer> S3ObjectStore::Send(HttpRequest request, const std::string& payload_hash,
                                       long allowed) {
  request.headers.push_back("x-amz-content-sha256: " + payload_hash);
  if (!options_.credentials.session_token.empty()) {
    request.headers.push_back("x-amz-security-token: " + options_.credentials.session_token);
  }
  Status failed;
  Duration pause = kFirstPause;
  for (int tried = 0; tried < options_.tries; ++tried) {
    if (tried > 0) {
      options_.wait(pause);
      pause = std::min<Duration>(2 * pause, kLongestPause);
    }
    if (options_.stop.stop_requested()) return Cancelled(address() + ": told to stop");
    Result<HttpAnswer> answer = client_->Send(request);
    if (!answer.ok()) {
      if (answer.status().code() != StatusCode::kUnavailable) {
        return answer.status().WithContext(address());
      }
      failed = answer.status().WithContext(address());
      continue;
    }
    if (answer->status < 300 || answer->status == allowed) return answer;
    failed = Refused(request, *answer);
    if (!IsWorthAnotherTry(*answer)) return failed;
  }
  return failed;
}

Status S3ObjectStore::Refused(const HttpRequest& request, const HttpAnswer& answer) const {
  const S3Error error = ParseS3Error(answer.body);
  std::string text = address() + ": the store answered " + request.method + " with " +
                     std::to_string(answer.status);
  if (!error.code.empty()) text += " " + error.code;
  if (!error.message.empty()) text += " (" + error.message + ")";
  if (!answer.bucket_region.empty()) text += "; the bucket's region is " + answer.bucket_region;
  if (answer.status < 400 || (answer.status == 400 && !answer.bucket_region.empty())) {
    return FailedPrecondition(text + "; set endpoint and region to those of the bucket");
  }
  if (error.code == "NoSuchBucket") return FailedPrecondition(text + "; make the bucket first");
  if (answer.status == 404) return NotFound(text);
  if (answer.status == 401 || answer.status == 403) {
    return PermissionDenied(text +
                            (options_.credentials.key_id.empty()
                                 ? "; AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are not set"
                                 : "; see that AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, the "
                                   "region and the clock are right, and that the key may "
                                   "read, write, list and delete there"));
  }
  if (IsWorthAnotherTry(answer)) return Unavailable(text);
  return FailedPrecondition(text);
}

Status S3ObjectStore::PutBytes(const std::string& key, std::string_view bytes) {
  SHOAL_ASSIGN_OR_RETURN(HttpRequest request, Make("PUT", key));
  request.body = bytes;
  Sha256 hash;
  hash.Add(bytes);
  return Send(std::move(request), hash.Hex()).status();
}

Status S3ObjectStore::PutFile(const std::string& key, const std::string& path) {
  struct stat info {};
  SHOAL_ASSIGN_OR_RETURN(const int fd, OpenRegularFile(path, &info));
  const OpenFile file(fd);
  const auto size = static_cast<std::uint64_t>(info.st_size);
  if (size > options_.part_bytes) return PutParts(key, file.fd(), size, path);
  SHOAL_ASSIGN_OR_RETURN(HttpRequest request, Make("PUT", key));
  SHOAL_ASSIGN_OR_RETURN(const std::string hash, HashPart(file.fd(), 0, size, path));
  request.body_fd = file.fd();
  request.body_bytes = size;
  return Send(std::move(request), hash).status();
}

Status S3ObjectStore::PutParts(const std::string& key, int fd, std::uint64_t size,
                               const std::string& path) {
  const std::uint64_t least = (size + kPartsMax - 1) / kPartsMax;
  const std::uint64_t part = std::max(options_.part_bytes, least);
  if (part > kPutBytesMax) return ResourceExhausted(path + " is too large for the store");
  SHOAL_ASSIGN_OR_RETURN(HttpRequest begin, Make("POST", key, "uploads="));
  begin.answer_bytes_max = 64 << 10;
  SHOAL_ASSIGN_OR_RETURN(const HttpAnswer begun, Send(std::move(begin), empty_hash_));
  SHOAL_ASSIGN_OR_RETURN(const std::string id, ParseS3UploadId(begun.body));
  std::vector<std::string> etags;
  Status status;
  for (std::uint64_t offset = 0; offset < size && status.ok(); offset += part) {
    auto etag = PutPart(key, id, etags.size() + 1, fd, offset, std::min(part, size - offset), path);
    status = etag.status();
    if (etag.ok()) etags.push_back(*std::move(etag));
  }
  if (status.ok()) status = Join(key, id, etags);
  if (status.ok() || options_.stop.stop_requested()) return status;
  // Parts cost as objects do. Where this fails, too, the service's own rules clean up.
  auto give_up = Make("DELETE", key, "uploadId=" + EncodePercent(id));
  if (give_up.ok()) (void)Send(*std::move(give_up), empty_hash_);
  return status;
}

Result<std::string> S3ObjectStore::PutPart(const std::string& key, const std::string& id,
                                           std::size_t number, int fd, std::uint64_t offset,
                                           std::uint64_t size, const std::string& path) {
  SHOAL_ASSIGN_OR_RETURN(
      HttpRequest request,
      Make("PUT", key, "partNumber=" + std::to_string(number) + "&uploadId=" + EncodePercent(id)));
  SHOAL_ASSIGN_OR_RETURN(const std::string hash, HashPart(fd, offset, size, path));
  request.body_fd = fd;
  request.body_offset = offset;
  request.body_bytes = size;
  SHOAL_ASSIGN_OR_RETURN(const HttpAnswer answer, Send(std::move(request), hash));
  const bool plain = std::ranges::all_of(
      answer.etag, [](char c) { return c > ' ' && c < 0x7f && c != '<' && c != '>' && c != '&'; });
  if (answer.etag.empty() || !plain) {
    return DataLoss(address() + ": the store took a part without naming it");
  }
  return answer.etag;
}

Status S3ObjectStore::Join(const std::string& key, const std::string& id,
                           const std::vector<std::string>& etags) {
  std::string body = "<CompleteMultipartUpload>";
  for (std::size_t i = 0; i < etags.size(); ++i) {
    body += "<Part><PartNumber>" + std::to_string(i + 1) + "</PartNumber><ETag>" + etags[i] +
            "</ETag></Part>";
  }
  body += "</CompleteMultipartUpload>";
  Sha256 hash;
  hash.Add(body);
  const std::string payload_hash = hash.Hex();
  Status status;
  for (int tried = 0; tried < options_.tries; ++tried) {
    if (tried > 0) options_.wait(kFirstPause);
    SHOAL_ASSIGN_OR_RETURN(HttpRequest request, Make("POST", key, "uploadId=" + EncodePercent(id)));
    request.headers.push_back("Content-Type: application/xml");
    request.body = body;
    request.answer_bytes_max = 64 << 10;
    SHOAL_ASSIGN_OR_RETURN(const HttpAnswer answer, Send(std::move(request), payload_hash, 404));
    if (answer.status == 404) {  // a try before it succeeded, and its answer was lost
      const auto there = Head(key);
      return there.ok() ? Status::Ok() : there.status();
    }
    status = ParseS3Completed(answer.body).WithContext(address());
    if (status.code() != StatusCode::kUnavailable) return status;
  }
  return status;
}

Result<ObjectInfo> S3ObjectStore::Head(const std::string& key) {
  SHOAL_ASSIGN_OR_RETURN(HttpRequest request, Make("HEAD", key));
  SHOAL_ASSIGN_OR_RETURN(const HttpAnswer answer, Send(std::move(request), empty_hash_));
  return ObjectInfo{key, answer.content_length};
}

Result<std::string> S3ObjectStore::Get(const std::string& key, std::uint64_t offset,
                                       std::size_t size) {
  if (size == 0) return std::string();
  SHOAL_ASSIGN_OR_RETURN(HttpRequest request, Make("GET", key));
  request.range = std::to_string(offset) + "-" + std::to_string(offset + size - 1);
  request.answer_bytes_max = size;
  SHOAL_ASSIGN_OR_RETURN(HttpAnswer answer, Send(std::move(request), empty_hash_, 416));
  if (answer.status == 416) return std::string();
  if (answer.status != 206 && offset > 0) {
    return FailedPrecondition(address() + ": the store does not give parts of objects");
  }
  if (answer.body.size() > size) answer.body.resize(size);
  return std::move(answer.body);
}

Result<std::vector<ObjectInfo>> S3ObjectStore::List(const std::string& prefix) {
  std::vector<ObjectInfo> found;
  std::string next;
  do {
    HttpRequest request;
    request.url = bucket_url_ + "?";
    if (!next.empty()) request.url += "continuation-token=" + EncodePercent(next) + "&";
    request.url += "encoding-type=url&list-type=2&max-keys=1000&prefix=";
    request.url += EncodePercent(prefix_ + prefix);
    request.answer_bytes_max = kListingBytesMax;
    SHOAL_ASSIGN_OR_RETURN(const HttpAnswer answer, Send(std::move(request), empty_hash_));
    auto page = ParseS3Listing(answer.body);
    if (!page.ok()) return page.status().WithContext(address());
    if (page->next == next && !next.empty()) {
      return DataLoss(address() + ": a listing does not end");
    }
    for (ObjectInfo& object : page->objects) {
      if (!object.key.starts_with(prefix_ + prefix)) continue;
      object.key.erase(0, prefix_.size());
      if (!IsObjectKey(object.key)) continue;
      if (found.size() == kObjectsListedMax) {
        return ResourceExhausted(address() + " holds more objects than can be listed");
      }
      found.push_back(std::move(object));
    }
    next = std::move(page->next);
  } while (!next.empty());
  std::ranges::sort(found, {}, &ObjectInfo::key);
  return found;
}

Status S3ObjectStore::Delete(const std::string& key) {
  SHOAL_ASSIGN_OR_RETURN(HttpRequest request, Make("DELETE", key));
  return Send(std::move(request), empty_hash_, 404).status();
}

}  // namespace

Result<std::unique_ptr<ObjectStore>> OpenS3ObjectStore(ObjectStoreOptions options) {
  SHOAL_ASSIGN_OR_RETURN(ObjectAddress address, ParseObjectAddress(options.address));
  SHOAL_ASSIGN_OR_RETURN(const ObjectEndpoint endpoint,
                         ParseObjectEndpoint(options.endpoint, options.region, options.plain_http));
  for (const std::string* text : {&options.credentials.key_id, &options.credentials.secret_key,
                                  &options.credentials.session_token}) {
    if (text->find_first_of("\r\n") != std::string::npos) {
      return InvalidArgument("a key of the store has more than one line");
    }
  }
  HttpOptions http;
  http.loopback = endpoint.loopback;
  http.region = options.region;
  http.credentials = options.credentials;
  http.ca_file = options.ca_file;
  http.stall = options.stall;
  http.stop = options.stop;
  SHOAL_ASSIGN_OR_RETURN(auto client, NewHttpClient(std::move(http)));
  return std::unique_ptr<ObjectStore>(std::make_unique<S3ObjectStore>(
      std::move(options), std::move(address), endpoint, std::move(client)));
}

}  // namespace shoal::net
