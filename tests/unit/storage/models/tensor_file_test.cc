#include "storage/models/tensor_file.h"

#include <gmock/gmock.h>

#include <array>

#include "tests/unit/storage/storage_test_support.h"

namespace shoal::storage {
namespace {

using ::testing::HasSubstr;

TEST(TensorFile, WrittenInPiecesInAnyOrderIsWhatIsWrittenAtOnce) {
  const TemporaryFolder folder;
  std::vector<std::byte> data(6 * 5 * 4 + 7 * 2);
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::byte>(i * 37);
  const std::vector<TensorToWrite> tensors = {
      {"b", DType::kF32, {6, 5}, std::span(data).first(120)},
      {"a", DType::kF16, {7}, std::span(data).subspan(120)}};
  const std::map<std::string, std::string> metadata = {{"part", "layer.3"}};
  ASSERT_OK(WriteSafetensors(folder.path() + "/whole", tensors, metadata));
  std::vector<TensorToWrite> shapes = tensors;
  for (TensorToWrite& tensor : shapes) tensor.data = {};
  auto file = TensorFile::Create(folder.path() + "/pieces", shapes, metadata);
  ASSERT_OK(file.status());
  ASSERT_OK((*file)->Write(1, 4, tensors[1].data.subspan(4)));
  ASSERT_OK((*file)->Write(0, 40, tensors[0].data.subspan(40)));
  ASSERT_OK((*file)->Write(1, 0, tensors[1].data.first(4)));
  EXPECT_NE(ReadAll(folder.path() + "/pieces"), ReadAll(folder.path() + "/whole"));
  ASSERT_OK((*file)->Write(0, 0, tensors[0].data.first(40)));
  EXPECT_EQ(ReadAll(folder.path() + "/pieces"), ReadAll(folder.path() + "/whole"));
}

TEST(TensorFile, RefusesWhatIsOutsideOfATensor) {
  const TemporaryFolder folder;
  const std::vector<TensorToWrite> tensors = {{"a", DType::kF32, {2}, {}},
                                              {"b", DType::kF32, {2}, {}}};
  auto file = TensorFile::Create(folder.path() + "/file", tensors, {});
  ASSERT_OK(file.status());
  const std::array<std::byte, 8> bytes = {};
  EXPECT_OK((*file)->Write(0, 8, std::span(bytes).first(0)));
  for (const std::uint64_t offset : {std::uint64_t{1}, std::uint64_t{9}, ~std::uint64_t{0}}) {
    EXPECT_THAT((*file)->Write(0, offset, bytes).message(), HasSubstr("are not in"));
  }
  EXPECT_FALSE((*file)->Write(2, 0, std::span(bytes).first(0)).ok());
  EXPECT_THAT(TensorFile::Create(folder.path() + "/no/file", tensors, {}).status().message(),
              HasSubstr("create"));
  const std::vector<TensorToWrite> twice = {tensors[0], tensors[0]};
  EXPECT_THAT(TensorFile::Create(folder.path() + "/twice", twice, {}).status().message(),
              HasSubstr("used twice"));
}

}  // namespace
}  // namespace shoal::storage
