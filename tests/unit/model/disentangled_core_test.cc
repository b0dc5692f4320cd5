// DisentangledCore and its table against scores written as their definition, in fp64.

#include "model/blocks/disentangled_core.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <ostream>
#include <random>
#include <string>
#include <vector>

#include "model/blocks/dropout.h"
#include "model/blocks/relative_table.h"
#include "tests/unit/model/reference_values.h"

namespace shoal::model {
namespace {

struct Case {
  std::string name;
  std::int64_t heads, tokens, size;
  bool key, query;  // which terms by distance there are
  double dropout;
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

constexpr std::int64_t kRows = 2;
constexpr std::uint32_t kLayer = 3;
constexpr double kScale = 0.3;

using Values = std::vector<double>;

// [a, b, c, size], row-major.
struct Grid {
  Grid(std::int64_t first, std::int64_t second, std::int64_t third, std::int64_t last,
       std::mt19937* random = nullptr)
      : shape{first, second, third, last},
        values(static_cast<std::size_t>(first * second * third * last)) {
    std::normal_distribution<float> normal;
    if (random == nullptr) return;
    for (double& value : values) value = normal(*random);
  }
  double* At(std::int64_t first, std::int64_t second, std::int64_t third) {
    return &values[static_cast<std::size_t>(((first * shape[1] + second) * shape[2] + third) *
                                            shape[3])];
  }
  at::Tensor Tensor() const { return ToTensor(values, shape); }
  double Difference(const at::Tensor& tensor) const { return LargestDifference(tensor, values); }
  std::vector<std::int64_t> shape;
  Values values;
};

double Dot(const double* a, const double* b, std::int64_t size) {
  double sum = 0;
  for (std::int64_t i = 0; i < size; ++i) sum += a[i] * b[i];
  return sum;
}

void Add(double factor, const double* from, double* to, std::int64_t size) {
  for (std::int64_t i = 0; i < size; ++i) to[i] += factor * from[i];
}

struct World {
  World(const Case& c, std::mt19937* random)
      : q(kRows, c.heads, c.tokens, c.size, random),
        k(kRows, c.heads, c.tokens, c.size, random),
        v(kRows, c.heads, c.tokens, c.size, random),
        key(1, c.heads, 2 * c.tokens - 1, c.size, random),
        query(1, c.heads, 2 * c.tokens - 1, c.size, random) {}
  Grid q, k, v, key, query;
};

// One query of one head: its scores with all keys, their probabilities, and all gradients.
void Attend(const Case& c, std::int64_t row, std::int64_t head, std::int64_t query,
            const std::vector<std::uint8_t>& keep, World* world, Grid* dout, Grid* out,
            World* made) {
  const std::int64_t tokens = c.tokens, size = c.size;
  const auto by_distance = [&](Grid* grid, std::int64_t distance) {
    return grid->At(0, head, distance + tokens - 1);
  };
  double* const asks = world->q.At(row, head, query);
  const auto count = static_cast<std::size_t>(tokens);
  Values weights(count), slopes(count);
  double sum = 0, mean = 0;
  for (std::int64_t key = 0; key < tokens; ++key) {
    double* const told = world->k.At(row, head, key);
    double score = Dot(asks, told, size);
    if (c.key) score += Dot(asks, by_distance(&world->key, key - query), size);
    if (c.query) score += Dot(told, by_distance(&world->query, query - key), size);
    sum += weights[static_cast<std::size_t>(key)] = std::exp(kScale * score);
  }
  for (std::size_t key = 0; key < count; ++key) {
    weights[key] /= sum;
    const std::size_t place =
        (static_cast<std::size_t>(head) * count + static_cast<std::size_t>(query)) * count + key;
    const double factor = keep.empty() ? 1 : keep[place] / (1 - c.dropout);
    const auto at = static_cast<std::int64_t>(key);
    Add(factor * weights[key], world->v.At(row, head, at), out->At(row, head, query), size);
    Add(factor * weights[key], dout->At(row, head, query), made->v.At(row, head, at), size);
    slopes[key] = factor * Dot(dout->At(row, head, query), world->v.At(row, head, at), size);
    mean += weights[key] * slopes[key];
  }
  for (std::int64_t key = 0; key < tokens; ++key) {
    const double weight = weights[static_cast<std::size_t>(key)];
    const double dscore = kScale * weight * (slopes[static_cast<std::size_t>(key)] - mean);
    double* const told = world->k.At(row, head, key);
    Add(dscore, told, made->q.At(row, head, query), size);
    Add(dscore, asks, made->k.At(row, head, key), size);
    if (c.key) {
      Add(dscore, by_distance(&world->key, key - query), made->q.At(row, head, query), size);
      Add(dscore, asks, by_distance(&made->key, key - query), size);
    }
    if (c.query) {
      Add(dscore, by_distance(&world->query, query - key), made->k.At(row, head, key), size);
      Add(dscore, told, by_distance(&made->query, query - key), size);
    }
  }
}

class Disentangling : public testing::TestWithParam<Case> {};

TEST_P(Disentangling, IsTheDefinition) {
  const Case& c = GetParam();
  std::mt19937 random(5);
  World world(c, &random), made(c, nullptr);
  Grid dout(kRows, c.heads, c.tokens, c.size, &random), out(kRows, c.heads, c.tokens, c.size);
  BatchContext context;
  context.rows = kRows;
  context.tokens = c.tokens;
  context.samples = {{7}, {9}};
  context.dropout = c.dropout;
  context.seed = 5;
  for (std::int64_t row = 0; row < kRows; ++row) {
    std::vector<std::uint8_t> keep;
    if (c.dropout > 0) {
      keep.resize(static_cast<std::size_t>(c.heads * c.tokens * c.tokens));
      const SampleId sample = context.samples[static_cast<std::size_t>(row)];
      FillDropoutMask({context.seed, sample, kLayer, DropoutSite::kAttention}, c.dropout, 0, keep);
    }
    for (std::int64_t head = 0; head < c.heads; ++head) {
      for (std::int64_t query = 0; query < c.tokens; ++query) {
        Attend(c, row, head, query, keep, &world, &dout, &out, &made);
      }
    }
  }
  const auto distances = [](bool there, const Grid& grid) {
    return there ? grid.Tensor().squeeze(0) : at::Tensor();
  };
  const DisentangledCore core(kScale, kLayer);
  const DisentangledCore::Inputs inputs = {
      world.q.Tensor(),
      world.k.Tensor(),
      world.v.Tensor(),
      {distances(c.key, world.key), distances(c.query, world.query)}};
  EXPECT_LT(out.Difference(core.Forward(context, inputs)), 1e-5);
  const DisentangledCore::Gradients gradients = core.Backward(context, dout.Tensor(), inputs);
  EXPECT_LT(made.q.Difference(gradients.query), 1e-5);
  EXPECT_LT(made.k.Difference(gradients.key), 1e-5);
  EXPECT_LT(made.v.Difference(gradients.value), 1e-5);
  ASSERT_EQ(gradients.distances.key.defined(), c.key);
  ASSERT_EQ(gradients.distances.query.defined(), c.query);
  if (c.key) {
    EXPECT_LT(made.key.Difference(gradients.distances.key), 1e-5);
  }
  if (c.query) {
    EXPECT_LT(made.query.Difference(gradients.distances.query), 1e-5);
  }
}

// Pieces are of 128 tokens.
INSTANTIATE_TEST_SUITE_P(Cases, Disentangling,
                         testing::Values(Case{"both", 3, 21, 5, true, true, 0},
                                         Case{"pieces", 2, 300, 3, true, true, 0},
                                         Case{"edges", 1, 128, 4, true, true, 0},
                                         Case{"onebehind", 1, 129, 2, true, true, 0},
                                         Case{"dropped", 2, 150, 3, true, true, 0.3},
                                         Case{"queriesdistances", 2, 140, 3, true, false, 0},
                                         Case{"keysdistances", 2, 140, 3, false, true, 0},
                                         Case{"one", 2, 1, 3, true, true, 0},
                                         Case{"none", 2, 9, 3, false, false, 0}),
                         [](const auto& tested) { return tested.param.name; });

std::vector<std::int64_t> PlacesOf(const RelativeSpec& spec, std::int64_t tokens) {
  const at::Tensor places = PlacesOfDistances(spec, tokens);
  const auto* first = places.const_data_ptr<std::int64_t>();
  return {first, first + places.numel()};
}

TEST(RelativeTable, FarDistancesShareRows) {
  RelativeSpec spec;
  spec.span = 3;
  EXPECT_EQ(PlacesOf(spec, 6), (std::vector<std::int64_t>{0, 0, 0, 1, 2, 3, 4, 5, 5, 5, 5}));
  // DeBERTa-v3: 256 buckets up to 512 tokens.
  spec.span = spec.buckets = 256;
  spec.farthest = 512;
  const std::vector<std::int64_t> places = PlacesOf(spec, 512);
  const auto place = [&](std::int64_t distance) {
    return places[static_cast<std::size_t>(distance + 511)] - 256;
  };
  for (const std::int64_t distance : {0, 1, 77, 127, 128}) {
    EXPECT_EQ(place(distance), distance);
    EXPECT_EQ(place(-distance), -distance);
  }
  for (std::int64_t distance = 129; distance < 512; ++distance) {
    // The bucket's border in fp64, where no rounding decides.
    const double exact =
        std::log(static_cast<double>(distance) / 128) / std::log(511.0 / 128) * 127;
    if (std::abs(exact - std::round(exact)) < 1e-3) continue;
    EXPECT_EQ(place(distance), 128 + static_cast<std::int64_t>(std::ceil(exact))) << distance;
    EXPECT_EQ(place(-distance), -place(distance));
  }
  EXPECT_EQ(place(511), 255);
}

}  // namespace
}  // namespace shoal::model
