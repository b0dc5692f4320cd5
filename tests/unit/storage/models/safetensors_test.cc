#include "storage/models/safetensors.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>

#include "storage/models/safetensors_header.h"
#include "tests/unit/storage/storage_test_support.h"

namespace shoal::storage {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

std::string VectorsFolder() { return Environment("SHOAL_TEST_DATA") + "/safetensors/"; }

json Manifest() { return json::parse(ReadAll(VectorsFolder() + "manifest.json")); }

template <typename T>
T Element(const TensorView& view, std::size_t i) {
  T value;
  std::memcpy(&value, view.data.data() + i * sizeof(T), sizeof(T));
  return value;
}

// Plain-arithmetic value of a 16-bit float.
double Half(std::uint16_t bits, int exponent_bits) {
  const int fraction_bits = 15 - exponent_bits;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = (bits & 0x7fff) >> fraction_bits;
  const double fraction = std::ldexp(bits & ((1 << fraction_bits) - 1), -fraction_bits);
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  if (exponent == (1 << exponent_bits) - 1) return sign * std::numeric_limits<double>::infinity();
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias);
  return sign * std::ldexp(1 + fraction, exponent - bias);
}

// An element as the manifest writes it.
json ValueOf(const TensorView& view, std::size_t i) {
  switch (view.dtype) {
    case DType::kF64: return Element<double>(view, i);
    case DType::kF32: return static_cast<double>(Element<float>(view, i));
    case DType::kF16: return Half(Element<std::uint16_t>(view, i), 5);
    case DType::kBF16: {
      const double value = Half(Element<std::uint16_t>(view, i), 8);
      return std::isinf(value) ? json("inf") : json(value);
    }
    case DType::kI64: return std::to_string(Element<std::int64_t>(view, i));
    case DType::kU64: return std::to_string(Element<std::uint64_t>(view, i));
    case DType::kI32: return Element<std::int32_t>(view, i);
    case DType::kU32: return Element<std::uint32_t>(view, i);
    case DType::kI16: return Element<std::int16_t>(view, i);
    case DType::kU16: return Element<std::uint16_t>(view, i);
    case DType::kI8: return Element<std::int8_t>(view, i);
    case DType::kU8: return Element<std::uint8_t>(view, i);
    case DType::kBool: return Element<std::uint8_t>(view, i) != 0;
    default: return nullptr;
  }
}

bool SameValue(const json& got, const json& want) {
  if (got.is_number() && want.is_number()) {
    const double a = got.get<double>();
    const double b = want.get<double>();
    return a == b || std::abs(a - b) <= 1e-6 * std::abs(b);
  }
  return got == want;
}

TEST(SafetensorsVectors, SixGoodFilesAreReadWithTheirValues) {
  int good = 0;
  for (const json& item : Manifest()) {
    if (!item["valid"].get<bool>()) continue;
    ++good;
    const std::string file = item["file"];
    auto opened = OpenSafetensors(VectorsFolder() + file);
    ASSERT_TRUE(opened.ok()) << file << ": " << opened.status().ToString();
    const auto& tensors = (*opened)->tensors();
    EXPECT_EQ(tensors.size(), item["tensors"].size()) << file;
    for (const auto& [name, want] : item["tensors"].items()) {
      ASSERT_EQ(tensors.count(name), 1u) << file << " " << name;
      const TensorView& view = tensors.at(name);
      EXPECT_EQ(DTypeName(view.dtype), want["dtype"].get<std::string>()) << file << " " << name;
      EXPECT_EQ(json(view.shape), want["shape"]) << file << " " << name;
      ASSERT_EQ(view.data.size(), want["values"].size() * DTypeBytes(view.dtype));
      for (std::size_t i = 0; i < want["values"].size(); ++i) {
        EXPECT_TRUE(SameValue(ValueOf(view, i), want["values"][i]))
            << file << " " << name << "[" << i << "] is " << ValueOf(view, i) << ", not "
            << want["values"][i];
      }
    }
  }
  EXPECT_EQ(good, 6);
}

