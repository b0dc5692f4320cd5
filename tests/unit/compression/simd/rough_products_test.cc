#include "compression/simd/rough_products.h"

#include <gtest/gtest.h>

#include <vector>

#include "compression/simd/low_rank_kernels.h"
#include "tests/unit/compression/matrix_reference.h"
#include "tests/unit/compression/simd_levels.h"

namespace shoal::compression {
namespace {

using reference::Matrix;
using reference::Product;
using reference::RelativeDistance;
using reference::Transposed;

// Around the sizes of blocks (64) and tiles (4 results by 24 columns).
TEST(RoughProducts, AgreeWithThoseInDoubleAtEveryLevel) {
  constexpr std::size_t kSides[][2] = {{1, 1},   {1, 65},  {65, 1},   {3, 5},
                                       {64, 64}, {67, 63}, {130, 67}, {128, 129}};
  for (const auto& sides : kSides) {
    const std::size_t rows = sides[0], columns = sides[1];
    const auto m = reference::Normal(rows * columns, rows + columns);
    const Matrix exact(m, rows);
    for (const std::size_t width : {8, 16, 24, 40, 72}) {
      SCOPED_TRACE(testing::Message() << rows << "x" << columns << " by " << width);
      const auto q = reference::Normal(columns * width, 2);
      const auto p = reference::Normal(rows * width, 3);
      const Matrix times = Product(exact, Matrix(q, columns));
      const Matrix transposed = Product(Transposed(exact), Matrix(p, rows));
      AtEveryLevel([&] {
        // What stood there before does not count.
        std::vector<float> mq(rows * width, 7.0F), mtp(columns * width, 7.0F);
        RoughTimesFactor(m.data(), rows, columns, q.data(), width, mq.data());
        RoughTransposedTimesFactor(m.data(), rows, columns, p.data(), width, mtp.data());
        EXPECT_LT(RelativeDistance(mq, times), 1e-6);
        EXPECT_LT(RelativeDistance(mtp, transposed), 1e-6);
      });
    }
  }
}

}  // namespace
}  // namespace shoal::compression
