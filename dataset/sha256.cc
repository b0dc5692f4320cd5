#include "dataset/sha256.h"

#include <sodium.h>

namespace shoal::dataset {

struct Sha256::State {
  crypto_hash_sha256_state value;
};

Sha256::Sha256() : state_(std::make_unique<State>()) { crypto_hash_sha256_init(&state_->value); }
Sha256::~Sha256() = default;

void Sha256::Update(std::string_view bytes) {
  crypto_hash_sha256_update(&state_->value, reinterpret_cast<const unsigned char*>(bytes.data()),
                            bytes.size());
}

Sha256Digest Sha256::Finish() {
  static_assert(crypto_hash_sha256_BYTES == std::tuple_size_v<Sha256Digest>);
  Sha256Digest digest;
  crypto_hash_sha256_final(&state_->value, digest.data());
  return digest;
}

std::string DigestToHex(const Sha256Digest& digest) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  for (const std::uint8_t byte : digest) {
    hex.push_back(kDigits[byte >> 4]);
    hex.push_back(kDigits[byte & 15]);
  }
  return hex;
}

bool DigestFromHex(std::string_view hex, Sha256Digest* digest) {
  if (hex.size() != 2 * digest->size()) return false;
  for (std::size_t i = 0; i < hex.size(); ++i) {
    const char c = hex[i];
    int value = 0;
    if (c >= '0' && c <= '9') {
      value = c - '0';
    } else if (c >= 'a' && c <= 'f') {
      value = c - 'a' + 10;
    } else {
      return false;
    }
    std::uint8_t& byte = (*digest)[i / 2];
    byte = static_cast<std::uint8_t>(i % 2 == 0 ? value << 4 : byte | value);
  }
  return true;
}

}  // namespace shoal::dataset
