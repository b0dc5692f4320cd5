#include "net/objects/object_address.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <filesystem>

#include "net/objects/object_store.h"

namespace shoal::net {
namespace {

constexpr std::size_t kPrefixBytesMax = 256;
constexpr std::size_t kHostBytesMax = 253;

bool IsSmall(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); }
bool IsPlain(char c) {
  return IsSmall(c) || (c >= 'A' && c <= 'Z') || c == '.' || c == '_' || c == '-';
}

bool IsPath(std::string_view path) {
  while (true) {
    const std::size_t slash = path.find('/');
    const std::string_view part = path.substr(0, slash);
    if (part.empty() || part == "." || part == "..") return false;
    if (!std::ranges::all_of(part, IsPlain)) return false;
    if (slash == std::string_view::npos) return true;
    path.remove_prefix(slash + 1);
  }
}

bool IsBucket(std::string_view name) {
  return name.size() >= 3 && name.size() <= 63 && IsSmall(name.front()) && IsSmall(name.back()) &&
         name.find("..") == std::string_view::npos &&
         std::ranges::all_of(name, [](char c) { return IsSmall(c) || c == '.' || c == '-'; });
}

Status Wrong(std::string_view text) {
  return InvalidArgument("'" + std::string(text.substr(0, 300)) +
                         "' is no store; write s3://BUCKET/PREFIX, of letters, digits and . _ - , "
                         "or file:///FOLDER");
}

// host, host:port, [v6], [v6]:port; the host without brackets, "" if it is none of these.
std::string HostOf(std::string_view authority) {
  std::string_view host = authority, port;
  if (authority.starts_with('[')) {
    const std::size_t end = authority.find(']');
    if (end == std::string_view::npos) return "";
    host = authority.substr(1, end - 1);
    port = authority.substr(end + 1);
    const bool address = std::ranges::all_of(host, [](char c) {
      return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F') ||
             c == ':' || c == '.';
    });
    if (!address) return "";
  } else {
    const std::size_t colon = authority.find(':');
    host = authority.substr(0, colon);
    port = colon == std::string_view::npos ? "" : authority.substr(colon);
    if (!std::ranges::all_of(host, IsPlain)) return "";
  }
  if (!port.empty()) {
    std::uint16_t number = 0;
    const char* const end = port.data() + port.size();
    const auto [rest, error] = std::from_chars(port.data() + 1, end, number);
    if (port.front() != ':' || error != std::errc() || rest != end || number == 0) return "";
  }
  return host.size() <= kHostBytesMax ? std::string(host) : "";
}

bool IsLoopback(const std::string& host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

}  // namespace

bool IsObjectKey(std::string_view key) {
  return !key.empty() && key.size() <= kObjectKeyBytesMax && IsPath(key);
}

Result<ObjectAddress> ParseObjectAddress(std::string_view text) {
  ObjectAddress address;
  if (text.starts_with("file://")) {
    const std::filesystem::path folder(text.substr(7));
    if (!folder.is_absolute() || folder != folder.lexically_normal() ||
        text.find('\0') != std::string_view::npos) {
      return Wrong(text);
    }
    address.folder = folder.string();
    while (address.folder.size() > 1 && address.folder.ends_with('/')) address.folder.pop_back();
    return address;
  }
  if (!text.starts_with("s3://")) return Wrong(text);
  const std::string_view rest = text.substr(5);
  const std::size_t slash = rest.find('/');
  address.bucket = rest.substr(0, slash);
  if (slash != std::string_view::npos) address.prefix = rest.substr(slash + 1);
  if (address.prefix.ends_with('/')) address.prefix.pop_back();
  const bool prefix_fits = address.prefix.empty() ||
                           (address.prefix.size() <= kPrefixBytesMax && IsPath(address.prefix));
  if (!IsBucket(address.bucket) || !prefix_fits) return Wrong(text);
  return address;
}

Status CheckObjectRegion(std::string_view region) {
  const bool fits = !region.empty() && region.size() <= 64 &&
                    std::ranges::all_of(region, [](char c) { return IsSmall(c) || c == '-'; });
  if (fits) return Status::Ok();
  return InvalidArgument("'" + std::string(region.substr(0, 80)) +
                         "' is no region; write one like us-east-1, or auto where the service "
                         "says so");
}

Result<ObjectEndpoint> ParseObjectEndpoint(std::string_view text, std::string_view region,
                                           bool plain_http) {
  SHOAL_RETURN_IF_ERROR(CheckObjectRegion(region));
  ObjectEndpoint endpoint;
  if (text.empty()) {
    endpoint.host = "s3." + std::string(region) + ".amazonaws.com";
    endpoint.url = "https://" + endpoint.host;
    return endpoint;
  }
  if (text.ends_with('/')) text.remove_suffix(1);
  const bool plain = text.starts_with("http://");
  if (plain || text.starts_with("https://")) endpoint.host = HostOf(text.substr(plain ? 7 : 8));
  if (endpoint.host.empty()) {
    return InvalidArgument("'" + std::string(text.substr(0, 300)) +
                           "' is no endpoint; write https://HOST or https://HOST:PORT");
  }
  endpoint.url = text;
  endpoint.loopback = IsLoopback(endpoint.host);
  if (plain && !endpoint.loopback && !plain_http) {
    return InvalidArgument(endpoint.url +
                           " is not encrypted: anybody on the way reads the model; write https://, "
                           "or allow it with plain_http = true on a line that is yours alone");
  }
  return endpoint;
}

}  // namespace shoal::net
