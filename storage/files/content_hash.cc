#include "storage/files/content_hash.h"

#include <sodium.h>
#include <unistd.h>

#include <cerrno>
#include <vector>

#include "common/regular_file.h"

namespace shoal::storage {
namespace {

constexpr std::size_t kPieceBytes = 1 << 20;

class Hasher {
 public:
  Hasher() {
    // Chooses the fastest implementation for this processor; calling it again costs nothing.
    SHOAL_CHECK(sodium_init() >= 0);
    crypto_generichash_init(&state_, nullptr, 0, sizeof(ContentHash::digest));
  }
  void Add(std::span<const std::byte> bytes) {
    crypto_generichash_update(&state_, reinterpret_cast<const unsigned char*>(bytes.data()),
                              bytes.size());
  }
  ContentHash Finish() {
    ContentHash hash;
    crypto_generichash_final(&state_, hash.digest.data(), hash.digest.size());
    return hash;
  }

 private:
  crypto_generichash_state state_;
};

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

}  // namespace

std::string ContentHash::ToHex() const {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  hex.reserve(2 * digest.size());
  for (const std::uint8_t byte : digest) {
    hex.push_back(kDigits[byte >> 4]);
    hex.push_back(kDigits[byte & 15]);
  }
  return hex;
}

Result<ContentHash> ContentHash::FromHex(std::string_view hex) {
  ContentHash hash;
  bool good = hex.size() == 2 * hash.digest.size();
  for (std::size_t i = 0; good && i < hash.digest.size(); ++i) {
    const int high = HexDigit(hex[2 * i]);
    const int low = HexDigit(hex[2 * i + 1]);
    good = high >= 0 && low >= 0;
    if (good) hash.digest[i] = static_cast<std::uint8_t>(high << 4 | low);
  }
  if (!good) return InvalidArgument("a content hash is 64 lower-case hexadecimal digits");
  return hash;
}

ContentHash HashOf(std::span<const std::byte> bytes) {
  Hasher hasher;
  hasher.Add(bytes);
  return hasher.Finish();
}

Result<FileHash> HashDescriptor(int fd, const std::string& path) {
  Hasher hasher;
  FileHash result;
  std::vector<std::byte> piece(kPieceBytes);
  for (;;) {
    const ssize_t got = ::pread(fd, piece.data(), piece.size(), static_cast<off_t>(result.size));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return FromErrno(errno, "read " + path);
    if (got == 0) break;
    hasher.Add(std::span(piece).first(static_cast<std::size_t>(got)));
    result.size += static_cast<std::uint64_t>(got);
  }
  result.hash = hasher.Finish();
  return result;
}

Result<FileHash> HashFile(const std::string& path) {
  SHOAL_ASSIGN_OR_RETURN(const int fd, OpenRegularFile(path));
  Result<FileHash> hash = HashDescriptor(fd, path);
  ::close(fd);
  return hash;
}

}  // namespace shoal::storage