TEST(SafetensorsVectors, TwentyTwoMalformedFilesAreRefusedInOneLine) {
  int bad = 0;
  for (const json& item : Manifest()) {
    if (item["valid"].get<bool>()) continue;
    ++bad;
    const std::string file = item["file"];
    const auto opened = OpenSafetensors(VectorsFolder() + file);
    ASSERT_FALSE(opened.ok()) << file << ": " << item["why"];
    EXPECT_EQ(opened.status().code(), StatusCode::kInvalidArgument) << file;
    EXPECT_THAT(opened.status().message(), HasSubstr(file));
    EXPECT_EQ(opened.status().message().find('\n'), std::string::npos) << file;
    EXPECT_LT(opened.status().message().size(), 500u) << file;
  }
  EXPECT_EQ(bad, 22);
}

std::string FileOf(const std::string& header, const std::string& data) {
  std::string bytes(8, '\0');
  const std::uint64_t size = header.size();
  std::memcpy(bytes.data(), &size, 8);
  return bytes + header + data;
}

TEST(Safetensors, ErrorsNameTheTensorAndTheCause) {
  const std::pair<std::string, std::string> cases[] = {
      {R"({"w":{"dtype":"F33","shape":[2],"data_offsets":[0,8]}})", "unknown dtype 'F33'"},
      {R"({"w":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", "shape holds a negative"},
      {R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0]}})", "not two numbers"},
      {R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8,9]}})", "more than two numbers"},
      {R"({"w":{"dtype":"F32","shape":[2],"shape":[2],"data_offsets":[0,8]}})", "occurs twice"},
      {R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8],"x":1}})", "unknown field 'x'"},
      {R"({"w":{"dtype":"F32","shape":null,"data_offsets":[0,8]}})", "'shape' holds null"},
      {R"({"w":{"dtype":["F32"],"shape":[2],"data_offsets":[0,8]}})", "'dtype' holds an array"},
      {R"({"w":{"dtype":"F32","shape":[[2]],"data_offsets":[0,8]}})", "holds an array"},
      {R"({"w":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", "do not span its 12 bytes"},
      {R"({"__metadata__":{"a":"b"},"__metadata__":{}})", "occurs twice"},
      {R"({"__metadata__":{"a":"b","a":"c"}})", "occurs twice"},
      {R"({"__metadata__":{"a":{}}})", "holds an object"},
      {R"({"w":3})", "entry 'w' is a number"},
      {R"({} x)", "not JSON"},
  };
  for (const auto& [header, cause] : cases) {
    const std::string bytes = FileOf(header, std::string(8, '\0'));
    const auto parsed = ParseSafetensors(Bytes(bytes), "f.safetensors");
    ASSERT_FALSE(parsed.ok()) << header;
    EXPECT_THAT(parsed.status().message(), HasSubstr(cause)) << header;
  }
}

TEST(Safetensors, ForeignNamesDoNotBreakTheLine) {
  const std::string header = R"({"a\nb\u001b[31m)" + std::string(5000, 'x') + R"(":1})";
  const auto parsed = ParseSafetensors(Bytes(FileOf(header, "")), "f");
  ASSERT_FALSE(parsed.ok());
  EXPECT_THAT(parsed.status().message(), HasSubstr("'a?b?[31m"));
  EXPECT_LT(parsed.status().message().size(), 300u);
}

TEST(Safetensors, WritesTheDocumentedBytes) {
  TemporaryFolder folder;
  const std::string a = "\x01\x02\x03";
  const float b[] = {1.0f, -2.0f};
  const TensorToWrite tensors[] = {{"b", DType::kF32, {2}, std::as_bytes(std::span(b))},
                                   {"a", DType::kU8, {3, 1}, Bytes(a)}};
  ASSERT_OK(WriteSafetensors(folder / "x", tensors, {{"format", "pt"}}));
  std::string header = R"({"__metadata__":{"format":"pt"},)"
                       R"("b":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                       R"("a":{"dtype":"U8","shape":[3,1],"data_offsets":[8,11]}})";
  header.append((8 - header.size() % 8) % 8, ' ');
  const std::string data = std::string("\0\0\x80\x3f\0\0\0\xc0", 8) + a;
  EXPECT_EQ(ReadAll(folder / "x"), FileOf(header, data));
  EXPECT_EQ(NamesIn(folder.path()), std::vector<std::string>{"x"});
}

