// Lazy error propagation: what the low-rank form of a message leaves out goes into the next one.

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "compression/api/lazy_switch.h"
#include "compression/codecs/low_rank/low_rank.h"
#include "tests/unit/compression/matrix_reference.h"
#include "tests/unit/compression/on_link.h"
#include "tests/unit/compression/reference.h"

namespace shoal::compression {
namespace {

constexpr SampleShape kShape{48, 40};

double Norm(const std::vector<double>& values) { return reference::Norm(values); }

// The sum of what arrived and of the memory is the sum of what was put in.
double Missing(const std::string& spec, unsigned messages, float size) {
  OnLink link(spec, kShape);
  std::vector<double> missing(kShape.values()), put_in(kShape.values());
  for (unsigned i = 0; i < messages; ++i) {
    RandomKey key;
    key.step = i;
    const auto m = reference::Gaussian(kShape.values(), i, size);
    const auto got = link.Send(m, key);
    for (std::size_t v = 0; v < m.size(); ++v) {
      put_in[v] += m[v];
      missing[v] += double{m[v]} - got[v];
    }
  }
  for (std::size_t v = 0; v < missing.size(); ++v) {
    missing[v] -= link.state().error.empty() ? 0.0 : link.state().error[v];
  }
  return Norm(missing) / Norm(put_in);
}

TEST(LowRankLazy, NothingIsLostOverTheMessages) {
  for (const float size : {1.0F, 1e-8F, 1e8F}) {
    EXPECT_LT(Missing("lowrank:rank=4,lazy=on", 100, size), 1e-6);
    EXPECT_LT(Missing("lowrank:rank=4,lazy=on,factors=fp32", 100, size), 1e-6);
    EXPECT_LT(Missing("lowrank:rank=1,lazy=on,factors=fp32", 100, size), 1e-6);
    // It is the memory that does it.
    EXPECT_GT(Missing("lowrank:rank=4,lazy=off", 100, size), 0.1);
  }
}

// The whole of it in double: warm Q, the error passed on, the sum of what arrived.
TEST(LowRankLazy, MessagesAreThoseOfTheAlgorithmInDouble) {
  using reference::Matrix, reference::Orthonormal, reference::Product, reference::Transposed;
  constexpr std::uint32_t kRank = 4;
  OnLink link("lowrank:rank=4,lazy=on,factors=fp32", kShape);
  Matrix q(RandomFactor({}, kShape.hidden, kRank), kShape.hidden);
  Matrix error(kShape.tokens, kShape.hidden), missing = error;
  for (unsigned i = 0; i < 40; ++i) {
    auto values = reference::Normal(kShape.values(), i);
    for (std::size_t v = 0; v < values.size(); ++v) {
      values[v] /= static_cast<float>(1 + v % kShape.hidden);
    }
    Matrix sum(values, kShape.tokens);
    for (std::size_t v = 0; v < values.size(); ++v) sum.values[v] += error.values[v];
    const Matrix p = Orthonormal(Product(sum, Orthonormal(q)));
    q = Product(Transposed(sum), p);
    const Matrix decoded = Product(p, Transposed(q));
    for (std::size_t v = 0; v < values.size(); ++v) {
      error.values[v] = sum.values[v] - decoded.values[v];
      missing.values[v] += values[v] - decoded.values[v];
    }
    const auto got = link.Send(values);
    if (i < 10) {
      EXPECT_LT(reference::RelativeDistance(got, decoded), 2e-5) << i;
    }
  }
  // Nothing is lost in double either: to its own precision.
  for (std::size_t v = 0; v < missing.values.size(); ++v) missing.values[v] -= error.values[v];
  EXPECT_LT(Norm(missing.values) / Norm(error.values), 4e-15);
}

// The step behind an epilogue begins with another form, which takes the error along.
TEST(LowRankLazy, TheNextMessageTakesTheErrorWhateverItsForm) {
  OnLink link("lowrank:rank=4,lazy=on,else=raw:dtype=fp32", kShape);
  std::vector<double> missing(kShape.values()), put_in(kShape.values());
  for (std::uint32_t step = 0; step < 10; ++step) {
    for (std::uint32_t i = 0; i < 8; ++i) {
      link.position() = {4, 1, 8, i};
      const auto m = reference::Gaussian(kShape.values(), step * 8 + i);
      const auto got = link.Send(m);
      EXPECT_EQ(link.state().error.empty(), i < 5);
      for (std::size_t v = 0; v < m.size(); ++v) {
        put_in[v] += m[v];
        missing[v] += double{m[v]} - got[v];
      }
    }
  }
  for (std::size_t v = 0; v < missing.size(); ++v) missing[v] -= link.state().error[v];
  EXPECT_LT(Norm(missing) / Norm(put_in), 1e-6);
}

// Relative error of the weight gradient that 32 micro-batches make. Activations have a part in
// common that gives any two of them this correlation; gradients too, and directions of falling
// size.
double WeightGradientError(const std::string& spec, double rho) {
  constexpr unsigned kMicroBatches = 32;
  constexpr std::size_t kInputs = 24;
  OnLink link(spec, kShape);
  reference::Matrix exact(kShape.hidden, kInputs), got = exact;
  const auto common = reference::Normal(kShape.tokens * kInputs, 500);
  const auto shared = reference::Normal(kShape.values(), 900);
  for (unsigned i = 0; i < kMicroBatches; ++i) {
    auto y = reference::Normal(common.size(), 1000 + i);
    for (std::size_t v = 0; v < y.size(); ++v) {
      y[v] = static_cast<float>(std::sqrt(rho) * common[v] + std::sqrt(1 - rho) * y[v]);
    }
    auto g = reference::Normal(kShape.values(), i);
    for (std::size_t v = 0; v < g.size(); ++v) {
      g[v] = (g[v] + shared[v]) / static_cast<float>(1 + v % kShape.hidden);
    }
    const std::span<const float> view = y;
    const auto arrived = link.Send(g, {}, SampleActivations({&view, 1}));
    for (std::size_t t = 0; t < kShape.tokens; ++t) {
      for (std::size_t h = 0; h < kShape.hidden; ++h) {
        for (std::size_t in = 0; in < kInputs; ++in) {
          exact.at(h, in) += double{g[t * kShape.hidden + h]} * y[t * kInputs + in];
          got.at(h, in) += double{arrived[t * kShape.hidden + h]} * y[t * kInputs + in];
        }
      }
    }
  }
  for (std::size_t v = 0; v < got.values.size(); ++v) got.values[v] -= exact.values[v];
  return reference::Norm(got.values) / reference::Norm(exact.values);
}

TEST(LowRankLazy, HelpsWhereActivationsAreAlikeAndHurtsWhereTheyAreNot) {
  const std::string base = "lowrank:rank=4,epilogue=false,factors=fp32,lazy=";
  const auto error = [&](const char* lazy, double rho) {
    return WeightGradientError(base + lazy, rho);
  };
  EXPECT_GT(error("on", 0), 1.5 * error("off", 0));
  EXPECT_LT(error("on", 0.5), error("off", 0.5));
  EXPECT_LT(error("on", 0.9), 0.5 * error("off", 0.9));
  EXPECT_EQ(error("auto", 0), error("off", 0));
  EXPECT_LT(error("auto", 0.9), 0.6 * error("off", 0.9));
}

}  // namespace
}  // namespace shoal::compression
