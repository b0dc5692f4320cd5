// Directories of classifiers as they lie on disks: without a head, with that of another task, with
// names of older files.

#include "model/families/open_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/file.h"
#include "model/families/fresh_weights.h"
#include "storage/models/safetensors.h"
#include "tests/support/temporary_folder.h"

namespace shoal::model {
namespace {

using ::testing::HasSubstr;

std::vector<float> Floats(const storage::TensorView& view) {
  std::vector<float> values(view.data.size() / sizeof(float));
  std::memcpy(values.data(), view.data.data(), view.data.size());
  return values;
}

class ClassifierDirectory : public testing::TestWithParam<std::string> {
 protected:
  using Rename = std::function<std::optional<std::string>(const std::string& name)>;

  std::string Source() const {
    return test_support::Environment("SHOAL_TEST_DATA") + "/families/" + GetParam();
  }
  // The family's tensors under other names, or without some, and what else a file may have.
  void Write(const Rename& rename, const std::vector<std::string>& others = {}) {
    const auto source = storage::OpenSafetensors(Source() + "/model.safetensors").value();
    std::vector<storage::TensorToWrite> tensors;
    for (const auto& [name, view] : source->tensors()) {
      const std::optional<std::string> written = rename(name);
      if (written) tensors.push_back({*written, view.dtype, view.shape, view.data});
    }
    const float nothing = 0;
    for (const std::string& name : others) {
      tensors.push_back(
          {name, storage::DType::kF32, {1}, std::as_bytes(std::span<const float>(&nothing, 1))});
    }
    ASSERT_TRUE(storage::WriteSafetensors(folder_ / "model.safetensors", tensors, {}).ok());
    const auto config = ReadFile(Source() + "/config.json", 1 << 16);
    ASSERT_TRUE(WriteFileAtomic(folder_ / "config.json", *config).ok());
  }
  static bool OfTheHead(const std::string& name) { return name.starts_with("classifier."); }

  test_support::TemporaryFolder folder_;
};

TEST_P(ClassifierDirectory, WithoutAHeadGetsAFreshOne) {
  const auto without = [](const std::string& name) {
    return OfTheHead(name) || name.find("pooler") != std::string::npos
               ? std::nullopt
               : std::optional<std::string>(name);
  };
  Write(without);
  const auto opened = OpenModel(folder_.path());
  ASSERT_TRUE(opened.ok()) << opened.status().ToString();
  const auto head = opened->directory->Part("head");
  ASSERT_TRUE(head.ok());
  const auto described = opened->spec.PartTensors("head");
  ASSERT_EQ(head->size(), described.size());
  for (const auto& [name, tensor] : described) {
    std::vector<float> wanted(head->at(name).data.size() / sizeof(float));
    InitTensor(tensor, name, 0, wanted);
    EXPECT_EQ(Floats(head->at(name)), wanted) << name;
    EXPECT_EQ(head->at(name).shape, tensor.shape);
  }
  EXPECT_EQ(opened->directory->FreshTensors().size(), described.size());
  const std::vector<std::string> notes = NotesOn(*opened->directory);
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_THAT(notes[0], HasSubstr(opened->spec.head.output.weight));
  EXPECT_TRUE(NotesOn(*OpenModel(Source())->directory).empty());
}

TEST_P(ClassifierDirectory, WithHalfAHeadIsRefused) {
  const std::string lost = GetParam() == "bert" ? "classifier.bias" : "classifier.dense.weight";
  Write([&](const std::string& name) {
    return name == lost ? std::nullopt : std::optional<std::string>(name);
  });
  const auto opened = OpenModel(folder_.path());
  ASSERT_FALSE(opened.ok());
  EXPECT_THAT(opened.status().message(), HasSubstr(lost + "' is missing"));
}

TEST_P(ClassifierDirectory, OlderNamesAndOtherHeadsAreKnown) {
  const auto old = [](const std::string& name) {
    std::string written = name;
    const auto end = [&](const std::string& today, const std::string& then) {
      if (!written.ends_with(today)) return;
      written.replace(written.size() - today.size(), today.size(), then);
    };
    end("LayerNorm.weight", "LayerNorm.gamma");
    end("LayerNorm.bias", "LayerNorm.beta");
    return std::optional<std::string>(written);
  };
  const std::string prefix = GetParam() + ".";
  std::vector<std::string> others = {prefix + "embeddings.position_ids"};
  if (GetParam() == "bert") {
    others.insert(others.end(), {"cls.predictions.bias", "cls.predictions.transform.dense.weight",
                                 "cls.seq_relationship.weight"});
  } else {
    others.insert(others.end(),
                  {"lm_head.bias", "lm_head.dense.weight", prefix + "pooler.dense.bias"});
  }
  Write(old, others);
  const auto opened = OpenModel(folder_.path());
  ASSERT_TRUE(opened.ok()) << opened.status().ToString();
  const auto whole = OpenModel(Source());
  for (const std::string& part : opened->spec.PartNames()) {
    const auto got = opened->directory->Part(part), wanted = whole->directory->Part(part);
    ASSERT_EQ(got->size(), wanted->size());
    for (const auto& [name, view] : *wanted) EXPECT_EQ(Floats(got->at(name)), Floats(view)) << name;
  }
}

TEST_P(ClassifierDirectory, OtherTensorsAreStillRefused) {
  Write([](const std::string& name) { return std::optional<std::string>(name); },
        {"classifier.extra"});
  const auto opened = OpenModel(folder_.path());
  ASSERT_FALSE(opened.ok());
  EXPECT_THAT(opened.status().message(), HasSubstr("'classifier.extra' belongs to no part"));
}

INSTANTIATE_TEST_SUITE_P(Families, ClassifierDirectory, testing::Values("bert", "roberta"),
                         [](const auto& family) { return family.param; });

}  // namespace
}  // namespace shoal::model
