#include "storage/models/model_export.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "storage/models/float_bytes.h"
#include "tests/unit/storage/storage_test_support.h"

namespace shoal::storage {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

class ExportTest : public ::testing::Test {
 protected:
  void WriteModel(const TensorSet& set) {
    ASSERT_OK(WriteSafetensors(folder_ / "model.safetensors", set.list, {{"format", "pt"}}));
  }
  // Opens folder_, writes its parts to parts_ and returns options that export them.
  ExportOptions Prepare() {
    source_ = *OpenModelDirectory(folder_.path(), layout_);
    ExportOptions options;
    options.path = out_ / "exported";
    options.config_json = config_;
    options.model_card = "# card\n";
    part_files_.clear();
    for (const ModelLayout::Part& part : layout_.parts) {
      part_files_.push_back(parts_ / part.name);
      EXPECT_OK(WritePart(part_files_.back(), *source_->Part(part.name)));
    }
    return options;
  }
  Status Export(const ExportOptions& options) {
    const auto tensors = OpenParts(layout_, part_files_);
    return tensors.ok() ? ExportModelDirectory(layout_, *tensors, options) : tensors.status();
  }
  // Of the exported file, by its name there.
  TensorView Exported(const std::string& name) {
    exported_ = *OpenSafetensors(out_ / "exported/model.safetensors");
    return exported_->tensors().at(name);
  }
  TemporaryFolder folder_;
  ModelLayout layout_ = TinyLayout();
  std::vector<std::string> part_files_;
  std::shared_ptr<const SafetensorsFile> exported_;
  std::string config_ = R"({"architectures":["GPT2LMHeadModel"]})";
  std::shared_ptr<const ModelDirectory> source_;
  TemporaryFolder parts_;
  TemporaryFolder out_;
};

TEST_F(ExportTest, ExportOfPartsEqualsTheSource) {
  for (const bool tied : {true, false}) {
    layout_ = TinyLayout(tied);
    TensorSet set = TinyTensors(layout_, "", DType::kF32);
    WriteModel(set);
    WriteAll(folder_ / "vocab.json", "{}");
    WriteAll(folder_ / "chat_template.jinja", "{{ messages }}");
    ExportOptions options = Prepare();
    options.extra_files = source_->TokenizerFiles();
    ASSERT_OK(Export(options));
    EXPECT_EQ(NamesIn(options.path),
              (std::vector<std::string>{"MODEL_CARD.md", "chat_template.jinja", "config.json",
                                        "model.safetensors", "vocab.json"}));
    EXPECT_EQ(NamesIn(out_.path()), std::vector<std::string>{"exported"});
    EXPECT_EQ(ReadAll(options.path + "/config.json"), config_);
    EXPECT_EQ(ReadAll(options.path + "/MODEL_CARD.md"), "# card\n");
    const auto file = OpenSafetensors(options.path + "/model.safetensors");
    ASSERT_TRUE(file.ok());
    EXPECT_EQ((*file)->metadata().at("format"), "pt");
    EXPECT_EQ((*file)->tensors().size(), set.list.size());
    for (const auto& [name, want] : set.bytes) {
      const std::string stored = name == "lm_head.weight" ? name : "transformer." + name;
      ASSERT_EQ((*file)->tensors().count(stored), 1u) << stored;
      const auto& data = (*file)->tensors().at(stored).data;
      ASSERT_EQ(data.size(), want.size());
      EXPECT_EQ(std::memcmp(data.data(), want.data(), want.size()), 0);
    }
    EXPECT_TRUE(OpenModelDirectory(options.path, layout_).ok());
    std::filesystem::remove_all(options.path);
  }
}

TEST_F(ExportTest, ConfigSaysWhatWasExported) {
  config_ = R"({"architectures":["GPT2Model"],"torch_dtype":"float16","x":[1,2]})";
  WriteModel(TinyTensors(layout_, "", DType::kBF16));
  const ExportOptions options = Prepare();
  ASSERT_OK(Export(options));
  json want = json::parse(config_);
  want["architectures"] = {"GPT2LMHeadModel"};
  want["torch_dtype"] = "bfloat16";
  EXPECT_EQ(json::parse(ReadAll(options.path + "/config.json")), want);
}

TEST_F(ExportTest, NeverWritesOverAnything) {
  WriteModel(TinyTensors(layout_, "", DType::kF32));
  const ExportOptions options = Prepare();
  std::filesystem::create_directory(options.path);
  WriteAll(options.path + "/mine", "mine");
  EXPECT_EQ(Export(options).code(), StatusCode::kAlreadyExists);
  EXPECT_EQ(NamesIn(options.path), std::vector<std::string>{"mine"});
  std::filesystem::remove(options.path + "/mine");
  EXPECT_OK(Export(options));  // an empty folder is fine
  EXPECT_EQ(NamesIn(out_.path()), std::vector<std::string>{"exported"});
}

TEST_F(ExportTest, FailuresLeaveNothing) {
  WriteModel(TinyTensors(layout_, "", DType::kF32));
  const ExportOptions good = Prepare();
  const auto error = [&](const ExportOptions& options) {
    const Status status = Export(options);
    EXPECT_FALSE(status.ok());
    EXPECT_TRUE(NamesIn(out_.path()).empty());
    return status.message();
  };
  const std::vector<std::string> parts = part_files_;
  part_files_.pop_back();
  EXPECT_THAT(error(good), HasSubstr("4 parts, but 3"));
  part_files_ = parts;
  std::swap(part_files_[1], part_files_[2]);
  EXPECT_THAT(error(good), HasSubstr("is not part 'layer.0'"));
  part_files_ = parts;
  ExportOptions bad = good;
  WriteAll(folder_ / "config.json", "{}");
  bad.extra_files = {folder_ / "config.json"};
  EXPECT_THAT(error(bad), HasSubstr("'config.json' is taken"));
  bad = good;
  bad.extra_files = {folder_ / "none.json"};
  EXPECT_THAT(error(bad), HasSubstr("none.json"));
  // A tied head that has drifted from the embedding.
  std::string head = ReadAll(parts.back());
  head.back() = static_cast<char>(head.back() ^ 1);
  WriteAll(parts.back(), head);
  EXPECT_THAT(error(good), HasSubstr("differs from that of an earlier part"));
}

// The nearest fp32 value that a format has, found among its neighbours.
float Nearest(DType dtype, float value) {
  float best = 0;
  std::uint16_t best_bits = 0;
  const double wanted = value;
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto stored = static_cast<std::uint16_t>(bits);
    std::byte bytes[2];
    std::memcpy(bytes, &stored, 2);
    float candidate = 0;
    ReadFloats(dtype, bytes, std::span(&candidate, 1));
    if (!std::isfinite(candidate)) continue;
    const double off = std::fabs(candidate - wanted), best_off = std::fabs(best - wanted);
    if (off < best_off || (off == best_off && best_bits % 2 == 1)) {
      best = candidate;
      best_bits = stored;
    }
  }
  return best;
}

