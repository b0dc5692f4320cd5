// A slow, obvious reader of GGUF version 3, for tests: every field in order, with gtest's failures.

#ifndef SHOAL_TESTS_SUPPORT_GGUF_READER_H_
#define SHOAL_TESTS_SUPPORT_GGUF_READER_H_

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

namespace shoal::test_support {

struct GgufTensorRead {
  std::uint32_t type = 0;
  std::vector<std::uint64_t> dimensions;  // the contiguous one first, as in the file
  std::string bytes;

  std::uint64_t values() const {
    std::uint64_t product = 1;
    for (const std::uint64_t size : dimensions) product *= size;
    return product;
  }
  // F32, F16 and Q8_0 as numbers.
  std::vector<double> Numbers() const;
};

struct GgufRead {
  std::vector<std::string> keys;              // in order
  std::map<std::string, std::string> values;  // as text; of arrays each element and a '|'
  std::vector<std::string> names;             // of tensors, in order
  std::map<std::string, GgufTensorRead> tensors;
  std::size_t header_bytes = 0;  // before the data
};

class GgufReader {
 public:
  explicit GgufReader(std::string bytes) : bytes_(std::move(bytes)) {}

  GgufRead Read() {
    GgufRead read;
    EXPECT_EQ(Take(4), "GGUF");
    EXPECT_EQ(Number<std::uint32_t>(), 3u);
    const auto tensors = Number<std::uint64_t>();
    const auto keys = Number<std::uint64_t>();
    for (std::uint64_t i = 0; i < keys; ++i) {
      read.keys.push_back(Text());
      read.values[read.keys.back()] = Value(Number<std::uint32_t>());
    }
    std::vector<std::uint64_t> offsets;
    for (std::uint64_t i = 0; i < tensors; ++i) {
      read.names.push_back(Text());
      GgufTensorRead& tensor = read.tensors[read.names.back()];
      const auto dimensions = Number<std::uint32_t>();
      for (std::uint32_t d = 0; d < dimensions; ++d) {
        tensor.dimensions.push_back(Number<std::uint64_t>());
      }
      tensor.type = Number<std::uint32_t>();
      offsets.push_back(Number<std::uint64_t>());
    }
    read.header_bytes = (at_ + 31) / 32 * 32;
    std::uint64_t reached = 0;
    for (std::uint64_t i = 0; i < tensors; ++i) {
      GgufTensorRead& tensor = read.tensors[read.names[i]];
      EXPECT_EQ(offsets[i] % 32, 0u);
      EXPECT_EQ(offsets[i], reached) << read.names[i];
      const std::uint64_t size = tensor.type == 0   ? 4 * tensor.values()
                                 : tensor.type == 1 ? 2 * tensor.values()
                                                    : tensor.values() / 32 * 34;
      at_ = read.header_bytes + offsets[i];
      tensor.bytes = Take(size);
      reached = (offsets[i] + size + 31) / 32 * 32;
    }
    EXPECT_EQ(read.header_bytes + reached, bytes_.size());
    return read;
  }

 private:
  std::string Take(std::size_t size) {
    EXPECT_LE(at_ + size, bytes_.size());
    std::string taken = at_ < bytes_.size() ? bytes_.substr(at_, size) : "";
    taken.resize(size);
    at_ += size;
    return taken;
  }
  template <typename T>
  T Number() {
    T value;
    std::memcpy(&value, Take(sizeof(T)).data(), sizeof(T));
    return value;
  }
  std::string Text() { return Take(Number<std::uint64_t>()); }
  std::string Value(std::uint32_t type) {
    switch (type) {
      case 4: return std::to_string(Number<std::uint32_t>());
      case 5: return std::to_string(Number<std::int32_t>());
      case 6: return std::to_string(Number<float>());
      case 7: return Number<std::uint8_t>() == 1 ? "true" : "false";
      case 8: return Text();
      default: break;
    }
    EXPECT_EQ(type, 9u);
    const auto element = Number<std::uint32_t>();
    const auto size = Number<std::uint64_t>();
    std::string all;
    for (std::uint64_t i = 0; i < size; ++i) all += Value(element) + "|";
    return all;
  }

  const std::string bytes_;
  std::size_t at_ = 0;
};

inline double HalfNumber(const char* bytes) {
  std::uint16_t half = 0;
  std::memcpy(&half, bytes, 2);
  const int exponent = (half >> 10) & 31, mantissa = half & 1023;
  const double size =
      exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
  return half & 0x8000 ? -size : size;
}

inline std::vector<double> GgufTensorRead::Numbers() const {
  std::vector<double> numbers;
  for (std::uint64_t i = 0; i < values(); ++i) {
    if (type == 0) {
      float value = 0;
      std::memcpy(&value, bytes.data() + 4 * i, 4);
      numbers.push_back(value);
    } else if (type == 1) {
      numbers.push_back(HalfNumber(bytes.data() + 2 * i));
    } else {
      const char* block = bytes.data() + i / 32 * 34;
      numbers.push_back(HalfNumber(block) * static_cast<signed char>(block[2 + i % 32]));
    }
  }
  return numbers;
}

inline GgufRead ReadGguf(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  EXPECT_TRUE(in.good()) << path;
  return GgufReader({std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()}).Read();
}

}  // namespace shoal::test_support

#endif  // SHOAL_TESTS_SUPPORT_GGUF_READER_H_
