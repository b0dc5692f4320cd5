// What one rendering of a chat template may take, and what it has taken.

#ifndef SHOAL_DATASET_CHAT_CHAT_WORK_H_
#define SHOAL_DATASET_CHAT_CHAT_WORK_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "common/status.h"

namespace shoal::dataset {

// Bytes [begin, end) of a text.
struct ByteRange {
  std::size_t begin = 0;
  std::size_t end = 0;

  bool operator==(const ByteRange&) const = default;
};

struct ChatLimits {
  std::uint64_t steps = 20'000'000;                   // about what is evaluated and compared
  std::uint64_t made_bytes = std::uint64_t{1} << 28;  // of all strings and lists on the way
  std::size_t text_bytes = std::size_t{1} << 26;      // of the result
};

class ChatWork {
 public:
  explicit ChatWork(const ChatLimits& limits) : limits_(limits) {}

  // Called before the work is done, and before the memory is taken.
  Status Step(std::uint64_t steps = 1) {
    steps_ += steps;
    if (steps_ <= limits_.steps) return Status::Ok();
    return ResourceExhausted("it takes more than " + std::to_string(limits_.steps) + " steps");
  }
  Status Make(std::uint64_t bytes) {
    made_bytes_ += bytes;
    if (made_bytes_ <= limits_.made_bytes) return Status::Ok();
    return ResourceExhausted("it makes more than " + std::to_string(limits_.made_bytes) +
                             " bytes of values");
  }
  // Reading a string of so many bytes.
  Status Read(std::uint64_t bytes) { return Step(1 + bytes / kBytesPerStep); }
  // Searching `needle_bytes` in `text_bytes`, at worst.
  Status Search(std::uint64_t text_bytes, std::uint64_t needle_bytes) {
    return Step(1 + text_bytes / kBytesPerStep * (1 + needle_bytes));
  }
  const ChatLimits& limits() const { return limits_; }

 private:
  static constexpr std::uint64_t kBytesPerStep = 256;

  const ChatLimits limits_;
  std::uint64_t steps_ = 0;
  std::uint64_t made_bytes_ = 0;
};

}  // namespace shoal::dataset

#endif  // SHOAL_DATASET_CHAT_CHAT_WORK_H_
