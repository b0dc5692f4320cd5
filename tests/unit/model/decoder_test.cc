// The decoder against the same stage without it, for every family that generates.

#include "model/decoder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/unit/model/stage_pipeline.h"

namespace shoal::model {
namespace {

constexpr double kMost = 1e-5;  // relative; sums run in another order

std::string Families() { return std::string(std::getenv("SHOAL_TEST_DATA")) + "/families"; }

std::vector<std::string> Names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(Families())) {
    const std::string name = entry.path().filename();
    if (name.find("bert") == std::string::npos) names.push_back(name);  // these classify
  }
  std::ranges::sort(names);
  return names;
}

class Decoding : public testing::TestWithParam<std::string> {
 protected:
  explicit Decoding(const std::string& compute = "fp32")
      : pipeline_(Families() + "/" + GetParam(), 1, OptionsOf(compute)),
        ids_(RandomBatch(1, spec().positions, spec().vocabulary, 0, 11).token_ids) {}

  static StageOptions OptionsOf(const std::string& compute) {
    StageOptions options;
    options.compute = compute;
    options.held = ZeroMode::kWeights;
    return options;
  }
  StageModel& stage() { return pipeline_.stage(0); }
  const ModelSpec& spec() const { return pipeline_.spec(); }
  std::span<const std::int32_t> First(std::size_t count) const {
    return std::span<const std::int32_t>(ids_).first(count);
  }
  std::unique_ptr<Decoder> New() { return NewDecoder(stage()).value(); }

  // Without a decoder: of the last of `ids`, or of each.
  std::vector<float> Wanted(std::span<const std::int32_t> ids, bool last_only = true) {
    MicroBatch row;
    row.rows = 1;
    row.tokens = static_cast<std::uint32_t>(ids.size());
    row.samples = {{0}};
    row.token_ids = ids;
    std::vector<float> logits((last_only ? 1 : ids.size()) * spec().vocabulary);
    EXPECT_TRUE(stage().Logits(row, last_only, logits).ok());
    return logits;
  }
  std::vector<float> Got(Decoder* decoder, std::span<const std::int32_t> ids) const {
    std::vector<float> logits(spec().vocabulary);
    const Status status = decoder->NextLogits(ids, logits);
    EXPECT_TRUE(status.ok()) << status.ToString();
    return logits;
  }
  void ExpectSame(Decoder* decoder, std::span<const std::int32_t> ids, double most = kMost) {
    EXPECT_LT(RelativeDifference(Got(decoder, ids), Wanted(ids)), most) << ids.size() << " tokens";
  }

  void ExpectTokenByToken(double most) {
    const auto decoder = New();
    const std::vector<float> whole = Wanted(ids_, false);
    auto wanted = whole.begin();
    for (std::size_t count = 1; count <= ids_.size(); ++count, wanted += spec().vocabulary) {
      EXPECT_LT(RelativeDifference(Got(decoder.get(), First(count)),
                                   {wanted, wanted + spec().vocabulary}),
                most)
          << count << " tokens";
      EXPECT_EQ(decoder->computed(), 1u);
    }
  }

  StagePipeline pipeline_;
  std::vector<std::int32_t> ids_;  // as many as the model has positions
};

TEST_P(Decoding, TokenByTokenIsTheWholeRow) { ExpectTokenByToken(kMost); }

TEST_P(Decoding, ABeginningOfAnyLengthIsOnePass) {
  const std::size_t stride = ids_.size() / 48 + 1;  // two models have hundreds of positions
  for (std::size_t split = 1; split < ids_.size(); split += stride) {
    const auto decoder = New();
    ExpectSame(decoder.get(), First(split));
    EXPECT_EQ(decoder->computed(), split);
    ExpectSame(decoder.get(), ids_);
    EXPECT_EQ(decoder->computed(), ids_.size() - split);
  }
}

TEST_P(Decoding, KeepsWhatTwoTextsShare) {
  const auto decoder = New();
  ExpectSame(decoder.get(), ids_);
  std::vector<std::int32_t> other(ids_.begin(), ids_.end() - 3);
  const std::size_t changed = other.size() / 2;
  other[changed] = (other[changed] + 1) % static_cast<std::int32_t>(spec().vocabulary);
  ExpectSame(decoder.get(), other);
  EXPECT_EQ(decoder->computed(), other.size() - changed);
  ExpectSame(decoder.get(), First(changed));  // all of it is known, its logits are not
  EXPECT_EQ(decoder->computed(), 1u);
  ExpectSame(decoder.get(), std::span(ids_).last(5));
}

TEST_P(Decoding, TheFullRowSlides) {
  const auto decoder = New();
  std::vector<std::int32_t> longer = ids_;
  longer.insert(longer.end(), ids_.begin(), ids_.begin() + 3);
  ExpectSame(decoder.get(), ids_);
  for (std::size_t count = ids_.size() + 1; count <= longer.size(); ++count) {
    const auto row = std::span<const std::int32_t>(longer).first(count);
    EXPECT_LT(RelativeDifference(Got(decoder.get(), row), Wanted(row.last(ids_.size()))), kMost);
  }
}

TEST_P(Decoding, GoesOnBehindAnError) {
  const auto decoder = New();
  ExpectSame(decoder.get(), First(4));
  std::vector<float> logits(spec().vocabulary);
  std::vector<std::int32_t> wrong = ids_;
  wrong[5] = static_cast<std::int32_t>(spec().vocabulary);
  EXPECT_EQ(decoder->NextLogits(wrong, logits).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(decoder->NextLogits({}, logits).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(decoder->NextLogits(First(4), std::span(logits).first(3)).code(),
            StatusCode::kInvalidArgument);
  ExpectSame(decoder.get(), First(6));
}

class DecodingInBf16 : public Decoding {
 protected:
  DecodingInBf16() : Decoding("bf16") {}
};

TEST_P(DecodingInBf16, IsTheWholeRowButForRounding) { ExpectTokenByToken(0.03); }

INSTANTIATE_TEST_SUITE_P(All, Decoding, testing::ValuesIn(Names()),
                         [](const auto& family) { return family.param; });
INSTANTIATE_TEST_SUITE_P(All, DecodingInBf16, testing::ValuesIn(Names()),
                         [](const auto& family) { return family.param; });

// What the tests above are for: windows that end within the row, heads that share keys, caps.
TEST(Decoder, FamiliesHaveWhatIsHard) {
  bool window = false, shared = false, cap = false, learned = false, rotary = false, norm = false;
  for (const std::string& name : Names()) {
    const StagePipeline pipeline(Families() + "/" + name, 1, {});
    const ModelSpec& spec = pipeline.spec();
    learned = learned || spec.embedding.positions.has_value();
    for (const LayerSpec& layer : spec.layer_specs) {
      const AttentionSpec& attention = layer.attention;
      window = window || (attention.window > 0 && 2 * attention.window < spec.positions);
      shared = shared || attention.key_heads < attention.heads;
      cap = cap || attention.soft_cap > 0;
      rotary = rotary || attention.rotary.has_value();
      norm = norm || attention.key_norm.has_value();
    }
  }
  EXPECT_TRUE(window && shared && cap && learned && rotary && norm);
}

TEST(Decoder, WantsAWholeLanguageModel) {
  StagePipeline cut(Families() + "/llama", 2, {});
  EXPECT_EQ(NewDecoder(cut.stage(1)).status().code(), StatusCode::kFailedPrecondition);
  StagePipeline bert(Families() + "/bert", 1, {});
  EXPECT_EQ(NewDecoder(bert.stage(0)).status().code(), StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace shoal::model
