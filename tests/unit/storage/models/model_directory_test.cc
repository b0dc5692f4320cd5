#include "storage/models/model_directory.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "tests/unit/storage/storage_test_support.h"

namespace shoal::storage {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

class ModelDirectoryTest : public ::testing::Test {
 protected:
  void WriteModel(const TensorSet& set) {
    ASSERT_OK(WriteSafetensors(folder_ / "model.safetensors", set.list, {{"format", "pt"}}));
  }
  std::string OpenError() {
    const auto opened = OpenModelDirectory(folder_.path(), layout_);
    EXPECT_FALSE(opened.ok());
    if (opened.ok()) return "";
    EXPECT_EQ(opened.status().message().find('\n'), std::string::npos);
    return opened.status().message();
  }
  // Every tensor of every part holds the bytes that were written under prefix + name.
  void ExpectModel(const TensorSet& set, const std::string& prefix, DType dtype) {
    const auto opened = OpenModelDirectory(folder_.path(), layout_);
    ASSERT_TRUE(opened.ok()) << opened.status().ToString();
    for (const ModelLayout::Part& part : layout_.parts) {
      const auto tensors = (*opened)->Part(part.name);
      ASSERT_TRUE(tensors.ok()) << tensors.status().ToString();
      EXPECT_EQ(tensors->size(), part.tensors.size());
      for (const auto& [name, view] : *tensors) {
        const auto& want = set.bytes.at((name == "lm_head.weight" ? "" : prefix) + name);
        EXPECT_EQ(view.dtype, dtype);
        ASSERT_EQ(view.data.size(), want.size());
        EXPECT_EQ(std::memcmp(view.data.data(), want.data(), want.size()), 0) << name;
      }
    }
  }
  TemporaryFolder folder_;
  ModelLayout layout_ = TinyLayout();
};

TEST_F(ModelDirectoryTest, PrefixOrNotAndEveryDType) {
  for (const std::string prefix : {"", "transformer."}) {
    for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
      const TensorSet set = TinyTensors(layout_, prefix, dtype);
      WriteModel(set);
      ExpectModel(set, prefix, dtype);
    }
  }
}

TEST_F(ModelDirectoryTest, BuffersAndTheCopyOfATiedHeadAreIgnored) {
  TensorSet set = TinyTensors(layout_, "transformer.", DType::kF32);
  set.Add("transformer.h.0.attn.bias", DType::kU8, {1, 1, 6, 6});
  set.Add("transformer.h.0.attn.masked_bias", DType::kF32, {});
  set.Add("lm_head.weight", DType::kF32, {7, 4});
  set.bytes.at("lm_head.weight") = set.bytes.at("transformer.wte.weight");
  set.list.back().data = Bytes(set.bytes.at("lm_head.weight"));
  WriteModel(set);
  ExpectModel(set, "transformer.", DType::kF32);
}

// A run on such a directory would train wte.weight as head and drop the head that was stored.
TEST_F(ModelDirectoryTest, ATiedHeadThatDiffersIsRefused) {
  const auto error_of = [this](DType dtype, const std::vector<std::int64_t>& shape,
                               std::size_t flipped) {
    TensorSet set = TinyTensors(layout_, "transformer.", DType::kF32);
    set.Add("lm_head.weight", dtype, shape);
    auto& head = set.bytes.at("lm_head.weight");
    if (head.size() == set.bytes.at("transformer.wte.weight").size()) {
      head = set.bytes.at("transformer.wte.weight");
      head.at(flipped) ^= 1;
    }
    set.list.back().data = Bytes(head);
    WriteModel(set);
    return OpenError();
  };
  const std::string values = error_of(DType::kF32, {7, 4}, 7 * 4 * 4 - 1);
  EXPECT_THAT(values, HasSubstr("lm_head.weight is no copy of it (other values from element 27"));
  EXPECT_THAT(values, HasSubstr("\"tie_word_embeddings\": false"));
  EXPECT_THAT(error_of(DType::kF32, {7, 4}, 0), HasSubstr("from element 0 on"));
  EXPECT_THAT(error_of(DType::kF32, {8, 4}, 0), HasSubstr("shape [8, 4] instead of [7, 4]"));
  EXPECT_THAT(error_of(DType::kF16, {7, 4}, 0), HasSubstr("dtype F16 instead of F32"));

  // As the text advises.
  TensorSet set = TinyTensors(layout_, "transformer.", DType::kF32);
  layout_ = TinyLayout(false);
  set.Add("lm_head.weight", DType::kF32, {7, 4});
  WriteModel(set);
  ExpectModel(set, "transformer.", DType::kF32);
}