TEST_F(ExportTest, FormatsAreTheAskedOnesRoundedToNearestEven) {
  TensorSet set = TinyTensors(layout_, "", DType::kF32);
  std::vector<float> values = {1.0F,  -0.1F, 3.14159F, 1.00390625F, 1.01171875F, 65504,
                               1e-6F, 2049,  2051,     -0.0F,       12345.678F,  0.3333333F};
  for (TensorToWrite& tensor : set.list) {
    std::string& bytes = set.bytes.at(tensor.name);
    for (std::size_t i = 0; i < bytes.size() / 4; ++i) {
      std::memcpy(bytes.data() + 4 * i, &values[i % values.size()], 4);
    }
  }
  WriteModel(set);
  ExportOptions options = Prepare();
  for (const ModelLayout::Part& part : layout_.parts) {
    for (const auto& [name, shape] : part.tensors) options.dtypes[name] = DType::kBF16;
  }
  options.dtypes["ln_f.weight"] = DType::kF32;
  options.dtypes["wpe.weight"] = DType::kF16;
  ASSERT_OK(Export(options));
  for (const TensorToWrite& tensor : set.list) {
    const DType want = options.dtypes.at(tensor.name);
    const TensorView made = Exported("transformer." + tensor.name);
    EXPECT_EQ(made.dtype, want) << tensor.name;
    std::vector<float> got(made.data.size() / DTypeBytes(want));
    ReadFloats(want, made.data, got);
    for (std::size_t i = 0; i < got.size(); ++i) {
      const float value = values[i % values.size()];
      EXPECT_EQ(got[i], want == DType::kF32 ? value : Nearest(want, value)) << tensor.name << i;
    }
  }
  // The format of most values, in a config that said nothing.
  EXPECT_EQ(json::parse(ReadAll(options.path + "/config.json"))["torch_dtype"], "bfloat16");
}

