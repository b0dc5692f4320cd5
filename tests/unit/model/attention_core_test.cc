// AttentionCore against attention written as its definition, in fp64.

#include "model/blocks/attention_core.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <ostream>
#include <random>
#include <string>
#include <vector>

#include "tests/unit/model/reference_values.h"
#include "tests/unit/model/test_device.h"

namespace shoal::model {
namespace {

struct Case {
  std::string name;
  std::int64_t heads, key_heads, tokens, size;
  bool causal;
  std::int64_t window;
  double soft_cap, dropout;
  bool whole;              // LibTorch's operator does it
  bool segmented = false;  // rows hold several segments and padding
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

constexpr std::int64_t kRows = 2;
constexpr std::uint32_t kLayer = 3;

using Values = std::vector<double>;

// [rows, heads, tokens, size], row-major.
class Grid {
 public:
  Grid(std::int64_t heads, const Case& c, std::mt19937* random = nullptr)
      : heads_(heads),
        tokens_(c.tokens),
        size_(c.size),
        values_(static_cast<std::size_t>(kRows * heads * c.tokens * c.size)) {
    std::normal_distribution<float> normal;
    if (random == nullptr) return;
    for (double& value : values_) value = normal(*random);
  }
  double& At(std::int64_t row, std::int64_t head, std::int64_t token, std::int64_t i) {
    return values_[static_cast<std::size_t>(((row * heads_ + head) * tokens_ + token) * size_ + i)];
  }
  at::Tensor Tensor(at::ScalarType dtype) const {
    return ToTensor(values_, {kRows, heads_, tokens_, size_}, dtype);
  }
  double Difference(const at::Tensor& tensor) const { return LargestDifference(tensor, values_); }