TEST_F(ModelDirectoryTest, UntiedHead) {
  layout_ = TinyLayout(false);
  const TensorSet set = TinyTensors(layout_, "transformer.", DType::kF32);
  ASSERT_EQ(set.bytes.count("lm_head.weight"), 1u);
  WriteModel(set);
  ExpectModel(set, "transformer.", DType::kF32);
}

TEST_F(ModelDirectoryTest, Sharded) {
  const TensorSet set = TinyTensors(layout_, "transformer.", DType::kBF16);
  std::vector<TensorToWrite> shards[3];
  json map;
  for (std::size_t i = 0; i < set.list.size(); ++i) {
    shards[i % 3].push_back(set.list[i]);
    map[set.list[i].name] = "part-" + std::to_string(i % 3) + ".safetensors";
  }
  for (int i = 0; i < 3; ++i) {
    const std::string name = "part-" + std::to_string(i) + ".safetensors";
    ASSERT_OK(WriteSafetensors(folder_ / name, shards[i], {}));
  }
  const std::string index = folder_ / "model.safetensors.index.json";
  WriteAll(index, json{{"weight_map", map}}.dump());
  ExpectModel(set, "transformer.", DType::kBF16);

  json wrong = map;
  wrong["transformer.wte.weight"] = "../secret";
  WriteAll(index, json{{"weight_map", wrong}}.dump());
  EXPECT_THAT(OpenError(), HasSubstr("no plain file name"));
  wrong["transformer.wte.weight"] = "part-9.safetensors";
  WriteAll(index, json{{"weight_map", wrong}}.dump());
  EXPECT_THAT(OpenError(), HasSubstr("names 'part-9.safetensors', which is not there"));
  WriteAll(index, R"({"weight_map": {"a": "part-0.safetensors", "a": "part-1.safetensors"}})");
  EXPECT_THAT(OpenError(), HasSubstr("'a' twice"));
  wrong = map;
  wrong["no.such"] = "part-0.safetensors";
  WriteAll(index, json{{"weight_map", wrong}}.dump());
  EXPECT_THAT(OpenError(), HasSubstr("'no.such'"));
  wrong = map;
  wrong.erase("transformer.h.1.ln_1.weight");
  WriteAll(index, json{{"weight_map", wrong}}.dump());
  EXPECT_THAT(OpenError(), HasSubstr("'h.1.ln_1.weight' is missing"));
  WriteAll(index, "{}");
  EXPECT_THAT(OpenError(), HasSubstr("weight_map"));
}

TEST_F(ModelDirectoryTest, RefusesWhatDoesNotFit) {
  EXPECT_THAT(OpenError(), HasSubstr("holds neither model.safetensors nor"));
  WriteAll(folder_ / "pytorch_model.bin", "x");
  EXPECT_THAT(OpenError(), HasSubstr("pickle"));

  TensorSet set = TinyTensors(layout_, "", DType::kF32);
  set.list.pop_back();
  WriteModel(set);
  EXPECT_THAT(OpenError(), HasSubstr("is missing"));

  set = TinyTensors(layout_, "", DType::kF32);
  WriteModel(set);
  layout_ = TinyLayout(true, 8);
  EXPECT_THAT(OpenError(), HasSubstr("has shape [7, 4], but config.json asks for [8, 4]"));
  layout_ = TinyLayout();

  set = TinyTensors(layout_, "", DType::kF64);
  WriteModel(set);
  EXPECT_THAT(OpenError(), HasSubstr("dtype F64; supported are"));

  set = TinyTensors(layout_, "", DType::kF32);
  set.Add("h.2.ln_1.weight", DType::kF32, {4});
  WriteModel(set);
  EXPECT_THAT(OpenError(), HasSubstr("'h.2.ln_1.weight' belongs to no part"));

  set = TinyTensors(layout_, "", DType::kF32);
  set.Add("transformer.wpe.weight", DType::kF32, {6, 4});
  WriteModel(set);
  EXPECT_THAT(OpenError(), HasSubstr("both with and without"));

  set = TinyTensors(layout_, "", DType::kF32);
  WriteModel(set);
  const std::string whole = ReadAll(folder_ / "model.safetensors");
  WriteAll(folder_ / "model.safetensors", whole.substr(0, whole.size() - 1));
  EXPECT_THAT(OpenError(), HasSubstr("but the file holds only"));
  EXPECT_EQ(ReadModelConfig(folder_ / "none").status().code(), StatusCode::kNotFound);
}

