#include "storage/models/gguf.h"

#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "tests/support/gguf_reader.h"
#include "tests/unit/storage/storage_test_support.h"

namespace shoal::storage {
namespace {

using test_support::GgufRead;
using test_support::ReadGguf;
using ::testing::HasSubstr;

std::string Golden() { return Environment("SHOAL_TEST_DATA") + "/gguf/golden.gguf"; }

const GgufMetadata kMetadata = {
    {"general.architecture", std::string("llama")},
    {"golden.count", std::uint32_t{4'000'000'000}},
    {"golden.number", 0.1F},
    {"golden.yes", true},
    {"golden.no", false},
    {"golden.text", std::string("caf\xc3\xa9 \xe2\x96\x81")},
    {"golden.texts", std::vector<std::string>{"a", "",
                                              "\xc4\xa0"
                                              "b c"}},
    {"golden.numbers", std::vector<float>{1.5F, -2.25F, 3.125F}},
    {"golden.kinds", std::vector<std::int32_t>{1, -3, 6}},
};
const std::vector<GgufTensor> kTensors = {{"vector", GgufType::kF32, {5}},
                                          {"values", GgufType::kF32, {7, 64}},
                                          {"halves", GgufType::kF16, {7, 64}},
                                          {"blocks", GgufType::kQ8_0, {7, 64}}};

std::vector<float> GoldenValues(const std::string& tensor) {
  const std::string bytes = ReadGguf(Golden()).tensors.at(tensor).bytes;
  std::vector<float> values(bytes.size() / 4);
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

TEST(Gguf, TheGoldenFileIsMadeAgainByteForByte) {
  const std::vector<float> vector = GoldenValues("vector"), values = GoldenValues("values");
  TemporaryFolder folder;
  const auto file = GgufFile::Create(folder / "made.gguf", kMetadata, kTensors);
  ASSERT_TRUE(file.ok()) << file.status().ToString();
  ASSERT_OK((*file)->Append(vector));
  for (int tensor = 0; tensor < 3; ++tensor) {
    // In pieces of whole blocks.
    for (std::size_t at = 0; at < values.size(); at += 96) {
      ASSERT_OK((*file)->Append(
          std::span(values).subspan(at, std::min<std::size_t>(96, values.size() - at))));
    }
  }
  EXPECT_EQ(NamesIn(folder.path()).size(), 1u);  // under another name
  EXPECT_FALSE(std::filesystem::exists(folder / "made.gguf"));
  ASSERT_OK((*file)->Commit());
  EXPECT_EQ(ReadAll(folder / "made.gguf"), ReadAll(Golden()));
}

TEST(Gguf, HeaderReadsBack) {
  const GgufRead read = ReadGguf(Golden());
  EXPECT_EQ(read.values.at("golden.texts"),
            "a||\xc4\xa0"
            "b c|");
  EXPECT_EQ(read.values.at("golden.kinds"), "1|-3|6|");
  EXPECT_EQ(read.values.at("golden.count"), "4000000000");
  EXPECT_EQ(read.tensors.at("values").dimensions, (std::vector<std::uint64_t>{64, 7}));
  EXPECT_EQ(BuildGgufHeader(kMetadata, kTensors)->size(), read.header_bytes);
}

// By the definition, in double.
TEST(Gguf, BlocksAreWithinHalfAStep) {
  const GgufRead read = ReadGguf(Golden());
  const std::vector<double> values = read.tensors.at("values").Numbers();
  const std::vector<double> blocks = read.tensors.at("blocks").Numbers();
  for (std::size_t block = 0; block < values.size(); block += 32) {
    double largest = 0;
    for (std::size_t i = 0; i < 32; ++i) largest = std::max(largest, std::fabs(values[block + i]));
    const double step = largest / 127;
    for (std::size_t i = block; i < block + 32; ++i) {
      // Half a step, and what rounding the scale to fp16 moves a code of 127 by.
      EXPECT_NEAR(blocks[i], values[i], 0.5001 * step + 127 * std::max(step / 2048, 3e-8)) << i;
    }
  }
}

std::string EncodeError(GgufType type, float value) {
  std::vector<float> values(32);
  values[7] = value;
  std::vector<std::byte> bytes;
  return EncodeGguf(type, values, "blk.0.x", &bytes).message();
}

TEST(Gguf, ValuesThatATypeCannotHoldAreRefused) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const GgufType type : {GgufType::kF32, GgufType::kF16, GgufType::kQ8_0}) {
    EXPECT_THAT(EncodeError(type, std::nanf("")), HasSubstr("'blk.0.x' has the value"));
    EXPECT_THAT(EncodeError(type, -infinity), HasSubstr("damaged"));
    EXPECT_EQ(EncodeError(type, -65504), "");
  }
  EXPECT_THAT(EncodeError(GgufType::kF16, 65520), HasSubstr("too large for F16"));
  EXPECT_THAT(EncodeError(GgufType::kQ8_0, 1e7F), HasSubstr("too large for Q8_0"));
  EXPECT_EQ(EncodeError(GgufType::kF32, 3e38F), "");
  // The inverse of such a scale is infinite.
  EXPECT_EQ(EncodeError(GgufType::kQ8_0, 1e-44F), "");
}

TEST(Gguf, ShapesAndNamesThatTheFormatLacksAreRefused) {
  const auto error = [](const GgufTensor& tensor) {
    return GgufTensorBytes(tensor).status().message();
  };
  EXPECT_EQ(error({std::string(63, 'x'), GgufType::kF32, {2, 2, 2, 2}}), "");
  EXPECT_THAT(error({std::string(64, 'x'), GgufType::kF32, {2}}), HasSubstr("no place"));
  EXPECT_THAT(error({"", GgufType::kF32, {2}}), HasSubstr("no place"));
  EXPECT_THAT(error({"x", GgufType::kF32, {}}), HasSubstr("no place"));
  EXPECT_THAT(error({"x", GgufType::kF32, {2, 0}}), HasSubstr("no place"));
  EXPECT_THAT(error({"x", GgufType::kF32, {1, 1, 1, 1, 1}}), HasSubstr("no place"));
  EXPECT_THAT(error({"x", GgufType::kQ8_0, {4, 33}}), HasSubstr("have 33 values"));
  const std::vector<GgufTensor> twice = {{"x", GgufType::kF32, {1}}, {"x", GgufType::kF32, {1}}};
  EXPECT_THAT(BuildGgufHeader({}, twice).status().message(), HasSubstr("'x' comes twice"));
  EXPECT_THAT(BuildGgufHeader({{"k", true}, {"k", false}}, {}).status().message(),
              HasSubstr("'k' comes twice"));
}

TEST(Gguf, AnUnfinishedFileLeavesNothing) {
  TemporaryFolder folder;
  {
    const auto file = GgufFile::Create(folder / "made.gguf", kMetadata, kTensors);
    ASSERT_TRUE(file.ok());
    const std::vector<float> bad(5, std::nanf(""));
    EXPECT_FALSE((*file)->Append(bad).ok());
  }
  EXPECT_TRUE(NamesIn(folder.path()).empty());
}

}  // namespace
}  // namespace shoal::storage