 private:
  std::int64_t heads_, tokens_, size_;
  Values values_;
};

// Two segments and padding behind them; in the other row padding, a token and the rest.
std::vector<std::int32_t> Numbers(const Case& c) {
  std::vector<std::int32_t> numbers;
  for (std::int64_t token = 0; token < c.tokens; ++token) {
    numbers.push_back(token < c.tokens / 3 ? 0 : token < c.tokens - 4 ? 1 : -1);
  }
  for (std::int64_t token = 0; token < c.tokens; ++token) {
    numbers.push_back(token < 2 ? -1 : token == 2 ? 7 : 3);
  }
  return numbers;
}

BatchContext ContextOf(const Case& c) {
  BatchContext context;
  context.rows = kRows;
  context.tokens = c.tokens;
  context.samples = {{7}, {9}};
  context.dropout = c.dropout;
  context.seed = 5;
  if (c.segmented) context.segments = FindSegments(Numbers(c), c.tokens).value();
  return context;
}

// `numbers`: Numbers(c).
bool Sees(const Case& c, const std::vector<std::int32_t>& numbers, std::int64_t row,
          std::int64_t query, std::int64_t key) {
  if (c.segmented) {
    const auto of = [&](std::int64_t token) {
      return numbers[static_cast<std::size_t>(row * c.tokens + token)];
    };
    if (of(query) < 0 || of(query) != of(key)) return false;
  }
  if (c.causal && key > query) return false;
  return c.window == 0 || key > query - c.window;
}

struct Reference {
  Grid out, dquery, dkey, dvalue;
};

// Attention of one query, and what the gradient of its result gives.
void Attend(const Case& c, double scale, std::int64_t row, std::int64_t head, std::int64_t query,
            const std::vector<std::uint8_t>& keep, Grid* q, Grid* k, Grid* v, Grid* gradient,
            Reference* made) {
  const std::int64_t group = head / (c.heads / c.key_heads);
  const auto tokens = static_cast<std::size_t>(c.tokens);
  const std::vector<std::int32_t> numbers = Numbers(c);
  Values weights(tokens), slopes(tokens), dweights(tokens);
  double sum = 0;
  for (std::int64_t key = 0; key < c.tokens; ++key) {
    if (!Sees(c, numbers, row, query, key)) continue;
    double score = 0;
    for (std::int64_t i = 0; i < c.size; ++i) {
      score += q->At(row, head, query, i) * k->At(row, group, key, i) * scale;
    }
    const double capped = c.soft_cap > 0 ? c.soft_cap * std::tanh(score / c.soft_cap) : score;
    const auto at = static_cast<std::size_t>(key);
    slopes[at] = c.soft_cap > 0 ? 1 - std::pow(capped / c.soft_cap, 2) : 1;
    sum += weights[at] = std::exp(capped);
  }
  if (sum == 0) return;  // padding
  double mean = 0;
  for (std::size_t key = 0; key < tokens; ++key) {
    weights[key] /= sum;
    const std::size_t place =
        (static_cast<std::size_t>(head) * tokens + static_cast<std::size_t>(query)) * tokens + key;
    const double factor = keep.empty() ? 1 : keep[place] / (1 - c.dropout);
    for (std::int64_t i = 0; i < c.size; ++i) {
      const auto at = static_cast<std::int64_t>(key);
      const double dout = gradient->At(row, head, query, i);
      made->out.At(row, head, query, i) += factor * weights[key] * v->At(row, group, at, i);
      made->dvalue.At(row, group, at, i) += factor * weights[key] * dout;
      dweights[key] += factor * dout * v->At(row, group, at, i);
    }
    mean += weights[key] * dweights[key];
  }
  for (std::size_t key = 0; key < tokens; ++key) {
    const double dscore = weights[key] * (dweights[key] - mean) * slopes[key] * scale;
    const auto at = static_cast<std::int64_t>(key);
    for (std::int64_t i = 0; i < c.size; ++i) {
      made->dquery.At(row, head, query, i) += dscore * k->At(row, group, at, i);
      made->dkey.At(row, group, at, i) += dscore * q->At(row, head, query, i);
    }
  }
}

// The largest differences of the result and the gradients, in parts of the largest value.
struct Differences {
  double out, dquery, dkey, dvalue;
};

class AttentionCoreTest : public testing::TestWithParam<Case> {
 protected:
  static Differences From(const Case& c, at::ScalarType dtype);
};

Differences AttentionCoreTest::From(const Case& c, at::ScalarType dtype) {
  std::mt19937 random(1);
  Grid q(c.heads, c, &random), k(c.key_heads, c, &random), v(c.key_heads, c, &random);
  Grid gradient(c.heads, c, &random);
  const BatchContext context = ContextOf(c);
  AttentionSpec spec;
  spec.heads = c.heads;
  spec.key_heads = c.key_heads;
  spec.head_size = c.size;
  spec.causal = c.causal;
  spec.window = c.window;
  spec.soft_cap = c.soft_cap;
  spec.scale = c.size < 64 ? 0.7 : 0.1;
  Reference wanted{Grid(c.heads, c), Grid(c.heads, c), Grid(c.key_heads, c), Grid(c.key_heads, c)};
  for (std::int64_t row = 0; row < kRows; ++row) {
    std::vector<std::uint8_t> keep;
    if (c.dropout > 0) {
      keep.resize(static_cast<std::size_t>(c.heads * c.tokens * c.tokens));
      FillDropoutMask({context.seed, context.samples[static_cast<std::size_t>(row)], kLayer,
                       DropoutSite::kAttention},
                      c.dropout, 0, keep);
    }
    for (std::int64_t at = 0; at < c.heads * c.tokens; ++at) {
      Attend(c, spec.scale, row, at / c.tokens, at % c.tokens, keep, &q, &k, &v, &gradient,
             &wanted);
    }
  }
  const AttentionCore core(spec, kLayer);
  if (TestDevice() == "cpu") {
    const BatchContext looked_at = c.segmented ? context.Of(context.segments[0]) : context;
    EXPECT_EQ(core.Whole(looked_at, at::kCPU), c.whole);
  }
  AttentionCore::Kept kept;
  const at::Tensor out =
      core.Forward(context, q.Tensor(dtype), k.Tensor(dtype), v.Tensor(dtype), &kept);
  const AttentionCore::Gradients got = core.Backward(context, gradient.Tensor(dtype), &kept);
  EXPECT_FALSE(kept.query.defined());
  return {wanted.out.Difference(out), wanted.dquery.Difference(got.query),
          wanted.dkey.Difference(got.key), wanted.dvalue.Difference(got.value)};
}

TEST_P(AttentionCoreTest, IsItsDefinition) {
  const Differences found = From(GetParam(), at::kFloat);
  EXPECT_LT(found.out, 1e-5);
  EXPECT_LT(found.dquery, 1e-5);
  EXPECT_LT(found.dkey, 1e-5);
  EXPECT_LT(found.dvalue, 1e-5);
}

// Inputs, scores and results are rounded to 8 bits.
TEST_P(AttentionCoreTest, IsItsDefinitionInBf16) {
  const Differences found = From(GetParam(), at::kBFloat16);
  EXPECT_LT(found.out, 2e-2);
  EXPECT_LT(found.dquery, 2e-2);
  EXPECT_LT(found.dkey, 2e-2);
  EXPECT_LT(found.dvalue, 2e-2);
}

INSTANTIATE_TEST_SUITE_P(
    Cases, AttentionCoreTest,
    testing::Values(Case{"Causal", 3, 3, 37, 8, true, 0, 0, 0, true},
                    Case{"Bidirectional", 3, 3, 37, 8, false, 0, 0, 0, true},
                    Case{"SharedKeys", 6, 2, 37, 5, true, 0, 0, 0, true},
                    Case{"WindowBeyondTheRow", 2, 2, 20, 8, true, 20, 0, 0, true},
                    // More queries than a piece has.
                    Case{"Window", 2, 1, 300, 4, true, 9, 0, 0, false},
                    Case{"WideWindow", 2, 2, 300, 4, true, 150, 0, 0, false},
                    Case{"OneToken", 2, 2, 30, 4, true, 1, 0, 0, false},
                    Case{"SoftCap", 4, 2, 140, 4, true, 0, 1.5, 0, false},
                    Case{"Dropout", 4, 2, 141, 3, true, 0, 0, 0.3, false},
                    Case{"BidirectionalDropout", 2, 2, 130, 3, false, 0, 0, 0.3, false},
                    Case{"All", 4, 1, 150, 3, true, 40, 2, 0.2, false},
                    Case{"Heads64", 4, 2, 200, 64, true, 0, 0, 0, true},
                    Case{"Heads128BothWays", 4, 4, 130, 128, false, 0, 0, 0, true},
                    Case{"WindowOfHeads64", 4, 1, 300, 64, true, 100, 0, 0, false},
                    Case{"SegmentsOfHeads64", 4, 2, 150, 64, true, 0, 0, 0, true, true},
                    Case{"SegmentsWindowOfHeads64", 4, 2, 150, 64, true, 20, 0, 0, false, true},
                    Case{"Segments", 6, 2, 37, 5, true, 0, 0, 0, true, true},
                    Case{"SegmentsBothWays", 3, 3, 41, 8, false, 0, 0, 0, true, true},
                    // The first segment is shorter than the window.
                    Case{"SegmentsWindow", 2, 1, 60, 4, true, 25, 0, 0, true, true},
                    Case{"SegmentsOfPieces", 2, 1, 450, 4, true, 9, 1.5, 0, false, true},
                    Case{"SegmentsAll", 4, 1, 150, 3, true, 40, 2, 0.2, false, true},
                    Case{"SegmentsDropoutBothWays", 2, 2, 33, 3, false, 0, 0, 0.3, false, true}),
    [](const auto& tested) { return tested.param.name; });

}  // namespace
}  // namespace shoal::model