TEST(Safetensors, RoundTripsEveryDTypeAndShape) {
  TemporaryFolder folder;
  TensorSet set;
  int number = 0;
  for (const DType dtype : {DType::kBool, DType::kU8, DType::kI8, DType::kI16, DType::kU16,
                            DType::kI32, DType::kU32, DType::kI64, DType::kU64, DType::kF8E4M3,
                            DType::kF8E5M2, DType::kF16, DType::kBF16, DType::kF32, DType::kF64}) {
    for (const std::vector<std::int64_t>& shape :
         {std::vector<std::int64_t>{}, {0}, {3}, {2, 5}, {1, 0, 7}}) {
      set.Add("t" + std::to_string(number++), dtype, shape);
    }
  }
  ASSERT_OK(WriteSafetensors(folder / "x", set.list, {}));
  auto opened = OpenSafetensors(folder / "x");
  ASSERT_TRUE(opened.ok()) << opened.status().ToString();
  ASSERT_EQ((*opened)->tensors().size(), set.list.size());
  EXPECT_TRUE((*opened)->metadata().empty());
  for (const TensorToWrite& want : set.list) {
    const TensorView& got = (*opened)->tensors().at(want.name);
    EXPECT_EQ(got.dtype, want.dtype);
    EXPECT_EQ(got.shape, want.shape);
    EXPECT_TRUE(std::equal(got.data.begin(), got.data.end(), want.data.begin(), want.data.end()));
  }
}

TEST(Safetensors, WriterRefusesWhatNoReaderTakes) {
  TemporaryFolder folder;
  const std::string data(8, 'x');
  const auto refused = [&](std::vector<TensorToWrite> tensors) {
    const Status status = WriteSafetensors(folder / "x", tensors, {});
    return status.code() == StatusCode::kInvalidArgument && NamesIn(folder.path()).empty();
  };
  EXPECT_TRUE(refused({{"w", DType::kF32, {3}, Bytes(data)}}));
  EXPECT_TRUE(refused({{"w", DType::kF32, {-2}, Bytes(data)}}));
  EXPECT_TRUE(refused({{"__metadata__", DType::kF32, {2}, Bytes(data)}}));
  EXPECT_TRUE(refused({{"\xff", DType::kF32, {2}, Bytes(data)}}));
  EXPECT_TRUE(
      refused({{"w", DType::kF32, {2}, Bytes(data)}, {"w", DType::kF32, {2}, Bytes(data)}}));
}

TEST(Safetensors, AFailedWriteLeavesTheOldFile) {
  TemporaryFolder folder;
  WriteAll(folder / "x", "old");
  const Status status = WriteSafetensors(folder / "missing/x", {}, {});
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  const std::string data(3, 'x');
  const TensorToWrite wrong[] = {{"w", DType::kF32, {1}, Bytes(data)}};
  EXPECT_FALSE(WriteSafetensors(folder / "x", wrong, {}).ok());
  EXPECT_EQ(ReadAll(folder / "x"), "old");
}

TEST(Safetensors, TruncatedAndRandomBytesNeverCrash) {
  const std::string whole = ReadAll(VectorsFolder() + "good_all_dtypes.safetensors");
  ASSERT_FALSE(whole.empty());
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_FALSE(ParseSafetensors(Bytes(whole.substr(0, size)), "f").ok()) << size;
  }
  std::mt19937_64 random(7);
  int accepted = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string bytes = whole;
    for (int flips = 0; flips < 3; ++flips) {
      bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    const auto parsed = ParseSafetensors(Bytes(bytes), "f");
    if (!parsed.ok()) continue;
    ++accepted;
    std::uint64_t total = 0;
    for (const auto& [name, view] : (*parsed)->tensors()) {
      total += view.data.size();
      for (const std::byte b : view.data) total += std::to_integer<std::uint64_t>(b) & 0;
    }
    EXPECT_LE(total, bytes.size());
  }
  EXPECT_GT(accepted, 0);  // flips inside the data are fine
  for (int i = 0; i < 2000; ++i) {
    const std::string bytes = RandomBytes(random, random() % 64);
    EXPECT_FALSE(ParseSafetensors(Bytes(bytes), "f").ok());
  }
}

}  // namespace
}  // namespace shoal::storage
