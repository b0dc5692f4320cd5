// Sha256: streaming SHA-256, for fingerprints of text and tokenizers.

#ifndef SHOAL_DATASET_SHA256_H_
#define SHOAL_DATASET_SHA256_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace shoal::dataset {

using Sha256Digest = std::array<std::uint8_t, 32>;

// Thread: one at a time.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  void Update(std::string_view bytes);
  // The digest of everything given so far; the object is spent afterwards.
  Sha256Digest Finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// 64 lower-case hexadecimal digits.
std::string DigestToHex(const Sha256Digest& digest);
// False unless `hex` is 64 lower-case hexadecimal digits.
bool DigestFromHex(std::string_view hex, Sha256Digest* digest);

}  // namespace shoal::dataset

#endif  // SHOAL_DATASET_SHA256_H_