TEST_F(ModelDirectoryTest, UnknownPartIsNotFound) {
  WriteModel(TinyTensors(layout_, "", DType::kF32));
  const auto opened = OpenModelDirectory(folder_.path(), layout_);
  ASSERT_TRUE(opened.ok());
  EXPECT_EQ((*opened)->Part("layer.2").status().code(), StatusCode::kNotFound);
  EXPECT_TRUE((*opened)->TokenizerFiles().empty());
}

TEST_F(ModelDirectoryTest, DrawsWhatMayLackAsAWhole) {
  layout_.fresh_groups = {{"ln_f.weight"}, {"wpe.weight", "h.0.ln_1.weight"}};
  layout_.draw = [](const std::string& name, std::span<float> values) {
    std::ranges::fill(values, static_cast<float>(name.size()));
  };
  const TensorSet all = TinyTensors(layout_, "", DType::kF16);
  const auto write_without = [&](const std::vector<std::string>& lost) {
    TensorSet set;
    for (const TensorToWrite& tensor : all.list) {
      if (std::ranges::find(lost, tensor.name) == lost.end()) {
        set.Add(tensor.name, tensor.dtype, tensor.shape);
      }
    }
    WriteModel(set);
  };
  write_without({"ln_f.weight"});
  const auto opened = OpenModelDirectory(folder_.path(), layout_);
  ASSERT_TRUE(opened.ok()) << opened.status().ToString();
  EXPECT_EQ((*opened)->FreshTensors(), std::vector<std::string>{"ln_f.weight"});
  const TensorMap head = *(*opened)->Part("head");
  const TensorView& drawn = head.at("ln_f.weight");
  EXPECT_EQ(drawn.dtype, DType::kF32);
  EXPECT_EQ(drawn.shape, std::vector<std::int64_t>{4});
  ASSERT_EQ(drawn.data.size(), 4 * sizeof(float));
  float value = 0;
  std::memcpy(&value, drawn.data.data() + 3 * sizeof(float), sizeof(float));
  EXPECT_EQ(value, 11);
  write_without({"wpe.weight"});
  EXPECT_THAT(OpenError(), HasSubstr("'wpe.weight' is missing"));
  write_without({});
  EXPECT_TRUE((*OpenModelDirectory(folder_.path(), layout_))->FreshTensors().empty());
}

TEST_F(ModelDirectoryTest, OldNamesAndOtherTasksHeads) {
  TensorSet set = TinyTensors(layout_, "transformer.", DType::kF32);
  for (TensorToWrite& tensor : set.list) {
    if (tensor.name == "transformer.ln_f.weight") tensor.name = "transformer.ln_f.gamma";
  }
  set.Add("score.weight", DType::kF32, {2, 4});
  WriteModel(set);
  EXPECT_THAT(OpenError(), HasSubstr("'ln_f.weight' is missing"));
  layout_.old_ends = {{".gamma", ".weight"}};
  EXPECT_THAT(OpenError(), HasSubstr("'score.weight' belongs to no part"));
  layout_.unused_begins = {"score."};
  EXPECT_TRUE(OpenModelDirectory(folder_.path(), layout_).ok());
}

}  // namespace
}  // namespace shoal::storage