// More values than are in memory at a time.
TEST_F(ExportTest, LongTensorsAreConvertedPieceByPiece) {
  layout_ = TinyLayout(true, 100'003);
  TensorSet set = TinyTensors(layout_, "", DType::kBF16);
  for (auto& [name, bytes] : set.bytes) {
    for (std::size_t i = 0; i < bytes.size(); i += 2) bytes[i + 1] &= 0x3f;  // finite
  }
  WriteModel(set);
  ExportOptions options = Prepare();
  options.dtypes["wte.weight"] = DType::kF32;
  ASSERT_OK(Export(options));
  const TensorView made = Exported("transformer.wte.weight");
  const std::string& source = set.bytes.at("wte.weight");
  ASSERT_EQ(made.data.size(), 2 * source.size());
  for (std::size_t i = 0; i < source.size() / 2; ++i) {
    // The upper half of fp32, which is all that bf16 has.
    ASSERT_EQ(std::memcmp(made.data.data() + 4 * i + 2, source.data() + 2 * i, 2), 0) << i;
  }
}

TEST_F(ExportTest, AValueThatAFormatCannotHoldIsRefused) {
  TensorSet set = TinyTensors(layout_, "", DType::kF32);
  for (auto& [name, bytes] : set.bytes) std::fill(bytes.begin(), bytes.end(), '\0');
  const float large = 70000;
  std::memcpy(set.bytes.at("ln_f.weight").data() + 8, &large, 4);
  WriteModel(set);
  ExportOptions options = Prepare();
  options.dtypes["ln_f.weight"] = DType::kF16;
  const Status status = Export(options);
  EXPECT_THAT(status.message(), HasSubstr("'ln_f.weight' has the value 70000"));
  EXPECT_THAT(status.message(), HasSubstr("--dtype fp32"));
  EXPECT_TRUE(NamesIn(out_.path()).empty());
  options.dtypes["ln_f.weight"] = DType::kBF16;
  EXPECT_OK(Export(options));
}

TEST(ConfigFormat, IsWhatTheFileSays) {
  EXPECT_EQ(ConfigFormat(R"({"torch_dtype":"bfloat16"})"), DType::kBF16);
  EXPECT_EQ(ConfigFormat(R"({"dtype":"float16","torch_dtype":"float32"})"), DType::kF16);
  EXPECT_EQ(ConfigFormat(R"({"dtype":"float64"})"), std::nullopt);
  EXPECT_EQ(ConfigFormat(R"({"dtype":3})"), std::nullopt);
  EXPECT_EQ(ConfigFormat("{}"), std::nullopt);
  EXPECT_EQ(ConfigFormat("["), std::nullopt);
}

}  // namespace
}  // namespace shoal::storage
